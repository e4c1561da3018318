/* Copyright: (c) 2026, gpufleet maintainers
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The library as a whole, and how a GPU or slice is found in it. */

#include <stdio.h>
#include <string.h>

#include "standin.h"

/* ---- The library --------------------------------------------------------------------------------------------- */

API nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
    nvmlReturn_t result = enter("Init", ANY_GPU);

    (void)flags;
    if (result == NVML_SUCCESS)
        initialised++;
    return leave(result);
}

API nvmlReturn_t nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
API nvmlReturn_t nvmlInit(void) { return nvmlInitWithFlags(0); }

API nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t result = enter("Shutdown", ANY_GPU);

    if (result == NVML_SUCCESS)
        initialised--;
    return leave(result);
}

API const char *nvmlErrorString(nvmlReturn_t result) { return error_text(result); }

API nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    nvmlReturn_t result = enter("SystemGetDriverVersion", ANY_GPU);

    return leave(result == NVML_SUCCESS ? put_text(system_value("driver_version"), out, size) : result);
}

/* The library knows its own version before it is initialised. */
API nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
    nvmlReturn_t result = enter("SystemGetNVMLVersion", ANY_GPU);
    int known = result == NVML_SUCCESS || (result == NVML_ERROR_UNINITIALIZED && !initialised);

    return leave(known ? put_text(system_value("nvml_version"), out, size) : result);
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    nvmlReturn_t result = enter("SystemGetCudaDriverVersion", ANY_GPU);
    unsigned number = 0;

    if (result == NVML_SUCCESS)
        result = put_number(system_value("cuda_version"), &number);
    *out = (int)number;
    return leave(result);
}

API nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out) { return nvmlSystemGetCudaDriverVersion_v2(out); }

API nvmlReturn_t nvmlSystemGetProcessName(unsigned pid, char *out, unsigned size)
{
    nvmlReturn_t result = enter("SystemGetProcessName", ANY_GPU);
    char key[32];

    snprintf(key, sizeof key, "process.%u", pid);
    if (result == NVML_SUCCESS && !system_value(key))
        result = NVML_ERROR_NOT_FOUND;
    return leave(result == NVML_SUCCESS ? put_text(system_value(key), out, size) : result);
}

/* ---- Finding a GPU ------------------------------------------------------------------------------------------ */

API nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *out)
{
    nvmlReturn_t result = enter("DeviceGetCount", ANY_GPU);

    if (result == NVML_SUCCESS && put_number(system_value("gpu_count"), out) != NVML_SUCCESS)
        *out = (unsigned)gpus_in_machine();
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetCount(unsigned *out) { return nvmlDeviceGetCount_v2(out); }

API nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t *out)
{
    nvmlReturn_t result = enter("DeviceGetHandleByIndex", index < MAX_GPUS ? (int)index : ANY_GPU);

    if (result == NVML_SUCCESS && index >= (unsigned)gpus_in_machine())
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS)
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

    if (result != NVML_SUCCESS)
        return leave(result);
    put_address(address, &wanted);
    for (int i = 0; i < gpus_in_machine(); i++) {
        put_address(gpu_value(gpu_at(i), "address"), &found);
        if (!strcmp(found.busId, wanted.busId)) {
            *out = gpu_at(i);
            return leave(NVML_SUCCESS);
        }
    }
    return leave(NVML_ERROR_NOT_FOUND);
}

API nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
    nvmlReturn_t result = enter("DeviceGetHandleByUUID", ANY_GPU);

    if (result != NVML_SUCCESS)
        return leave(result);
    for (int i = 0; i < gpus_in_machine(); i++) {
        const char *found = gpu_value(gpu_at(i), "uuid");

        if (found && !strcmp(found, uuid)) {
            *out = gpu_at(i);
            return leave(NVML_SUCCESS);
        }
    }
    return leave(NVML_ERROR_NOT_FOUND);
}

API nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned *out)
{
    nvmlReturn_t result = enter_gpu("DeviceGetIndex", device);

    if (result == NVML_SUCCESS)
        *out = (unsigned)device->index;
    return leave(result);
}

/* ---- Finding a slice of a GPU -------------------------------------------------------------------------------- */

/* None where MIG is off or the board has none, which NVML calls a success. */
API nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned *out)
{
    nvmlReturn_t result = enter_gpu("DeviceGetMaxMigDeviceCount", device);
    unsigned current = 0, pending;

    if (result == NVML_SUCCESS) {
        put_two_numbers(gpu_value(device, "mig"), &current, &pending);
        *out = 0;
        if (current)
            put_number(gpu_value(device, "mig_devices_max"), out);
    }
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned index, nvmlDevice_t *out)
{
    nvmlReturn_t result = enter_gpu("DeviceGetMigDeviceHandleByIndex", device);

    if (result == NVML_SUCCESS && index >= MAX_MIG)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS && !numbered_value(device, "mig", index))
        result = NVML_ERROR_NOT_FOUND;
    if (result == NVML_SUCCESS)
        *out = slice_at(device->index, (int)index);
    return leave(result);
}

static nvmlReturn_t instance(const char *function, nvmlDevice_t device, unsigned *out, const char *format)
{
    nvmlReturn_t result = enter_gpu_or_slice(function, device);

    if (result == NVML_SUCCESS && device->mig == WHOLE)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS) {
        const char *text = numbered_value(gpu_at(device->index), "mig", (unsigned)device->mig);

        result = text && sscanf(text, format, out) == 1 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    }
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned *out)
{
    return instance("DeviceGetGpuInstanceId", device, out, "%*s %u");
}

API nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned *out)
{
    return instance("DeviceGetComputeInstanceId", device, out, "%*s %*u %u");
}
