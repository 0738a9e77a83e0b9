/* A few functions of libnvidia-ml.so.1, for tests on machines without a device: what pynvml calls to find a card, its
   name, its driver, its processes and its gauges. What is not here, pynvml reports as unknown to the driver.

   STUB_NVML    how it fails: no_driver, not_permitted, mig (the card is divided; its slice has a UUID of its own)
   STUB_CARDS   how many cards there are (1)
   STUB_MODE    the compute mode (0; 3: one process)
   STUB_PIDS    the processes on the card, divided by commas */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7,
       DRIVER_NOT_LOADED = 9 };

#define CARD_UUID "GPU-00000000-0000-0000-0000-00000000000"
#define SLICE_UUID "MIG-11111111-1111-1111-1111-111111111111"
#define MOST 16

static char handles[MOST + 1]; /* of cards; the last one is the slice's */

typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gpu_instance, compute_instance; } process_t;
typedef struct { unsigned int gpu, memory; } utilization_t;

static int fails(const char *how) {
    const char *said = getenv("STUB_NVML");
    return said != NULL && strcmp(said, how) == 0;
}

static unsigned int number(const char *name, unsigned int otherwise) {
    const char *said = getenv(name);
    return said != NULL ? (unsigned int)atoi(said) : otherwise;
}

static int is_slice(const void *device) { return device == &handles[MOST]; }

int nvmlInitWithFlags(unsigned int flags) {
    (void)flags;
    return fails("no_driver") ? DRIVER_NOT_LOADED : fails("not_permitted") ? NO_PERMISSION : SUCCESS;
}

int nvmlInit(void) { return nvmlInitWithFlags(0); }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *version, unsigned int length) {
    snprintf(version, length, "580.65.06");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned int *count) {
    *count = number("STUB_CARDS", 1);
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device) {
    if (index >= number("STUB_CARDS", 1) || index >= MOST) return INVALID_ARGUMENT;
    *device = &handles[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) {
    unsigned int index;
    if (fails("mig") && strcmp(uuid, SLICE_UUID) == 0) {
        *device = &handles[MOST];
        return SUCCESS;
    }
    if (strncmp(uuid, CARD_UUID, strlen(CARD_UUID)) != 0) return NOT_FOUND;
    index = (unsigned int)atoi(uuid + strlen(CARD_UUID));
    return nvmlDeviceGetHandleByIndex_v2(index, device) == SUCCESS ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) {
    unsigned int domain, index;
    if (sscanf(bus, "%x:%x:", &domain, &index) != 2) return INVALID_ARGUMENT;
    return nvmlDeviceGetHandleByIndex_v2(index - 1, device) == SUCCESS ? SUCCESS : NOT_FOUND; /* bus 01 is card 0 */
}

int nvmlDeviceGetName(void *device, char *name, unsigned int length) {
    snprintf(name, length, is_slice(device) ? "NVIDIA Stub MIG 1g.10gb" : "NVIDIA Stub %d", (int)((char *)device - handles));
    return SUCCESS;
}

int nvmlDeviceIsMigDeviceHandle(void *device, unsigned int *slice) {
    *slice = (unsigned int)is_slice(device);
    return SUCCESS;
}

int nvmlDeviceGetMigMode(void *device, unsigned int *current, unsigned int *pending) {
    if (is_slice(device)) return INVALID_ARGUMENT;
    *current = *pending = (unsigned int)fails("mig");
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *device, memory_t *memory) {
    memory->total = is_slice(device) ? 10ULL << 30 : 80ULL << 30;
    memory->used = is_slice(device) ? 1ULL << 30 : 8ULL << 30;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

/* The driver may tell the whole card's of a slice: it does here. */
int nvmlDeviceGetPowerUsage(void *device, unsigned int *milliwatts) {
    (void)device;
    *milliwatts = 300000;
    return SUCCESS;
}

int nvmlDeviceGetEnforcedPowerLimit(void *device, unsigned int *milliwatts) {
    (void)device;
    *milliwatts = 700000;
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    (void)device;
    *millijoules = 123456;
    return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *device, utilization_t *rates) {
    (void)device;
    rates->gpu = 55;
    rates->memory = 10;
    return SUCCESS;
}

int nvmlDeviceGetTemperature(void *device, int sensor, unsigned int *celsius) {
    (void)device;
    if (sensor != 0) return INVALID_ARGUMENT;
    *celsius = 61;
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(void *device, int kind, unsigned int *megahertz) {
    (void)device;
    (void)kind;
    *megahertz = 1980;
    return SUCCESS;
}

int nvmlDeviceGetComputeMode(void *device, int *mode) {
    (void)device;
    *mode = (int)number("STUB_MODE", 0);
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned int *count, process_t *processes) {
    const char *said = getenv("STUB_PIDS");
    unsigned int room = *count, found = 0;
    char *end;
    (void)device;
    for (; said != NULL && *said != '\0'; said = *end == ',' ? end + 1 : end, found++) {
        unsigned int pid = (unsigned int)strtoul(said, &end, 10);
        if (end == said) return INVALID_ARGUMENT;
        if (processes != NULL && found < room) processes[found] = (process_t){pid, 0, ~0u, ~0u};
    }
    *count = found;
    return found > room || (found > 0 && processes == NULL) ? INSUFFICIENT_SIZE : SUCCESS;
}
