/* Copyright: (c) 2026, gpufleet maintainers
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Facts of one GPU: what it is, its settings, memory, health and processes. */

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin.h"

static const struct name VIRTUALIZATION_MODES[] = {
    {NVML_GPU_VIRTUALIZATION_MODE_NONE, "NONE"},
    {NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH, "PASSTHROUGH"},
    {NVML_GPU_VIRTUALIZATION_MODE_VGPU, "VGPU"},
    {NVML_GPU_VIRTUALIZATION_MODE_HOST_VGPU, "HOST_VGPU"},
    {NVML_GPU_VIRTUALIZATION_MODE_HOST_VSGA, "HOST_VSGA"},
};

/* ---- Facts that are one text, one number or two -------------------------------------------------------------- */

#define NUMBER_FUNCTION(NAME, TYPE, KEY)                                                             \
    API nvmlReturn_t nvml##NAME(nvmlDevice_t device, TYPE *out)                                      \
    {                                                                                                \
        nvmlReturn_t result = enter_gpu(#NAME, device);                                              \
        unsigned number = 0;                                                                         \
                                                                                                     \
        if (result == NVML_SUCCESS)                                                                  \
            result = put_number(gpu_value(device, KEY), &number);                                    \
        if (result == NVML_SUCCESS)                                                                  \
            *out = (TYPE)number;                                                                     \
        return leave(result);                                                                        \
    }

#define TWO_NUMBERS_FUNCTION(NAME, TYPE, KEY)                                                        \
    API nvmlReturn_t nvml##NAME(nvmlDevice_t device, TYPE *one, TYPE *two)                           \
    {                                                                                                \
        nvmlReturn_t result = enter_gpu(#NAME, device);                                              \
        unsigned first = 0, second = 0;                                                              \
                                                                                                     \
        if (result == NVML_SUCCESS)                                                                  \
            result = put_two_numbers(gpu_value(device, KEY), &first, &second);                       \
        if (result == NVML_SUCCESS) {                                                                \
            *one = (TYPE)first;                                                                      \
            *two = (TYPE)second;                                                                     \
        }                                                                                            \
        return leave(result);                                                                        \
    }

NUMBER_FUNCTION(DeviceGetMinorNumber, unsigned, "minor")
NUMBER_FUNCTION(DeviceGetArchitecture, nvmlDeviceArchitecture_t, "architecture")
NUMBER_FUNCTION(DeviceGetPersistenceMode, nvmlEnableState_t, "persistence")
NUMBER_FUNCTION(DeviceGetComputeMode, nvmlComputeMode_t, "compute_mode")
NUMBER_FUNCTION(DeviceGetPerformanceState, nvmlPstates_t, "performance_state")
NUMBER_FUNCTION(DeviceGetPowerManagementLimit, unsigned, "power_limit_milliwatts")
NUMBER_FUNCTION(DeviceGetCurrPcieLinkGeneration, unsigned, "pcie_generation")
NUMBER_FUNCTION(DeviceGetMaxPcieLinkGeneration, unsigned, "pcie_generation_max")
NUMBER_FUNCTION(DeviceGetGpuMaxPcieLinkGeneration, unsigned, "pcie_generation_gpu_max")
NUMBER_FUNCTION(DeviceGetCurrPcieLinkWidth, unsigned, "pcie_width")
NUMBER_FUNCTION(DeviceGetMaxPcieLinkWidth, unsigned, "pcie_width_max")
TWO_NUMBERS_FUNCTION(DeviceGetEccMode, nvmlEnableState_t, "ecc")
TWO_NUMBERS_FUNCTION(DeviceGetMigMode, unsigned, "mig")
#ifndef WITHOUT_NEWER_FUNCTIONS /* what drivers of the release 535 lack: define this to try a program against one */
NUMBER_FUNCTION(DeviceGetNumaNodeId, unsigned, "memory_node")
#endif

API nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *out, unsigned size)
{
    nvmlReturn_t result = enter_gpu("DeviceGetSerial", device);

    return leave(result == NVML_SUCCESS ? put_text(gpu_value(device, "serial"), out, size) : result);
}

/* A slice has a UUID and a name of its own: the first and the last word of its line. */
API nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned size)
{
    nvmlReturn_t result = enter_gpu_or_slice("DeviceGetUUID", device);
    char uuid[128] = "";

    if (result == NVML_SUCCESS && device->mig != WHOLE) {
        sscanf(numbered_value(gpu_at(device->index), "mig", (unsigned)device->mig), "%127s", uuid);
        return leave(put_text(uuid, out, size));
    }
    return leave(result == NVML_SUCCESS ? put_text(gpu_value(device, "uuid"), out, size) : result);
}

API nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned size)
{
    nvmlReturn_t result = enter_gpu_or_slice("DeviceGetName", device);
    int start = 0;

    if (result == NVML_SUCCESS && device->mig != WHOLE) {
        const char *text = numbered_value(gpu_at(device->index), "mig", (unsigned)device->mig);

        sscanf(text, "%*s %*u %*u %*u %n", &start);
        return leave(start ? put_text(text + start, out, size) : NVML_ERROR_NOT_SUPPORTED);
    }
    return leave(result == NVML_SUCCESS ? put_text(gpu_value(device, "name"), out, size) : result);
}

API nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    nvmlReturn_t result = enter_gpu("DeviceGetCudaComputeCapability", device);
    const char *text;

    if (result == NVML_SUCCESS) {
        text = gpu_value(device, "compute_capability");
        if (!text || sscanf(text, "%d.%d", major, minor) != 2)
            result = NVML_ERROR_NOT_SUPPORTED;
    }
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *out)
{
    nvmlReturn_t result = enter_gpu("DeviceGetPciInfo", device);

    if (result == NVML_SUCCESS) {
        put_address(gpu_value(device, "address"), out);
        put_number(gpu_value(device, "pci_device_id"), &out->pciDeviceId);
        put_number(gpu_value(device, "pci_subsystem_id"), &out->pciSubSystemId);
    }
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t *out)
{
    nvmlReturn_t result = enter_gpu("DeviceGetUtilizationRates", device);

    if (result == NVML_SUCCESS)
        result = put_two_numbers(gpu_value(device, "utilization"), &out->gpu, &out->memory);
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, nvmlGpuVirtualizationMode_t *out)
{
    nvmlReturn_t result = enter_gpu("DeviceGetVirtualizationMode", device);
    int mode = 0;

    if (result == NVML_SUCCESS)
        result = put_named(gpu_value(device, "virtualization"), VIRTUALIZATION_MODES, COUNT(VIRTUALIZATION_MODES),
                           &mode);
    if (result == NVML_SUCCESS)
        *out = (nvmlGpuVirtualizationMode_t)mode;
    return leave(result);
}

/* ---- Health -------------------------------------------------------------------------------------------------- */

API nvmlReturn_t nvmlDeviceGetTotalEccErrors(nvmlDevice_t device, nvmlMemoryErrorType_t type,
                                             nvmlEccCounterType_t counter, unsigned long long *out)
{
    nvmlReturn_t result = enter_gpu("DeviceGetTotalEccErrors", device);
    unsigned long long counts[2];
    const char *text;

    if (result == NVML_SUCCESS && ((unsigned)type > 1 || (unsigned)counter > 1))
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS) {
        text = gpu_value(device, counter == NVML_VOLATILE_ECC ? "ecc_volatile" : "ecc_aggregate");
        if (!text || sscanf(text, "%llu %llu", &counts[0], &counts[1]) != 2)
            result = NVML_ERROR_NOT_SUPPORTED;
        else
            *out = counts[type];
    }
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned *corrected, unsigned *uncorrected,
                                           unsigned *pending, unsigned *failure)
{
    nvmlReturn_t result = enter_gpu("DeviceGetRemappedRows", device);
    const char *text;

    if (result == NVML_SUCCESS) {
        text = gpu_value(device, "remapped_rows");
        if (!text || sscanf(text, "%u %u %u %u", corrected, uncorrected, pending, failure) != 4)
            result = NVML_ERROR_NOT_SUPPORTED;
    }
    return leave(result);
}

