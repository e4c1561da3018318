/* Copyright: (c) 2026, gpufleet maintainers
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Stand-in for NVIDIA's management library: nvidia-ml-py loads it like the real one and asks it about a machine
 * that a text file describes, so that a probe can be tried against any machine and any failure without a GPU.
 *
 *     make -C rehearsal/nvml            builds libnvidia-ml.so.1 here; machine_tree.py builds it into its tree
 *
 * Here are the functions of NVML; machine_file.h describes the file that they answer from. */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine_file.h"
#include "nvml_abi.h"

#define API __attribute__((visibility("default")))

static const struct { int value; const char *name; } LEVELS[] = {
    {0, "INTERNAL"}, {10, "PIX"}, {20, "PXB"}, {30, "PHB"}, {40, "NODE"}, {50, "SYS"},
};

static const struct { int value; const char *name; } P2P_STATES[] = {
    {0, "OK"}, {1, "CHIPSET_NOT_SUPPORTED"}, {2, "GPU_NOT_SUPPORTED"}, {3, "TOPOLOGY_NOT_SUPPORTED"},
    {4, "DISABLED_BY_REGKEY"}, {5, "NOT_SUPPORTED"}, {6, "UNKNOWN"},
};

static int initialised;

/* ---- Answers ------------------------------------------------------------------------------------------------ */

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

/* ---- Every function begins and ends here --------------------------------------------------------------------- */

/* Takes the lock; the caller gives it back through leave(), whatever is returned here. */
static nvmlReturn_t enter(const char *function, int gpu)
{
    int machine = hold_machine();
    nvmlReturn_t error;

    if (meets_fault(function, gpu, &error))
        return error;
    if (!strcmp(function, "Init"))
        return machine ? SUCCESS : DRIVER_NOT_LOADED;
    return initialised ? SUCCESS : UNINITIALIZED;
}

static nvmlReturn_t enter_device(const char *function, nvmlDevice_t device)
{
    nvmlReturn_t result = enter(function, is_handle(device) ? device->index : ANY_GPU);

    return result == SUCCESS && !is_gpu(device) ? INVALID_ARGUMENT : result;
}

static nvmlReturn_t leave(nvmlReturn_t result)
{
    release_machine();
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

API const char *nvmlErrorString(nvmlReturn_t result) { return error_text(result); }

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

    *out = (unsigned)gpus_in_machine();
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetCount(unsigned *out) { return nvmlDeviceGetCount_v2(out); }

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
    nvmlReturn_t result = enter("DeviceGetHandleByIndex", index < MAX_GPUS ? (int)index : ANY_GPU);

    if (result == SUCCESS && index >= (unsigned)gpus_in_machine())
        result = INVALID_ARGUMENT;
    if (result == SUCCESS)
        *out = gpu_at((int)index);
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
    for (int i = 0; i < gpus_in_machine(); i++) {
        put_address(gpu_value(gpu_at(i), "address"), &found);
        if (!strcmp(found.busId, wanted.busId)) {
            *out = gpu_at(i);
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
    for (int i = 0; i < gpus_in_machine(); i++) {
        const char *found = gpu_value(gpu_at(i), "uuid");

        if (found && !strcmp(found, uuid)) {
            *out = gpu_at(i);
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

API nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t two, int *out)
{
    nvmlReturn_t result = enter_device("DeviceGetTopologyCommonAncestor", one);
    const char *level;

    if (result != SUCCESS)
        return leave(result);
    if (!is_gpu(two))
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
    if (!is_gpu(two))
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
