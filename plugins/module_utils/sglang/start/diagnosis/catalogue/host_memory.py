# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures of host memory: the pool of HiCache, pinning, the kernel's out-of-memory killer."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import (
    RAISED,
    Failure,
    Pattern,
)

_NUMBER = r"\d+(?:\.\d+)?"
_REQUEST = rf"Requesting (?P<requested_gb>{_NUMBER}) GB but only have (?P<available_gb>-?{_NUMBER}) GB free"

HOST_MEMORY = (
    Failure(
        "host_memory_guard",
        "SGLang's own check of host memory refused a pool.",
        "Lower hicache.ratio (or hicache.size_gb), or free host memory: `free -g` tells what is "
        "available, and `ps -eo rss,pid,args --sort=-rss | head` who holds it.",
        (
            Pattern(
                rf"Not enough host memory available\. {_REQUEST}",
                "SGLang mem_cache/memory_pool_host.py to 0.5.16, mem_cache/pool_host/base.py from 0.5.17",
                "ValueError: Not enough host memory available. Requesting 8.00 GB but only have 1.50 GB free. Please "
                "reduce the size of the hierarchical cache.",
            ),
            Pattern(
                rf"Not enough host memory for (?!request )(?P<pool>[\w .,-]+?)\. {_REQUEST}",
                "SGLang mem_cache/pool_host/dsa.py, mha.py, unified.py, minimax_m3_nvfp4.py, mem_cache/"
                "memory_pool_host.py",
                "ValueError: Not enough host memory for DSA indexer hierarchical cache. Requesting 2.00 GB but only "
                "have 1.50 GB free.",
                since="0.5.11",
            ),
            Pattern(
                RAISED + r"Not enough host memory for (?!request )(?P<pool>[\w .,-]+)",
                "SGLang mem_cache/hybrid_cache/hybrid_pool_assembler.py",
                "ValueError: Not enough host memory for M3.1 NVFP4 KV, index and draft caches",
                since="0.5.11",
            ),
            Pattern(
                r"No host memory is left for HiCache after the 10 GiB reserve",
                "SGLang mem_cache/hicache_auto_size.py",
                "ValueError: No host memory is left for HiCache after the 10 GiB reserve; set --hicache-ratio or "
                "--hicache-size explicitly.",
                since="0.5.21",
            ),
        ),
        "host_pool",
        fatal=True,
    ),
    Failure(
        "host_pool_smaller_than_device",
        "The release wants a host pool with more tokens than the device pool.",
        "Set hicache.ratio above 1, such as 1.5.",
        (
            Pattern(
                r"The host memory should be larger than the device memory",
                "SGLang mem_cache/memory_pool_host.py",
                "AssertionError: The host memory should be larger than the device memory with the current protocol",
                until="0.5.15",
            ),
        ),
        "host_pool",
        fatal=True,
    ),
    Failure(
        "auto_size_unsupported",
        "This release cannot size the host pools of this model by a share of the host memory.",
        "Set hicache.ratio or hicache.size_gb instead of hicache.host_memory_fraction.",
        (
            Pattern(
                r"HiCache auto-sizing does not support (?P<pool>\w+)",
                "SGLang mem_cache/hicache_auto_size.py",
                "ValueError: HiCache auto-sizing does not support DeepSeekV4TokenToKVPool; set --hicache-ratio or "
                "--hicache-size explicitly.",
                since="0.5.21",
            ),
        ),
        "host_pool",
        fatal=True,
    ),
    Failure(
        "registration_failed",
        "The driver refused to pin host memory that was already there.",
        "Run `systemctl show --property=LimitMEMLOCK UNIT`; it has to be infinity. Then compare "
        "what is free on each NUMA node (`numactl --hardware`) with what the ranks there pin, and "
        "lower hicache.ratio if that is short.",
        (
            Pattern(
                RAISED + r"cudaHostRegister(?:\([^)]*\))? failed \(rc=(?P<rc>-?\d+), (?P<reason>[^)]*)\)"
                r"(?: at offset=\d+ size=(?P<requested_bytes>\d+))?",
                "SGLang mem_cache/memory_pool_host.py, mem_cache/pool_host/common.py; checked from 0.5.13 on",
                "RuntimeError: cudaHostRegister failed (rc=2, out of memory) at offset=0 size=1000000512 "
                "(total=1000000512, chunk_limit=274877906944); host buffer is not pinned",
                since="0.5.13",
            ),
            Pattern(
                RAISED + r"cudaHostRegister failed",
                "SGLang disaggregation and storage backends that register buffers of their own",
                "RuntimeError: cudaHostRegister failed",
            ),
            Pattern(
                r"hipHostMalloc of (?P<requested_gb>\d+\.\d+) GB for a HiCache host pool failed \(rc=(?P<rc>-?\d+), "
                r"(?P<reason>[^)]*)\)",
                "SGLang mem_cache/pool_host/common.py",
                "RuntimeError: hipHostMalloc of 40.00 GB for a HiCache host pool failed (rc=2, out of memory). With "
                "HSA_USERPTR_FOR_PAGED_MEM=0",
                since="0.5.22",
            ),
        ),
        "host_pool",
        fatal=True,
    ),
    Failure(
        "host_memory_exhausted",
        "The kernel gave a process of the server no more memory.",
        "Free host memory (`free -g`), or lower hicache.ratio. With huge pages, reserve as many "
        "as the pools take: `grep Huge /proc/meminfo` tells how many there are.",
        (
            Pattern(
                RAISED + r"Cannot allocate memory",
                "Linux errno 12 (ENOMEM) as CPython's OSError prints it; SGLang's pools are made by mmap from 0.5.13",
                "OSError: [Errno 12] Cannot allocate memory",
            ),
            Pattern(
                r"^MemoryError\b",
                "CPython Objects/exceptions.c",
                "MemoryError",
            ),
            Pattern(
                r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory): you tried to allocate "
                r"(?P<requested_bytes>\d+) bytes",
                "PyTorch c10/core/impl/alloc_cpu.cpp",
                "RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate "
                "memory: you tried to allocate 68719476736 bytes. Error code 12 (Cannot allocate memory)",
            ),
        ),
    ),
    Failure(
        "oom_killer",
        "The kernel ran out of memory and killed a process of the unit.",
        "Lower hicache.ratio, or raise MemoryMax of the unit. `journalctl -k "
        "--grep='oom-kill|Killed process'` tells which limit was met and which process was "
        "killed.",
        (
            Pattern(
                r"A process of this unit has been killed by the OOM killer",
                "systemd src/core/unit.c",
                "sglang-main.service: A process of this unit has been killed by the OOM killer.",
            ),
        ),
        fatal=True,
    ),
    Failure(
        "bus_error",
        "A process touched memory that the kernel could not give it: reserved huge pages or /dev/shm are used up.",
        "Compare the reserved huge pages of each NUMA node (`grep . "
        "/sys/devices/system/node/node*/hugepages/*/free_hugepages`) and the room in /dev/shm "
        "(`df -h /dev/shm`) with what the pools take, and reserve or enlarge what is short.",
        (
            Pattern(
                r"Unexpected bus error encountered in worker",
                "PyTorch torch/csrc/DataLoader.cpp",
                "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared "
                "memory (shm).",
            ),
            Pattern(
                r"^Fatal Python error: Bus error",
                "CPython Modules/faulthandler.c",
                "Fatal Python error: Bus error",
            ),
        ),
    ),
    # What the lines above turn out to be by what was measured.
    Failure(
        "previous_pool_still_pinned",
        "Host memory that the plan counted on is still held by processes outside of the unit (an earlier server).",
        "Wait until it is given back, or end what holds it (`grep -H RssShmem /proc/[0-9]*/status "
        "| sort -k2 -n | tail`), and start again; the plan itself fits.",
    ),
    Failure(
        "memlock_too_low",
        "LimitMEMLOCK of the unit is below what a rank pins.",
        "Set LimitMEMLOCK=infinity in the unit, then run `systemctl daemon-reload` and start it again.",
    ),
)
