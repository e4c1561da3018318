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
 * read. Of several faults that fit, the last one holds. */

#ifndef MACHINE_FILE_H
#define MACHINE_FILE_H

#include "nvml_abi.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { MAX_GPUS = 64, ANY_GPU = -1 };

struct device { int index; };

/* Takes the lock and reads the machine file where it has changed; false where there is none. Everything below but
 * error_text and is_handle asks for the lock; release_machine gives it back. */
int hold_machine(void);
void release_machine(void);

/* Counts this call of the function for the GPU, or for none, and tells whether it has to end in an error. */
int meets_fault(const char *function, int gpu, nvmlReturn_t *error);

int gpus_in_machine(void);
nvmlDevice_t gpu_at(int index);
int is_handle(nvmlDevice_t device);  /* of a GPU that a machine can have */
int is_gpu(nvmlDevice_t device);  /* of one that this machine has */

/* The text behind a key, or NULL. */
const char *system_value(const char *key);
const char *gpu_value(nvmlDevice_t device, const char *key);
const char *pair_value(nvmlDevice_t one, nvmlDevice_t two, const char *key);
const char *link_value(nvmlDevice_t device, unsigned link);

/* What NVML says of an error. */
const char *error_text(nvmlReturn_t error);

#endif
