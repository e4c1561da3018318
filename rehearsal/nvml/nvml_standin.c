/* Copyright: (c) 2026, gpufleet maintainers
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Stand-in for NVIDIA's management library: nvidia-ml-py loads it like the real one and asks it about a machine
 * that a text file describes, so that a probe can be tried against any machine and any failure without a GPU.
 *
 *     make -C rehearsal/nvml            builds libnvidia-ml.so.1 here; machine_tree.py builds it into its tree
 *
 * The machine file is the one named by GPUFLEET_NVML_MACHINE, else machine.nvml beside this library, else
 * machine.nvml one folder above it. It is read again whenever it has changed, so a GPU can vanish while a program
 * runs. Without a machine file nvmlInit says that no driver is loaded.
 *
 * Format: sections and "key = value" lines, # begins a comment, of two equal keys the later wins.
 *
 *     [system]
 *     driver_version = 595.58.03        nvml_version = 13.595.58.03       cuda_version = 13020
 *     [gpu 0]                           one section a GPU, counted from 0 without a gap
 *     name, uuid, serial                texts
 *     address = 0000:06:00.0            pci_device_id, pci_subsystem_id = 0x2bb510de
 *     minor, compute_mode, persistence, architecture, memory_node, power_limit_milliwatts,
 *     pcie_generation, pcie_generation_max, pcie_generation_gpu_max, pcie_width, pcie_width_max = numbers
 *     memory_total, memory_reserved, memory_used = bytes
 *     compute_capability = 12.0         ecc, mig = CURRENT PENDING (0 or 1 each)
 *     cpus = 0-63,128-191               numa = 0         what the affinity functions tell
 *     nvlink.L = up|down ADDRESS gpu|switch
 *     fabric = STATE STATUS CLIQUE      processes = PID:BYTES,PID:BYTES
 *     [pair 0 1]                        holds in both directions
 *     level = INTERNAL|PIX|PXB|PHB|NODE|SYS
 *     p2p = OK|CHIPSET_NOT_SUPPORTED|GPU_NOT_SUPPORTED|TOPOLOGY_NOT_SUPPORTED|DISABLED_BY_REGKEY|NOT_SUPPORTED
 *     [faults]                          FUNCTION = ERROR [gpu=N] [from=K]
 *     DeviceGetMemoryInfo = GPU_IS_LOST gpu=3 from=2
 *
 * A key that is absent makes its function answer "not supported", as boards do that lack a feature. FUNCTION is a
 * name of NVML without "nvml" and without a version suffix; ERROR is the name of an NVML error or its number;
 * from=K spares the first K-1 calls of that function (counted for the GPU, where one is named) after the file was
 * read. Of several faults that fit, the last one holds.
 *
 * The structures and constants below are the interface of NVML as NVIDIA documents it (NVML API reference). */

#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- The interface ------------------------------------------------------------------------------------------ */

typedef int nvmlReturn_t;
typedef struct device *nvmlDevice_t;

typedef struct {
    char busIdLegacy[16];
    unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct { unsigned long long total, free, used; } nvmlMemory_t;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } nvmlMemory_v2_t;

typedef struct {
    unsigned pid;
    unsigned long long usedGpuMemory;
    unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned char state;
} nvmlGpuFabricInfo_t;

/* Version 2 ends before healthSummary; its place lies in what version 2 has as padding. */
typedef struct {
    unsigned version;
    unsigned char clusterUuid[16];
    nvmlReturn_t status;
    unsigned cliqueId;
    unsigned char state;
    unsigned healthMask;
    unsigned char healthSummary;
} nvmlGpuFabricInfoV_t;

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    ARGUMENT_VERSION_MISMATCH = 25,
    UNKNOWN = 999
};

enum { NVLINK_MAX_LINKS = 18, FABRIC_VERSION_2 = 2, FABRIC_VERSION_3 = 3, MEMORY_VERSION_2 = 2 };

