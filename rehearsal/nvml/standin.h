/* Copyright: (c) 2026, gpufleet maintainers
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * Stand-in for NVIDIA's management library: nvidia-ml-py loads it like the real one and asks it about a machine
 * that a text file describes, so that a probe can be tried against any machine and any failure without a GPU.
 *
 *     make -C rehearsal/nvml            builds libnvidia-ml.so.1 here; machine_tree.py builds it into its tree
 *
 * The functions of NVML are in standin_*.c, by subject; machine_file.h describes the file that they answer from.
 * Here is what they share: every function begins with one of the enter functions and returns through leave(). */

#ifndef STANDIN_H
#define STANDIN_H

#include "machine_file.h"

#define API __attribute__((visibility("default")))

/* Takes the lock, meets the faults and tells whether NVML is initialised; "function" is the name in [faults]. The
 * caller gives the lock back through leave(), whatever is returned here. */
nvmlReturn_t enter(const char *function, int gpu);
nvmlReturn_t enter_gpu(const char *function, nvmlDevice_t device);  /* not supported for slices */
nvmlReturn_t enter_gpu_or_slice(const char *function, nvmlDevice_t device);
nvmlReturn_t leave(nvmlReturn_t result);

/* Set by Init and Shutdown. */
extern int initialised;

/* Put a text of the machine file into what NVML returns; not supported where it is NULL. */
nvmlReturn_t put_text(const char *text, char *out, unsigned size);
nvmlReturn_t put_number(const char *text, unsigned *out);
nvmlReturn_t put_two_numbers(const char *text, unsigned *one, unsigned *two);
nvmlReturn_t put_mask(const char *list, unsigned words, unsigned long *out);
void put_address(const char *address, nvmlPciInfo_t *out);
unsigned long long bytes_in(const char *text);

struct name { int value; const char *name; };

/* The value behind a name; not supported where the text is NULL or none of the names. */
nvmlReturn_t put_named(const char *text, const struct name *names, size_t count, int *out);

#endif
