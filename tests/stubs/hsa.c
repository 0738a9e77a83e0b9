/* Two functions of libhsa-runtime64.so.1, the runtime below HIP, which tells that it has not been initialised
   (HSA Runtime Programmer's Reference Manual 1.2, 2.1). */

enum { SUCCESS = 0, INVALID_ARGUMENT = 0x1001, NOT_INITIALIZED = 0x100B };

static int references = 0;

int hsa_init(void) {
    references++;
    return SUCCESS;
}

int hsa_system_get_info(int attribute, void *value) {
    if (references == 0) return NOT_INITIALIZED;
    if (attribute != 0) return INVALID_ARGUMENT;
    *(unsigned short *)value = 1;
    return SUCCESS;
}