static const struct { int code; const char *name, *text; } ERRORS[] = {
    {0, "SUCCESS", "Success"},
    {1, "UNINITIALIZED", "Uninitialized"},
    {2, "INVALID_ARGUMENT", "Invalid Argument"},
    {3, "NOT_SUPPORTED", "Not Supported"},
    {4, "NO_PERMISSION", "Insufficient Permissions"},
    {6, "NOT_FOUND", "Not Found"},
    {7, "INSUFFICIENT_SIZE", "Insufficient Size"},
    {9, "DRIVER_NOT_LOADED", "Driver Not Loaded"},
    {10, "TIMEOUT", "Timeout"},
    {12, "LIBRARY_NOT_FOUND", "NVML Shared Library Not Found"},
    {13, "FUNCTION_NOT_FOUND", "Function Not Found"},
    {14, "CORRUPTED_INFOROM", "Corrupted infoROM"},
    {15, "GPU_IS_LOST", "GPU is lost"},
    {16, "RESET_REQUIRED", "GPU requires reset"},
    {17, "OPERATING_SYSTEM", "The operating system has blocked the request"},
    {18, "LIB_RM_VERSION_MISMATCH", "Driver/library version mismatch"},
    {19, "IN_USE", "In use by another client"},
    {20, "MEMORY", "Insufficient Memory"},
    {21, "NO_DATA", "No data"},
    {25, "ARGUMENT_VERSION_MISMATCH", "Argument version mismatch"},
    {27, "NOT_READY", "Not Ready"},
    {999, "UNKNOWN", "Unknown Error"},
};

static const struct { int value; const char *name; } LEVELS[] = {
    {0, "INTERNAL"}, {10, "PIX"}, {20, "PXB"}, {30, "PHB"}, {40, "NODE"}, {50, "SYS"},
};

