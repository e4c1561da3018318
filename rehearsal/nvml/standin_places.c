/* Copyright: (c) 2026, gpufleet maintainers
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Where a GPU is and how it reaches the others. */

#include <stdio.h>
#include <string.h>

#include "standin.h"

/* The driver's own limit; nvml.h allows more by now. */
enum { MAX_LINKS = 18 };

static const struct name LEVELS[] = {
    {0, "INTERNAL"}, {10, "PIX"}, {20, "PXB"}, {30, "PHB"}, {40, "NODE"}, {50, "SYS"},
};

static const struct name P2P_STATES[] = {
    {0, "OK"}, {1, "CHIPSET_NOT_SUPPORTED"}, {2, "GPU_NOT_SUPPORTED"}, {3, "TOPOLOGY_NOT_SUPPORTED"},
    {4, "DISABLED_BY_REGKEY"}, {5, "NOT_SUPPORTED"}, {6, "UNKNOWN"},
};

/* ---- Affinity ------------------------------------------------------------------------------------------------ */

API nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned words, unsigned long *out,
                                             nvmlAffinityScope_t scope)
{
    nvmlReturn_t result = enter_gpu("DeviceGetMemoryAffinity", device);

    (void)scope;
    return leave(result == NVML_SUCCESS ? put_mask(gpu_value(device, "numa"), words, out) : result);
}

API nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned words, unsigned long *out,
                                                     nvmlAffinityScope_t scope)
{
    nvmlReturn_t result = enter_gpu("DeviceGetCpuAffinity", device);

    (void)scope;
    return leave(result == NVML_SUCCESS ? put_mask(gpu_value(device, "cpus"), words, out) : result);
}

API nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned words, unsigned long *out)
{
    return nvmlDeviceGetCpuAffinityWithinScope(device, words, out, 0);
}

/* ---- Pairs --------------------------------------------------------------------------------------------------- */

static nvmlReturn_t enter_pair(const char *function, nvmlDevice_t one, nvmlDevice_t two)
{
    nvmlReturn_t result = enter_gpu(function, one);

    return result == NVML_SUCCESS && !is_there(two) ? NVML_ERROR_INVALID_ARGUMENT : result;
}

API nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t two, nvmlGpuTopologyLevel_t *out)
{
    nvmlReturn_t result = enter_pair("DeviceGetTopologyCommonAncestor", one, two);
    int level = 0;

    if (result == NVML_SUCCESS)
        result = put_named(one == two ? "INTERNAL" : pair_value(one, two, "level"), LEVELS, COUNT(LEVELS), &level);
    if (result == NVML_SUCCESS)
        *out = (nvmlGpuTopologyLevel_t)level;
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t two, nvmlGpuP2PCapsIndex_t capability,
                                        nvmlGpuP2PStatus_t *out)
{
    nvmlReturn_t result = enter_pair("DeviceGetP2PStatus", one, two);
    int state = 0;

    (void)capability;
    if (result == NVML_SUCCESS)
        result = put_named(pair_value(one, two, "p2p"), P2P_STATES, COUNT(P2P_STATES), &state);
    if (result == NVML_SUCCESS)
        *out = (nvmlGpuP2PStatus_t)state;
    return leave(result);
}

/* ---- NVLink -------------------------------------------------------------------------------------------------- */

static nvmlReturn_t enter_link(const char *function, nvmlDevice_t device, unsigned link, const char **text)
{
    nvmlReturn_t result = enter_gpu(function, device);

    *text = NULL;
    if (result == NVML_SUCCESS && link >= MAX_LINKS)
        result = NVML_ERROR_INVALID_ARGUMENT;
    if (result == NVML_SUCCESS) {
        *text = numbered_value(device, "nvlink", link);
        result = *text ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
    }
    return result;
}

API nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned link, nvmlEnableState_t *out)
{
    const char *text;
    nvmlReturn_t result = enter_link("DeviceGetNvLinkState", device, link, &text);

    if (result == NVML_SUCCESS)
        *out = strncmp(text, "up", 2) ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, nvmlPciInfo_t *out)
{
    const char *text;
    nvmlReturn_t result = enter_link("DeviceGetNvLinkRemotePciInfo", device, link, &text);
    char address[32];

    if (result == NVML_SUCCESS && sscanf(text, "%*s %31s", address) != 1)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS)
        put_address(address, out);
    return leave(result);
}

API nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link,
                                                     nvmlIntNvLinkDeviceType_t *out)
{
    const char *text;
    nvmlReturn_t result = enter_link("DeviceGetNvLinkRemoteDeviceType", device, link, &text);
    char kind[16];

    if (result == NVML_SUCCESS && sscanf(text, "%*s %*s %15s", kind) != 1)
        result = NVML_ERROR_NOT_SUPPORTED;
    if (result == NVML_SUCCESS)
        *out = strcmp(kind, "switch") ? NVML_NVLINK_DEVICE_TYPE_GPU : NVML_NVLINK_DEVICE_TYPE_SWITCH;
    return leave(result);
}

/* ---- NVSwitch fabric ----------------------------------------------------------------------------------------- */

/* "1234abcd-..." to bytes; the dashes count for nothing. */
static void put_uuid(const char *text, unsigned char out[16])
{
    unsigned place = 0, digit;

    memset(out, 0, 16);
    for (; *text && place < 32; text++)
        if (*text != '-' && sscanf((char[]){*text, '\0'}, "%x", &digit) == 1) {
            out[place / 2] = (unsigned char)(out[place / 2] | (place % 2 ? digit : digit << 4));
            place++;
        }
}

static nvmlReturn_t measure_fabric(nvmlDevice_t device, nvmlGpuFabricInfo_v3_t *out)
{
    const char *text = gpu_value(device, "fabric");
    unsigned state, status, clique, health = 0, summary = 0;
    char uuid[64] = "";

    /* What lies between the fields is nobody's promise; nvidia-ml-py's own structure has it as part of the state. */
    memset(out, 0xa5, sizeof *out);
    if (!text || sscanf(text, "%u %u %u %i %u %63s", &state, &status, &clique, (int *)&health, &summary, uuid) < 3)
        return NVML_ERROR_NOT_SUPPORTED;
    put_uuid(uuid, out->clusterUuid);
    out->state = (nvmlGpuFabricState_t)state;
    out->status = (nvmlReturn_t)status;
    out->cliqueId = clique;
    out->healthMask = health;
    out->healthSummary = (unsigned char)summary;
    return NVML_SUCCESS;
}

API nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *out)
{
    nvmlReturn_t result = enter_gpu("DeviceGetGpuFabricInfo", device);
    nvmlGpuFabricInfo_v3_t info;

    if (result == NVML_SUCCESS)
        result = measure_fabric(device, &info);
    if (result == NVML_SUCCESS) {
        memcpy(out->clusterUuid, info.clusterUuid, sizeof out->clusterUuid);
        out->status = info.status;
        out->cliqueId = info.cliqueId;
        out->state = info.state;
    }
    return leave(result);
}

#ifndef WITHOUT_NEWER_FUNCTIONS /* see standin_gpu.c */
/* Version 2 ends before the summary, whose place lies in what that version has as padding. */
API nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfoV_t *out)
{
    nvmlReturn_t result = enter_gpu("DeviceGetGpuFabricInfoV", device);
    unsigned version = out->version;
    nvmlGpuFabricInfo_v3_t info;

    if (result == NVML_SUCCESS && version != nvmlGpuFabricInfo_v2 && version != nvmlGpuFabricInfo_v3)
        result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
    if (result == NVML_SUCCESS)
        result = measure_fabric(device, &info);
    if (result == NVML_SUCCESS) {
        info.version = version;
        memcpy(out, &info, version == nvmlGpuFabricInfo_v2 ? sizeof(nvmlGpuFabricInfo_v2_t) : sizeof info);
    }
    return leave(result);
}
#endif
