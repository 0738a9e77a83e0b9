/* A few functions of libcuda.so.1, for tests on machines without a device. It keeps the rules of the driver API that
   matter to a process which forks: before cuInit everything but cuDriverGetVersion returns 3 (CUDA_ERROR_NOT_INITIALIZED),
   and so it does, for ever, in a child of a process that has called cuInit (triton-lang/triton#10443).

   STUB_DRIVER  how it fails: no_device, too_old, not_permitted, ecc, shrinks (one card fewer than NVML shows)
   STUB_CARDS   how many cards there are (1)
   STUB_LOG     a file to which each cuInit adds a line with its process id */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_VALUE = 1, NOT_INITIALIZED = 3, NO_DEVICE = 100, INVALID_DEVICE = 101, ECC = 214,
       NOT_PERMITTED = 800 };

static pid_t initialised_by = 0;

static int fails(const char *how) {
    const char *said = getenv("STUB_DRIVER");
    return said != NULL && strcmp(said, how) == 0;
}

static int cards(void) {
    const char *said = getenv("STUB_CARDS");
    return (said != NULL ? atoi(said) : 1) - fails("shrinks");
}

int cuInit(unsigned int flags) {
    const char *log = getenv("STUB_LOG");
    char line[32];
    if (log != NULL) {
        int file = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
        if (file >= 0) {
            if (write(file, line, (size_t)snprintf(line, sizeof line, "cuInit %d\n", (int)getpid())) < 0) _exit(70);
            close(file);
        }
    }
    if (flags != 0) return INVALID_VALUE;
    if (initialised_by != 0 && initialised_by != getpid()) return NOT_INITIALIZED;
    if (fails("no_device")) return NO_DEVICE;
    if (fails("not_permitted")) return NOT_PERMITTED;
    initialised_by = getpid();
    return SUCCESS;
}

static int ready(void) { return initialised_by != 0 && initialised_by == getpid(); }

int cuDriverGetVersion(int *version) {
    *version = fails("too_old") ? 11040 : 13000;
    return SUCCESS;
}

int cuDeviceGetCount(int *count) {
    if (!ready()) return NOT_INITIALIZED;
    *count = cards();
    return SUCCESS;
}

int cuDeviceGet(int *device, int ordinal) {
    if (!ready()) return NOT_INITIALIZED;
    if (ordinal < 0 || ordinal >= cards()) return INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
}

int cuDeviceGetName(char *name, int length, int device) {
    if (!ready()) return NOT_INITIALIZED;
    snprintf(name, (size_t)length, "NVIDIA Stub %d", device);
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device) {
    static int any;
    (void)device;
    if (!ready()) return NOT_INITIALIZED;
    if (fails("ecc")) return ECC;
    *context = &any;
    return SUCCESS;
}
