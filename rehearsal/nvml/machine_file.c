/* Copyright: (c) 2026, gpufleet maintainers
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Reads the machine file and holds what it says; the format is described in machine_file.h. */

#define _GNU_SOURCE
#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "machine_file.h"

enum { MAX_LINE = 1024 };

/* The whole of nvmlReturn_t. */
static const struct { int code; const char *name, *text; } ERRORS[] = {
    {0, "SUCCESS", "Success"},
    {1, "UNINITIALIZED", "Uninitialized"},
    {2, "INVALID_ARGUMENT", "Invalid Argument"},
    {3, "NOT_SUPPORTED", "Not Supported"},
    {4, "NO_PERMISSION", "Insufficient Permissions"},
    {5, "ALREADY_INITIALIZED", "Already Initialized"},
    {6, "NOT_FOUND", "Not Found"},
    {7, "INSUFFICIENT_SIZE", "Insufficient Size"},
    {8, "INSUFFICIENT_POWER", "Insufficient External Power"},
    {9, "DRIVER_NOT_LOADED", "Driver Not Loaded"},
    {10, "TIMEOUT", "Timeout"},
    {11, "IRQ_ISSUE", "Interrupt Request Issue"},
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
    {22, "VGPU_ECC_NOT_SUPPORTED", "vGPU ECC is not supported"},
    {23, "INSUFFICIENT_RESOURCES", "Insufficient Resources"},
    {24, "FREQ_NOT_SUPPORTED", "Frequency not supported"},
    {25, "ARGUMENT_VERSION_MISMATCH", "Argument version mismatch"},
    {26, "DEPRECATED", "Deprecated"},
    {27, "NOT_READY", "Not Ready"},
    {28, "GPU_NOT_FOUND", "GPU not found"},
    {29, "INVALID_STATE", "Invalid State"},
    {30, "RESET_TYPE_NOT_SUPPORTED", "Reset type not supported"},
    {999, "UNKNOWN", "Unknown Error"},
};

/* ---- The machine in memory ---------------------------------------------------------------------------------- */

struct value { struct value *next; int first, second; char *key, *text; };  /* newest first */
struct fault {  /* newest first */
    struct fault *next;
    char *function;
    enum ending ending;
    int error, gpu, from;
};
struct calls { struct calls *next; char *function; int all, by_gpu[MAX_GPUS]; };

enum { NOWHERE = -1, SYSTEM = -2, FAULTS = -3 };  /* values of "first" that are no GPU */

static struct nvmlDevice_st devices[MAX_GPUS][MAX_MIG + 1];  /* the GPU itself, then its slices */
static struct value *values;
static struct fault *faults;
static struct calls *calls;
static int gpu_count;
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
    return isdigit((unsigned char)*name) ? atoi(name) : NVML_ERROR_UNKNOWN;
}

static void remember_fault(const char *function, char *text)
{
    struct fault *fault = calloc(1, sizeof *fault);
    char *rest = text, *word = strtok_r(rest, " \t", &rest);

    if (!fault)
        return;
    fault->function = strdup(function);
    fault->ending = word && !strcmp(word, "HANG") ? A_HANG : word && !strcmp(word, "CRASH") ? A_CRASH : AN_ERROR;
    fault->error = word ? error_code(word) : NVML_ERROR_UNKNOWN;
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
        for (int j = 0; j <= MAX_MIG; j++)
            devices[i][j] = (struct nvmlDevice_st){i, j ? j - 1 : WHOLE};
    return 1;
}

/* ---- Asking the machine ------------------------------------------------------------------------------------- */

int gpus_in_machine(void) { return gpu_count; }

nvmlDevice_t gpu_at(int index) { return &devices[index][0]; }

nvmlDevice_t slice_at(int index, int mig) { return &devices[index][mig + 1]; }

int is_handle(nvmlDevice_t device) { return device >= devices[0] && device < devices[MAX_GPUS]; }

int is_there(nvmlDevice_t device)
{
    if (!is_handle(device) || device->index >= gpu_count)
        return 0;
    return device->mig == WHOLE || numbered_value(gpu_at(device->index), "mig", (unsigned)device->mig);
}

static const char *value_of(int first, int second, const char *key)
{
    for (struct value *value = values; value; value = value->next)
        if (value->first == first && value->second == second && !strcmp(value->key, key))
            return value->text;
    return NULL;
}

const char *system_value(const char *key) { return value_of(SYSTEM, NOWHERE, key); }

const char *gpu_value(nvmlDevice_t device, const char *key) { return value_of(device->index, NOWHERE, key); }

const char *pair_value(nvmlDevice_t one, nvmlDevice_t two, const char *key)
{
    int low = one->index < two->index ? one->index : two->index;
    int high = one->index < two->index ? two->index : one->index;

    return value_of(low, high, key);
}

const char *numbered_value(nvmlDevice_t device, const char *name, unsigned number)
{
    char key[32];

    snprintf(key, sizeof key, "%s.%u", name, number);
    return gpu_value(device, key);
}

const char *error_text(nvmlReturn_t error)
{
    for (size_t i = 0; i < COUNT(ERRORS); i++)
        if (ERRORS[i].code == (int)error)
            return ERRORS[i].text;
    return "Unknown Error";
}

/* ---- Lock, calls and faults --------------------------------------------------------------------------------- */

int hold_machine(void)
{
    pthread_mutex_lock(&lock);
    return refresh_machine();
}

void release_machine(void) { pthread_mutex_unlock(&lock); }

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

enum ending meets_fault(const char *function, int gpu, nvmlReturn_t *error)
{
    int by_gpu = 0, of_all_by_gpu = 0;
    int all = count_call(function, gpu, &by_gpu), of_all = count_call("*", gpu, &of_all_by_gpu);

    for (struct fault *fault = faults; fault; fault = fault->next) {
        int any = !strcmp(fault->function, "*");

        if ((!any && strcmp(fault->function, function)) || (fault->gpu != ANY_GPU && fault->gpu != gpu))
            continue;
        if ((fault->gpu == ANY_GPU ? (any ? of_all : all) : (any ? of_all_by_gpu : by_gpu)) >= fault->from) {
            *error = (nvmlReturn_t)fault->error;
            return fault->ending;
        }
    }
    return NO_FAULT;
}
