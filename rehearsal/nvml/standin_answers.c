/* Copyright: (c) 2026, gpufleet maintainers
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * How every function of the stand-in begins, ends and answers. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin.h"

int initialised;

nvmlReturn_t enter(const char *function, int gpu)
{
    int machine = hold_machine();
    nvmlReturn_t error;

    switch (meets_fault(function, gpu, &error)) {
    case A_HANG:
        for (;;)
            pause();
    case A_CRASH:
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
        break;
    case AN_ERROR:
        return error;
    case NO_FAULT:
        break;
    }
    if (!strcmp(function, "Init"))
        return machine ? NVML_SUCCESS : NVML_ERROR_DRIVER_NOT_LOADED;
    return initialised ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t enter_gpu_or_slice(const char *function, nvmlDevice_t device)
{
    nvmlReturn_t result = enter(function, is_handle(device) ? device->index : ANY_GPU);

    return result == NVML_SUCCESS && !is_there(device) ? NVML_ERROR_INVALID_ARGUMENT : result;
}

nvmlReturn_t enter_gpu(const char *function, nvmlDevice_t device)
{
    nvmlReturn_t result = enter_gpu_or_slice(function, device);

    return result == NVML_SUCCESS && device->mig != WHOLE ? NVML_ERROR_NOT_SUPPORTED : result;
}

nvmlReturn_t leave(nvmlReturn_t result)
{
    release_machine();
    return result;
}

nvmlReturn_t put_text(const char *text, char *out, unsigned size)
{
    if (!text)
        return NVML_ERROR_NOT_SUPPORTED;
    if (strlen(text) >= size)
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

nvmlReturn_t put_number(const char *text, unsigned *out)
{
    if (!text)
        return NVML_ERROR_NOT_SUPPORTED;
    *out = (unsigned)strtoul(text, NULL, 0);
    return NVML_SUCCESS;
}

nvmlReturn_t put_two_numbers(const char *text, unsigned *one, unsigned *two)
{
    return text && sscanf(text, "%u %u", one, two) == 2 ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t put_named(const char *text, const struct name *names, size_t count, int *out)
{
    for (size_t i = 0; text && i < count; i++)
        if (!strcmp(names[i].name, text)) {
            *out = names[i].value;
            return NVML_SUCCESS;
        }
    return NVML_ERROR_NOT_SUPPORTED;
}

unsigned long long bytes_in(const char *text) { return text ? strtoull(text, NULL, 0) : 0; }

/* "0-63,128-191" as a mask; what lies beyond the caller's words is left out, as NVML does. */
nvmlReturn_t put_mask(const char *list, unsigned words, unsigned long *out)
{
    if (!list)
        return NVML_ERROR_NOT_SUPPORTED;
    memset(out, 0, words * sizeof *out);
    while (*list) {
        char *end;
        unsigned long low = strtoul(list, &end, 10), high = low;

        if (end == list)
            return NVML_ERROR_UNKNOWN;
        if (*end == '-')
            high = strtoul(end + 1, &end, 10);
        for (; low <= high && low / 64 < words; low++)
            out[low / 64] |= 1UL << (low % 64);
        list = *end == ',' ? end + 1 : end;
    }
    return NVML_SUCCESS;
}

void put_address(const char *address, nvmlPciInfo_t *out)
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