static const struct { int value; const char *name; } P2P_STATES[] = {
    {0, "OK"}, {1, "CHIPSET_NOT_SUPPORTED"}, {2, "GPU_NOT_SUPPORTED"}, {3, "TOPOLOGY_NOT_SUPPORTED"},
    {4, "DISABLED_BY_REGKEY"}, {5, "NOT_SUPPORTED"}, {6, "UNKNOWN"},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define API __attribute__((visibility("default")))

/* ---- The machine in memory ---------------------------------------------------------------------------------- */

enum { MAX_GPUS = 64, MAX_LINE = 1024 };
enum { ANY_GPU = -1 };

struct device { int index; };
struct value { struct value *next; int first, second; char *key, *text; };  /* newest first */
struct fault { struct fault *next; char *function; int error, gpu, from; };  /* newest first */
struct calls { struct calls *next; char *function; int all, by_gpu[MAX_GPUS]; };

enum { NOWHERE = -1, SYSTEM = -2, FAULTS = -3 };  /* values of "first" that are no GPU */

static struct device devices[MAX_GPUS];
static struct value *values;
static struct fault *faults;
static struct calls *calls;
static int gpu_count;
static int initialised;
static struct stat machine_seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void forget_machine(void)
{
    while (values) {
        struct value *gone = values;
        values = gone->next;
        free(gone->key);
        free(gone->text);
        free(gone);
    }
    while (faults) {
        struct fault *gone = faults;
        faults = gone->next;
        free(gone->function);
        free(gone);
    }
    while (calls) {
        struct calls *gone = calls;
        calls = gone->next;
        free(gone->function);
        free(gone);
    }
    gpu_count = 0;
}

static char *trimmed(char *text)
{
    char *end;

    while (isspace((unsigned char)*text))
        text++;
    end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        end--;
    *end = '\0';
    return text;
}

static int error_code(const char *name)
{
    for (size_t i = 0; i < COUNT(ERRORS); i++)
        if (!strcmp(ERRORS[i].name, name))
            return ERRORS[i].code;
    return isdigit((unsigned char)*name) ? atoi(name) : UNKNOWN;
}

static void remember_fault(const char *function, char *text)
{
    struct fault *fault = calloc(1, sizeof *fault);
    char *rest = text, *word = strtok_r(rest, " \t", &rest);

    if (!fault)
        return;
    fault->function = strdup(function);
    fault->error = word ? error_code(word) : UNKNOWN;
    fault->gpu = ANY_GPU;
    fault->from = 1;
    while ((word = strtok_r(NULL, " \t", &rest))) {
        if (!strncmp(word, "gpu=", 4))
            fault->gpu = atoi(word + 4);
        else if (!strncmp(word, "from=", 5))
            fault->from = atoi(word + 5);
    }
    fault->next = faults;
    faults = fault;
}

static void remember_value(int first, int second, const char *key, const char *text)
{
    struct value *value = calloc(1, sizeof *value);

    if (!value)
        return;
    value->first = first;
    value->second = second;
    value->key = strdup(key);
    value->text = strdup(text);
    value->next = values;
    values = value;
}

static void read_machine(FILE *file)
{
    char line[MAX_LINE];
    int first = NOWHERE, second = NOWHERE;

    while (fgets(line, sizeof line, file)) {
        char *hash = strchr(line, '#'), *key, *equals;

        if (hash)
            *hash = '\0';
        key = trimmed(line);
        equals = strchr(key, '=');
        if (*key == '[') {
            int one, two;

            first = second = NOWHERE;
            if (!strcmp(key, "[system]"))
                first = SYSTEM;
            else if (!strcmp(key, "[faults]"))
                first = FAULTS;
            else if (sscanf(key, "[pair %d %d]", &one, &two) == 2) {
                first = one < two ? one : two;
                second = one < two ? two : one;
            } else if (sscanf(key, "[gpu %d]", &one) == 1 && one >= 0 && one < MAX_GPUS) {
                first = one;
                if (one >= gpu_count)
                    gpu_count = one + 1;
            }
        } else if (equals && first != NOWHERE) {
            *equals = '\0';
            if (first == FAULTS)
                remember_fault(trimmed(key), trimmed(equals + 1));
            else
                remember_value(first, second, trimmed(key), trimmed(equals + 1));
        }
    }
}

/* Path of the machine file, or an empty text where there is none. */
static void find_machine(char *path, size_t size)
{
    const char *named = getenv("GPUFLEET_NVML_MACHINE");
    static const char *const PLACES[] = {"%.*s/machine.nvml", "%.*s/../machine.nvml"};
    Dl_info here;
    struct stat found;

    *path = '\0';
    if (named && *named) {
        snprintf(path, size, "%s", named);
        return;
    }
    if (!dladdr((void *)(size_t)find_machine, &here) || !here.dli_fname || !strrchr(here.dli_fname, '/'))
        return;
    for (size_t i = 0; i < COUNT(PLACES); i++) {
        snprintf(path, size, PLACES[i], (int)(strrchr(here.dli_fname, '/') - here.dli_fname), here.dli_fname);
        if (!stat(path, &found))
            return;
    }
    *path = '\0';
}

static int same_file_state(const struct stat *one, const struct stat *two)
{
    return one->st_ino == two->st_ino && one->st_size == two->st_size && one->st_mtim.tv_sec == two->st_mtim.tv_sec
        && one->st_mtim.tv_nsec == two->st_mtim.tv_nsec;
}

/* Reads the machine file where it has changed; false where there is none. */
static int refresh_machine(void)
{
    char path[PATH_MAX];
    struct stat now;
    FILE *file;

    find_machine(path, sizeof path);
    if (!*path || stat(path, &now)) {
        forget_machine();
        memset(&machine_seen, 0, sizeof machine_seen);
        return 0;
    }
    if (same_file_state(&now, &machine_seen))
        return 1;
    file = fopen(path, "r");
    if (!file)
        return 0;
    forget_machine();
    read_machine(file);
    fclose(file);
    machine_seen = now;
    for (int i = 0; i < MAX_GPUS; i++)
        devices[i].index = i;
    return 1;
}

/* ---- Asking the machine ------------------------------------------------------------------------------------- */

static const char *value_of(int first, int second, const char *key)
{
    for (struct value *value = values; value; value = value->next)
        if (value->first == first && value->second == second && !strcmp(value->key, key))
            return value->text;
    return NULL;
}

static const char *system_value(const char *key) { return value_of(SYSTEM, NOWHERE, key); }

static const char *gpu_value(nvmlDevice_t device, const char *key) { return value_of(device->index, NOWHERE, key); }

static nvmlReturn_t put_text(const char *text, char *out, unsigned size)
{
    if (!text)
        return NOT_SUPPORTED;
    if (strlen(text) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

static nvmlReturn_t put_number(const char *text, unsigned *out)
{
    if (!text)
        return NOT_SUPPORTED;
    *out = (unsigned)strtoul(text, NULL, 0);
    return SUCCESS;
}

static nvmlReturn_t put_two_numbers(const char *text, unsigned *one, unsigned *two)
{
    return text && sscanf(text, "%u %u", one, two) == 2 ? SUCCESS : NOT_SUPPORTED;
}

static unsigned long long bytes_in(const char *text) { return text ? strtoull(text, NULL, 0) : 0; }

/* "0-63,128-191" as a mask; what lies beyond the caller's words is left out, as NVML does. */
static nvmlReturn_t put_mask(const char *list, unsigned words, unsigned long *out)
{
    if (!list)
        return NOT_SUPPORTED;
    memset(out, 0, words * sizeof *out);
    while (*list) {
        char *end;
        unsigned long low = strtoul(list, &end, 10), high = low;

        if (end == list)
            return UNKNOWN;
        if (*end == '-')
            high = strtoul(end + 1, &end, 10);
        for (; low <= high; low++)
            if (low / 64 < words)
                out[low / 64] |= 1UL << (low % 64);
        list = *end == ',' ? end + 1 : end;
    }
    return SUCCESS;
}

static void put_address(const char *address, nvmlPciInfo_t *out)
{
    unsigned domain = 0, bus = 0, device = 0, function = 0;

    memset(out, 0, sizeof *out);
    if (address)
        sscanf(address, "%x:%x:%x.%x", &domain, &bus, &device, &function);
    out->domain = domain;
    out->bus = bus;
    out->device = device;
    snprintf(out->busIdLegacy, sizeof out->busIdLegacy, "%04X:%02X:%02X.%X", domain & 0xffff, bus & 0xff,
             device & 0x1f, function & 7);
    snprintf(out->busId, sizeof out->busId, "%08X:%02X:%02X.%X", domain, bus & 0xff, device & 0x1f, function & 7);
}

static const char *link_value(nvmlDevice_t device, unsigned link)
{
    char key[32];

    snprintf(key, sizeof key, "nvlink.%u", link);
    return gpu_value(device, key);
}

/* ---- Every function begins and ends here --------------------------------------------------------------------- */

static int count_call(const char *function, int gpu, int *by_gpu)
{
    struct calls *entry = calls;

    while (entry && strcmp(entry->function, function))
        entry = entry->next;
    if (!entry) {
        entry = calloc(1, sizeof *entry);
        if (!entry)
            return 0;
        entry->function = strdup(function);
        entry->next = calls;
        calls = entry;
    }
    *by_gpu = gpu >= 0 && gpu < MAX_GPUS ? ++entry->by_gpu[gpu] : 0;
    return ++entry->all;
}

/* Takes the lock; the caller gives it back through leave(), whatever is returned here. */
static nvmlReturn_t enter(const char *function, int gpu)
{
    int by_gpu = 0, all, machine;

    pthread_mutex_lock(&lock);
    machine = refresh_machine();
    all = count_call(function, gpu, &by_gpu);
    for (struct fault *fault = faults; fault; fault = fault->next) {
        if (strcmp(fault->function, function) || (fault->gpu != ANY_GPU && fault->gpu != gpu))
            continue;
        if ((fault->gpu == ANY_GPU ? all : by_gpu) >= fault->from)
            return fault->error;
    }
    if (!strcmp(function, "Init"))
        return machine ? SUCCESS : DRIVER_NOT_LOADED;
    return initialised ? SUCCESS : UNINITIALIZED;
}

static nvmlReturn_t enter_device(const char *function, nvmlDevice_t device)
{
    nvmlReturn_t result;
    int known = device >= devices && device < devices + MAX_GPUS;

    result = enter(function, known ? device->index : ANY_GPU);
    if (result == SUCCESS && (!known || device->index >= gpu_count))
        result = INVALID_ARGUMENT;
    return result;
}

static nvmlReturn_t leave(nvmlReturn_t result)
{
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- System ------------------------------------------------------------------------------------------------- */

API nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    nvmlReturn_t result = enter("Init", ANY_GPU);

    (void)flags;
    if (result == SUCCESS)
        initialised++;
    return leave(result);
}

API nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }

API nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t result = enter("Shutdown", ANY_GPU);

    if (result == SUCCESS)
        initialised--;
    return leave(result);
}

API const char *nvmlErrorString(nvmlReturn_t result)
{
    for (size_t i = 0; i < COUNT(ERRORS); i++)
        if (ERRORS[i].code == result)
            return ERRORS[i].text;
    return "Unknown Error";
}

API nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    nvmlReturn_t result = enter("SystemGetDriverVersion", ANY_GPU);

    return leave(result == SUCCESS ? put_text(system_value("driver_version"), out, size) : result);
}

API nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
    nvmlReturn_t result = enter("SystemGetNVMLVersion", ANY_GPU);

    return leave(result == SUCCESS ? put_text(system_value("nvml_version"), out, size) : result);
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    nvmlReturn_t result = enter("SystemGetCudaDriverVersion", ANY_GPU);
    unsigned number = 0;

    if (result == SUCCESS)
        result = put_number(system_value("cuda_version"), &number);
    *out = (int)number;
    return leave(result);
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

/* ---- Finding a GPU ------------------------------------------------------------------------------------------ */

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out)
{
    nvmlReturn_t result = enter("DeviceGetCount", ANY_GPU);

    *out = (unsigned)gpu_count;
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetCount(unsigned *out) { return nvmlDeviceGetCount_v2(out); }

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
    nvmlReturn_t result = enter("DeviceGetHandleByIndex", index < MAX_GPUS ? (int)index : ANY_GPU);

    if (result == SUCCESS && index >= (unsigned)gpu_count)
        result = INVALID_ARGUMENT;
    if (result == SUCCESS)
        *out = &devices[index];
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t *out)
{
    return nvmlDeviceGetHandleByIndex_v2(index, out);
}

API nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *address, nvmlDevice_t *out)
{
    nvmlReturn_t result = enter("DeviceGetHandleByPciBusId", ANY_GPU);
    nvmlPciInfo_t wanted, found;

    if (result != SUCCESS)
        return leave(result);
    put_address(address, &wanted);
    for (int i = 0; i < gpu_count; i++) {
        put_address(gpu_value(&devices[i], "address"), &found);
        if (!strcmp(found.busId, wanted.busId)) {
            *out = &devices[i];
            return leave(SUCCESS);
        }
    }
    return leave(NOT_FOUND);
}

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
    nvmlReturn_t result = enter("DeviceGetHandleByUUID", ANY_GPU);

    if (result != SUCCESS)
        return leave(result);
    for (int i = 0; i < gpu_count; i++) {
        const char *found = gpu_value(&devices[i], "uuid");

        if (found && !strcmp(found, uuid)) {
            *out = &devices[i];
            return leave(SUCCESS);
        }
    }
    return leave(NOT_FOUND);
}