/* The addresses are made up; the count is what matters. */
API nvmlReturn_t nvmlDeviceGetRetiredPages(nvmlDevice_t device, nvmlPageRetirementCause_t cause, unsigned *count,
                                           unsigned long long *out)
{
    nvmlReturn_t result = enter_gpu("DeviceGetRetiredPages", device);
    unsigned by_cause[2], found, room = *count;

    if (result == NVML_SUCCESS)
        result = (unsigned)cause > 1 ? NVML_ERROR_INVALID_ARGUMENT
                                     : put_two_numbers(gpu_value(device, "retired_pages"), &by_cause[0], &by_cause[1]);
    if (result != NVML_SUCCESS)
        return leave(result);
    found = by_cause[cause];
    for (unsigned i = 0; out && i < found && i < room; i++)
        out[i] = (unsigned long long)i << 12;
    *count = found;
    return leave(found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

API nvmlReturn_t nvmlDeviceGetRetiredPagesPendingStatus(nvmlDevice_t device, nvmlEnableState_t *out)
{
    nvmlReturn_t result = enter_gpu("DeviceGetRetiredPagesPendingStatus", device);
    const char *text;
    unsigned pending;

    if (result == NVML_SUCCESS) {
        text = gpu_value(device, "retired_pages");
        if (!text || sscanf(text, "%*u %*u %u", &pending) != 1)
            result = NVML_ERROR_NOT_SUPPORTED;
        else
            *out = pending ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
    }
    return leave(result);
}

/* ---- Memory -------------------------------------------------------------------------------------------------- */

static nvmlReturn_t measure(nvmlDevice_t device, nvmlMemory_v2_t *out)
{
    if (device->mig != WHOLE) {
        const char *text = numbered_value(gpu_at(device->index), "mig", (unsigned)device->mig);

        if (sscanf(text, "%*s %*u %*u %llu", &out->total) != 1)
            return NVML_ERROR_NOT_SUPPORTED;
        out->reserved = out->used = 0;
        out->free = out->total;
        return NVML_SUCCESS;
    }
    if (!gpu_value(device, "memory_total"))
        return NVML_ERROR_NOT_SUPPORTED;
    out->total = bytes_in(gpu_value(device, "memory_total"));
    out->reserved = bytes_in(gpu_value(device, "memory_reserved"));
    out->used = bytes_in(gpu_value(device, "memory_used"));
    out->free = out->total - out->reserved - out->used;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *out)
{
    nvmlReturn_t result = enter_gpu_or_slice("DeviceGetMemoryInfo", device);

    if (result == NVML_SUCCESS && out->version != nvmlMemory_v2)
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    return leave(result == NVML_SUCCESS ? measure(device, out) : result);
}

/* The first version knows no reserved memory and counts it as used. */
API nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
    nvmlReturn_t result = enter_gpu_or_slice("DeviceGetMemoryInfo", device);
    nvmlMemory_v2_t memory;

    if (result == NVML_SUCCESS)
        result = measure(device, &memory);
    if (result == NVML_SUCCESS) {
        out->total = memory.total;
        out->used = memory.used + memory.reserved;
        out->free = memory.free;
    }
    return leave(result);
}

/* ---- Processes ----------------------------------------------------------------------------------------------- */

/* The next of "PID:BYTES,PID:BYTES"; false at the end. */
static int next_process(const char **text, unsigned *pid, unsigned long long *used)
{
    char *end;

    if (!*text || !**text)
        return 0;
    *pid = (unsigned)strtoul(*text, &end, 10);
    *used = *end == ':' ? strtoull(end + 1, &end, 10) : ULLONG_MAX;
    *text = *end == ',' ? end + 1 : NULL;
    return 1;
}

/* The two layouts of an entry differ in what follows the memory. */
static nvmlReturn_t put_processes(const char *function, nvmlDevice_t device, const char *key, unsigned *count,
                                  nvmlProcessInfo_t *out, nvmlProcessInfo_v1_t *out_v1)
{
    nvmlReturn_t result = enter_gpu(function, device);
    unsigned room = *count, found = 0, pid;
    unsigned long long used;
    const char *text;

    if (result != NVML_SUCCESS)
        return leave(result);
    text = gpu_value(device, key);
    for (; next_process(&text, &pid, &used); found++) {
        if (out && found < room)
            out[found] = (nvmlProcessInfo_t){pid, used, UINT_MAX, UINT_MAX};
        if (out_v1 && found < room)
            out_v1[found] = (nvmlProcessInfo_v1_t){pid, used};
    }
    put_number(gpu_value(device, "process_count"), &found);
    *count = found;
    return leave(found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

#define PROCESSES_FUNCTIONS(NAME, KEY)                                                               \
    API nvmlReturn_t nvml##NAME##_v3(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_t *out)   \
    {                                                                                                \
        return put_processes(#NAME, device, KEY, count, out, NULL);                                  \
    }                                                                                                \
    API nvmlReturn_t nvml##NAME##_v2(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v2_t *out) \
    {                                                                                                \
        return put_processes(#NAME, device, KEY, count, out, NULL);                                  \
    }                                                                                                \
    API nvmlReturn_t nvml##NAME(nvmlDevice_t device, unsigned *count, nvmlProcessInfo_v1_t *out)     \
    {                                                                                                \
        return put_processes(#NAME, device, KEY, count, NULL, out);                                  \
    }

PROCESSES_FUNCTIONS(DeviceGetComputeRunningProcesses, "processes")
PROCESSES_FUNCTIONS(DeviceGetGraphicsRunningProcesses, "graphics_processes")
