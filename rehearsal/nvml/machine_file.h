/* Copyright: (c) 2026, gpufleet maintainers
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The machine that the stand-in speaks of: read from a text file, asked by key, with its faults.
 *
 * The machine file is the one named by GPUFLEET_NVML_MACHINE, else machine.nvml beside this library, else
 * machine.nvml one folder above it. It is read again whenever it has changed, so a GPU can vanish while a program
 * runs. Without a machine file nvmlInit says that no driver is loaded.
 *
 * Format: sections and "key = value" lines, # begins a comment, of two equal keys the later wins.
 *
 *     [system]
 *     driver_version = 595.58.03        nvml_version = 13.595.58.03       cuda_version = 13020
 *     gpu_count = 3                     what the count says, where that shall not be the number of sections
 *     process.PID = NAME                what the driver calls a process
 *     [gpu 0]                           one section a GPU, counted from 0 without a gap
 *     name, uuid, serial                texts
 *     address = 0000:06:00.0            pci_device_id, pci_subsystem_id = 0x2bb510de
 *     minor, compute_mode, persistence, architecture, memory_node, power_limit_milliwatts, performance_state,
 *     pcie_generation, pcie_generation_max, pcie_generation_gpu_max, pcie_width, pcie_width_max = numbers
 *     memory_total, memory_reserved, memory_used = bytes
 *     compute_capability = 12.0         ecc, mig = CURRENT PENDING (0 or 1 each)
 *     utilization = GPU MEMORY          in percent
 *     virtualization = NONE|PASSTHROUGH|VGPU|HOST_VGPU|HOST_VSGA
 *     ecc_volatile, ecc_aggregate = CORRECTED UNCORRECTED
 *     remapped_rows = CORRECTED UNCORRECTED PENDING FAILURE               boards from Ampere on
 *     retired_pages = SINGLE_BIT DOUBLE_BIT PENDING                       boards before Ampere
 *     cpus = 0-63,128-191               numa = 0         what the affinity functions tell
 *     nvlink.L = up|down ADDRESS gpu|switch
 *     fabric = STATE STATUS CLIQUE [HEALTH_MASK [HEALTH_SUMMARY [CLUSTER_UUID]]]
 *     processes, graphics_processes = PID:BYTES,PID:BYTES                 without :BYTES the memory is not told
 *     process_count = 7                 what the count says, where that shall not be the number listed
 *     mig_devices_max = 7               mig.I = UUID GPU_INSTANCE COMPUTE_INSTANCE MEMORY_BYTES NAME
 *     [pair 0 1]                        holds in both directions
 *     level = INTERNAL|PIX|PXB|PHB|NODE|SYS
 *     p2p = OK|CHIPSET_NOT_SUPPORTED|GPU_NOT_SUPPORTED|TOPOLOGY_NOT_SUPPORTED|DISABLED_BY_REGKEY|NOT_SUPPORTED
 *     [faults]                          FUNCTION = ERROR [gpu=N] [from=K]
 *     DeviceGetMemoryInfo = GPU_IS_LOST gpu=3 from=2
 *
 * A key that is absent makes its function answer "not supported", as boards do that lack a feature. FUNCTION is a
 * name of NVML without "nvml" and without a version suffix, or * for all; ERROR is the name of an NVML error or its
 * number, or HANG (the call never returns) or CRASH (it ends the process, as a fault in the library does); from=K
 * spares the first K-1 calls of that function (counted for the GPU, where one is named) after the file was read. Of
 * several faults that fit, the last one holds. */

#ifndef MACHINE_FILE_H
#define MACHINE_FILE_H

#include "nvml_abi.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { MAX_GPUS = 64, MAX_MIG = 8, ANY_GPU = -1, WHOLE = -1 };

/* What a handle of NVML leads to: GPU "index", or its slice "mig" unless that is WHOLE. */
struct nvmlDevice_st { int index, mig; };

enum ending { NO_FAULT, AN_ERROR, A_HANG, A_CRASH };

/* Takes the lock and reads the machine file where it has changed; false where there is none. Everything below but
 * error_text and is_handle asks for the lock; release_machine gives it back. */
int hold_machine(void);
void release_machine(void);

/* Counts this call of the function for the GPU, or for none, and tells how it has to end. */
enum ending meets_fault(const char *function, int gpu, nvmlReturn_t *error);

int gpus_in_machine(void);
nvmlDevice_t gpu_at(int index);
nvmlDevice_t slice_at(int index, int mig);
int is_handle(nvmlDevice_t device);  /* of a GPU or slice that a machine can have */
int is_there(nvmlDevice_t device);  /* of one that this machine has */

/* The text behind a key, or NULL. */
const char *system_value(const char *key);
const char *gpu_value(nvmlDevice_t device, const char *key);
const char *pair_value(nvmlDevice_t one, nvmlDevice_t two, const char *key);
const char *numbered_value(nvmlDevice_t device, const char *name, unsigned number);  /* nvlink.0, mig.0 */

/* What NVML says of an error. */
const char *error_text(nvmlReturn_t error);

#endif