API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *out)
{
    nvmlReturn_t result = enter_device("DeviceGetIndex", device);

    if (result == SUCCESS)
        *out = (unsigned)device->index;
    return leave(result);
}

/* ---- Facts that are one text or one number ------------------------------------------------------------------- */

#define TEXT_FUNCTION(NAME, KEY)                                                                     \
    API nvmlReturn_t nvml##NAME(nvmlDevice_t device, char *out, unsigned size)                       \
    {                                                                                                \
        nvmlReturn_t result = enter_device(#NAME, device);                                           \
                                                                                                     \
        return leave(result == SUCCESS ? put_text(gpu_value(device, KEY), out, size) : result);      \
    }

#define NUMBER_FUNCTION(NAME, KEY)                                                                   \
    API nvmlReturn_t nvml##NAME(nvmlDevice_t device, unsigned *out)                                  \
    {                                                                                                \
        nvmlReturn_t result = enter_device(#NAME, device);                                           \
                                                                                                     \
        return leave(result == SUCCESS ? put_number(gpu_value(device, KEY), out) : result);          \
    }

#define TWO_NUMBERS_FUNCTION(NAME, KEY)                                                              \
    API nvmlReturn_t nvml##NAME(nvmlDevice_t device, unsigned *one, unsigned *two)                   \
    {                                                                                                \
        nvmlReturn_t result = enter_device(#NAME, device);                                           \
                                                                                                     \
        return leave(result == SUCCESS ? put_two_numbers(gpu_value(device, KEY), one, two) : result); \
    }

TEXT_FUNCTION(DeviceGetName, "name")
TEXT_FUNCTION(DeviceGetUUID, "uuid")
TEXT_FUNCTION(DeviceGetSerial, "serial")
NUMBER_FUNCTION(DeviceGetMinorNumber, "minor")
NUMBER_FUNCTION(DeviceGetArchitecture, "architecture")
NUMBER_FUNCTION(DeviceGetPersistenceMode, "persistence")
NUMBER_FUNCTION(DeviceGetComputeMode, "compute_mode")
NUMBER_FUNCTION(DeviceGetPowerManagementLimit, "power_limit_milliwatts")
NUMBER_FUNCTION(DeviceGetCurrPcieLinkGeneration, "pcie_generation")
NUMBER_FUNCTION(DeviceGetMaxPcieLinkGeneration, "pcie_generation_max")
NUMBER_FUNCTION(DeviceGetGpuMaxPcieLinkGeneration, "pcie_generation_gpu_max")
NUMBER_FUNCTION(DeviceGetCurrPcieLinkWidth, "pcie_width")
NUMBER_FUNCTION(DeviceGetMaxPcieLinkWidth, "pcie_width_max")
TWO_NUMBERS_FUNCTION(DeviceGetEccMode, "ecc")
TWO_NUMBERS_FUNCTION(DeviceGetMigMode, "mig")
#ifndef WITHOUT_NUMA_NODE_ID /* older libraries lack it: define this to try a program against one */
NUMBER_FUNCTION(DeviceGetNumaNodeId, "memory_node")
#endif

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    nvmlReturn_t result = enter_device("DeviceGetCudaComputeCapability", device);
    const char *text;

    if (result == SUCCESS) {
        text = gpu_value(device, "compute_capability");
        if (!text || sscanf(text, "%d.%d", major, minor) != 2)
            result = NOT_SUPPORTED;
    }
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *out)
{
    nvmlReturn_t result = enter_device("DeviceGetPciInfo", device);

    if (result == SUCCESS) {
        put_address(gpu_value(device, "address"), out);
        put_number(gpu_value(device, "pci_device_id"), &out->pciDeviceId);
        put_number(gpu_value(device, "pci_subsystem_id"), &out->pciSubSystemId);
    }
    return leave(result);
}

/* ---- Memory and processes ------------------------------------------------------------------------------------ */

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out)
{
    nvmlReturn_t result = enter_device("DeviceGetMemoryInfo", device);

    if (result == SUCCESS && out->version != (sizeof *out | MEMORY_VERSION_2 << 24))
        result = ARGUMENT_VERSION_MISMATCH;
    if (result == SUCCESS && !gpu_value(device, "memory_total"))
        result = NOT_SUPPORTED;
    if (result == SUCCESS) {
        out->total = bytes_in(gpu_value(device, "memory_total"));
        out->reserved = bytes_in(gpu_value(device, "memory_reserved"));
        out->used = bytes_in(gpu_value(device, "memory_used"));
        out->free = out->total - out->reserved - out->used;
    }
    return leave(result);
}

/* The first version knows no reserved memory and counts it as used. */
API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
    nvmlMemory_v2_t memory = {.version = sizeof memory | MEMORY_VERSION_2 << 24};
    nvmlReturn_t result = nvmlDeviceGetMemoryInfo_v2(device, &memory);

    if (result == SUCCESS) {
        out->total = memory.total;
        out->used = memory.used + memory.reserved;
        out->free = memory.free;
    }
    return result;
}

static nvmlReturn_t put_processes(const char *text, unsigned *count, nvmlProcessInfo_t *out)
{
    unsigned room = *count, found = 0;

    while (text && *text) {
        char *end;
        unsigned pid = (unsigned)strtoul(text, &end, 10);
        unsigned long long used = *end == ':' ? strtoull(end + 1, &end, 10) : 0;

        if (out && found < room) {
            out[found] = (nvmlProcessInfo_t){pid, used, UINT_MAX, UINT_MAX};
        }
        found++;
        text = *end == ',' ? end + 1 : NULL;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *out)
{
    nvmlReturn_t result = enter_device("DeviceGetComputeRunningProcesses", device);

    return leave(result == SUCCESS ? put_processes(gpu_value(device, "processes"), count, out) : result);
}

/* ---- Where a GPU is and how it reaches the others ------------------------------------------------------------ */

API nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned words, unsigned long *out, unsigned scope)
{
    nvmlReturn_t result = enter_device("DeviceGetMemoryAffinity", device);

    (void)scope;
    return leave(result == SUCCESS ? put_mask(gpu_value(device, "numa"), words, out) : result);
}

API nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned words, unsigned long *out,
                                                     unsigned scope)
{
    nvmlReturn_t result = enter_device("DeviceGetCpuAffinity", device);

    (void)scope;
    return leave(result == SUCCESS ? put_mask(gpu_value(device, "cpus"), words, out) : result);
}

API nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned words, unsigned long *out)
{
    return nvmlDeviceGetCpuAffinityWithinScope(device, words, out, 0);
}

static const char *pair_value(nvmlDevice_t one, nvmlDevice_t two, const char *key)
{
    int low = one->index < two->index ? one->index : two->index;
    int high = one->index < two->index ? two->index : one->index;

    return value_of(low, high, key);
}

API nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t two, int *out)
{
    nvmlReturn_t result = enter_device("DeviceGetTopologyCommonAncestor", one);
    const char *level;

    if (result != SUCCESS)
        return leave(result);
    if (two < devices || two >= devices + gpu_count)
        return leave(INVALID_ARGUMENT);
    level = one == two ? "INTERNAL" : pair_value(one, two, "level");
    for (size_t i = 0; level && i < COUNT(LEVELS); i++)
        if (!strcmp(LEVELS[i].name, level)) {
            *out = LEVELS[i].value;
            return leave(SUCCESS);
        }
    return leave(NOT_SUPPORTED);
}

API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t two, int capability, int *out)
{
    nvmlReturn_t result = enter_device("DeviceGetP2PStatus", one);
    const char *state;

    (void)capability;
    if (result != SUCCESS)
        return leave(result);
    if (two < devices || two >= devices + gpu_count)
        return leave(INVALID_ARGUMENT);
    state = pair_value(one, two, "p2p");
    for (size_t i = 0; state && i < COUNT(P2P_STATES); i++)
        if (!strcmp(P2P_STATES[i].name, state)) {
            *out = P2P_STATES[i].value;
            return leave(SUCCESS);
        }
    return leave(NOT_SUPPORTED);
}

API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, unsigned *out)
{
    nvmlReturn_t result = enter_device("DeviceGetNvLinkState", device);
    const char *text;

    if (result == SUCCESS && link >= NVLINK_MAX_LINKS)
        result = INVALID_ARGUMENT;
    if (result == SUCCESS) {
        text = link_value(device, link);
        result = text ? SUCCESS : NOT_SUPPORTED;
        *out = text && !strncmp(text, "up", 2);
    }
    return leave(result);
}

/* The second and third word of a link: whom it leads to and what kind of device that is. */
static nvmlReturn_t link_end(nvmlDevice_t device, unsigned link, char address[32], char kind[16])
{
    const char *text = link < NVLINK_MAX_LINKS ? link_value(device, link) : NULL;

    return text && sscanf(text, "%*s %31s %15s", address, kind) == 2 ? SUCCESS : NOT_SUPPORTED;
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *out)
{
    nvmlReturn_t result = enter_device("DeviceGetNvLinkRemotePciInfo", device);
    char address[32], kind[16];

    if (result == SUCCESS)
        result = link_end(device, link, address, kind);
    if (result == SUCCESS)
        put_address(address, out);
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, int *out)
{
    nvmlReturn_t result = enter_device("DeviceGetNvLinkRemoteDeviceType", device);
    char address[32], kind[16];

    if (result == SUCCESS)
        result = link_end(device, link, address, kind);
    if (result == SUCCESS)
        *out = strcmp(kind, "switch") ? 0 : 2;
    return leave(result);
}

static nvmlReturn_t put_fabric(nvmlDevice_t device, nvmlGpuFabricInfoV_t *out)
{
    const char *text = gpu_value(device, "fabric");
    unsigned state, status, clique;

    if (!text || sscanf(text, "%u %u %u", &state, &status, &clique) != 3)
        return NOT_SUPPORTED;
    memset(out->clusterUuid, 0, sizeof out->clusterUuid);
    out->state = (unsigned char)state;
    out->status = (nvmlReturn_t)status;
    out->cliqueId = clique;
    return SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *out)
{
    nvmlReturn_t result = enter_device("DeviceGetGpuFabricInfo", device);
    unsigned version = out->version >> 24;

    if (result == SUCCESS && version != FABRIC_VERSION_2 && version != FABRIC_VERSION_3)
        result = ARGUMENT_VERSION_MISMATCH;
    if (result == SUCCESS)
        result = put_fabric(device, out);
    if (result == SUCCESS) {
        out->healthMask = 0;
        if (version == FABRIC_VERSION_3)
            out->healthSummary = 1;
    }
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *out)
{
    nvmlGpuFabricInfoV_t info = {.version = sizeof info | (unsigned)FABRIC_VERSION_2 << 24};
    nvmlReturn_t result = nvmlDeviceGetGpuFabricInfoV(device, &info);

    if (result == SUCCESS) {
        memcpy(out->clusterUuid, info.clusterUuid, sizeof out->clusterUuid);
        out->status = info.status;
        out->cliqueId = info.cliqueId;
        out->state = info.state;
    }
    return result;
}
