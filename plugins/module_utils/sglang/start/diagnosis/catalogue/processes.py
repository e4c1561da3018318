# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Failures of processes: ranks that die or hang, binding to NUMA nodes, what the node and systemd allow."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import (
    EFFECT,
    GENERAL,
    HINT,
    RAISED,
    Failure,
    Pattern,
)

PROCESSES = (
    Failure(
        "scheduler_died",
        "A rank ended before the server was ready.",
        "Read what the rank said last in `journalctl --unit=UNIT --lines=200`, and run "
        "`journalctl -k --since=-10min` for what the kernel says of it.",
        (
            # The exit code is Python's, so negative is a signal.
            Pattern(
                r"Rank (?P<index>\d+) scheduler died during initialization \(exit code: (?P<exit_code>-?\d+)\)",
                "SGLang entrypoints/engine.py",
                "RuntimeError: Rank 1 scheduler died during initialization (exit code: -9). If exit code is -9 "
                "(SIGKILL), a common cause is the OS OOM killer.",
                since="0.5.10",
            ),
            Pattern(
                r"Rank (?P<index>\d+) scheduler is dead\.",
                "SGLang entrypoints/engine.py",
                "Rank 0 scheduler is dead. Please check if there are relevant logs.",
                until="0.5.21",
            ),
            Pattern(
                r"Subprocess scheduler_(?P<index>\d+) \(pid=(?P<dead_pid>\d+)\) crashed with exit code "
                r"(?P<exit_code>-?\d+)",
                "SGLang utils/watchdog.py",
                "Subprocess scheduler_0 (pid=4711) crashed with exit code -9. Triggering SIGQUIT for cleanup...",
                since="0.5.10",
            ),
        ),
        standing=GENERAL,
        fatal=True,
    ),
    Failure(
        "native_crash",
        "A process crashed in native code.",
        "Read the stacks in `journalctl --unit=UNIT --lines=200` and `coredumpctl info`. A crash "
        "in a library of kernels often means that it was built for another PyTorch, CUDA or GPU: "
        "install the pinned set of this release.",
        (
            Pattern(
                r"^Fatal Python error: (?P<reason>Segmentation fault|Aborted|Illegal instruction|Floating.point "
                r"exception)",
                "CPython Modules/faulthandler.c",
                "Fatal Python error: Segmentation fault",
            ),
            Pattern(
                r"^(?:!!!!!!! Segfault encountered !!!!!!!|terminate called after throwing an instance of "
                r"'(?P<type>[^']+)')",
                "tvm-ffi src/ffi/backtrace.cc; libstdc++ libsupc++/vterminate.cc",
                "terminate called after throwing an instance of 'c10::Error'",
            ),
        ),
        standing=GENERAL,
    ),
    Failure(
        "watchdog_timeout",
        "SGLang's watchdog found a process that no longer moves.",
        "Read the stacks that it printed in `journalctl --unit=UNIT --lines=200`. If kernels are "
        "being compiled, raise watchdog-timeout in extra_arguments for the first start. If a "
        "collective hangs, look for the rank whose stack is elsewhere.",
        (
            Pattern(
                r"(?P<process>\w+) watchdog timeout \((?:self\.watchdog_timeout=(?P<limit_seconds>\d+(?:\.\d+)?), "
                r"self\.soft=False\))?(?!self)",
                "SGLang utils/watchdog.py; managers/scheduler.py in 0.4.7",
                "Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
            ),
            Pattern(
                r"^Watchdog timeout \(self\.watchdog_timeout=(?P<limit_seconds>\d+(?:\.\d+)?)\)",
                "SGLang managers/scheduler.py",
                "Watchdog timeout (self.watchdog_timeout=300)",
            ),
        ),
        fatal=True,
    ),
    # It writes stacks and goes on.
    Failure(
        "watchdog_soft",
        "SGLang's soft watchdog found a process that does not move.",
        "Read the stacks that it printed in `journalctl --unit=UNIT --lines=200`; the process goes on.",
        (
            Pattern(
                r"\w+ watchdog timeout \(self\.watchdog_timeout=(?P<limit_seconds>\d+(?:\.\d+)?), self\.soft=True\)",
                "SGLang utils/watchdog.py",
                "Scheduler watchdog timeout (self.watchdog_timeout=60, self.soft=True)",
            ),
        ),
        standing=HINT,
    ),
    Failure(
        "numactl_missing",
        "SGLang binds its ranks to NUMA nodes with numactl, which is not installed.",
        "Install the numactl package, or set SGLANG_AUTO_NUMA_BIND to false in the unit's environment.",
        (
            Pattern(
                r"exec: (?:\d+: )?numactl: not found|numactl: command not found|"
                r"FileNotFoundError: .*'numactl'",
                "dash src/exec.c, bash execute_cmd.c, CPython subprocess; SGLang utils/numa_utils.py runs it",
                "/tmp/sglang_temp_file_1764475935.1_42.sh: 2: exec: numactl: not found",
            ),
        ),
    ),
    Failure(
        "numactl_denied",
        "numactl could not bind a rank to its NUMA node.",
        "Let the unit call set_mempolicy (`systemctl show --property=SystemCallFilter UNIT`; "
        "CAP_SYS_NICE in a container), and let its cpuset hold the node (AllowedMemoryNodes, "
        "AllowedCPUs). Or set SGLANG_AUTO_NUMA_BIND to false.",
        (
            Pattern(
                r"^(?:set_mempolicy|mbind|setting (?:membind|preferred node|interleave mask)|sched_setaffinity): "
                r"(?P<reason>Operation not permitted|Invalid argument|Function not implemented)|"
                r"^numactl: .*(?:Operation not permitted|Invalid argument|does not support NUMA policy)|"
                r"^libnuma: Warning: (?:(?:node|cpu) argument \S+ (?:is )?out of range|node \d+ not allowed)",
                "numactl numactl.c (checkerror), util.c (complain), libnuma.c (numa_error, numa_warn)",
                "set_mempolicy: Operation not permitted",
            ),
            Pattern(
                RAISED + r"(?:numactl could not apply NUMA binding for node (?P<node>\d+)|"
                r"NUMA node (?P<empty_node>\d+) has no CPU cores allowed)",
                "SGLang utils/numa_utils.py with SGLANG_CRASH_ON_NUMA_BIND_FAILURE",
                "RuntimeError: numactl could not apply NUMA binding for node 1 (e.g. set_mempolicy/sched_setaffinity "
                "blocked by seccomp, or cpuset rejects the policy): set_mempolicy: Operation not permitted",
                since="0.5.17",
            ),
        ),
    ),
    # The rank goes on with a weaker binding.
    Failure(
        "numa_binding_weaker",
        "A rank runs with a weaker binding to its NUMA node than was asked for.",
        "The server runs, with memory that may lie on another node. Let the unit call "
        "set_mempolicy (SystemCallFilter; CAP_SYS_NICE in a container), or set "
        "SGLANG_AUTO_NUMA_BIND to false.",
        (
            Pattern(
                r"numactl rejected (?:hard )?memory binding \(|^numactl could not apply NUMA binding for node|"
                r"^numactl command not found, skipping NUMA node configuration|"
                r"^NUMA node \d+ has no CPU cores allowed by the current affinity",
                "SGLang utils/numa_utils.py",
                "numactl rejected hard memory binding ('--cpunodebind=0 --membind=0'): set_mempolicy: Operation not "
                "permitted; falling back to soft preferred policy ('--cpunodebind=0 --preferred=0').",
            ),
        ),
        standing=HINT,
    ),
    Failure(
        "disk_full",
        "A file system has no room, or no inodes, left.",
        "See which file system is full (`df -h`, `df -i`), and free room or inodes there: caches "
        "of kernels and of the model, or the folder of a storage backend.",
        (
            Pattern(
                RAISED + r"No space left on device(?:: '(?P<path>[^']+)')?",
                "Linux errno 28 (ENOSPC) as CPython's OSError prints it",
                "OSError: [Errno 28] No space left on device: '/var/cache/sglang/triton/x.so'",
            ),
            Pattern(
                RAISED + r"Disk quota exceeded(?:: '(?P<path>[^']+)')?",
                "Linux errno 122 (EDQUOT) as CPython's OSError prints it",
                "OSError: [Errno 122] Disk quota exceeded: '/home/sglang/.cache/x'",
            ),
        ),
    ),
    Failure(
        "read_only_path",
        "The server writes to a path that is read-only for the unit.",
        "Point the cache that the line names to a folder of the unit (CacheDirectory, with "
        "HF_HOME, TRITON_CACHE_DIR or XDG_CACHE_HOME), or add its path to ReadWritePaths of the "
        "unit.",
        (
            Pattern(
                RAISED + r"Read-only file system(?:: '(?P<path>[^']+)')?",
                "Linux errno 30 (EROFS) as CPython's OSError prints it",
                "OSError: [Errno 30] Read-only file system: '/root/.triton'",
            ),
        ),
    ),
    Failure(
        "too_many_files",
        "A process opened as many files as it may.",
        "Set LimitNOFILE=65536 or more in the unit, then run `systemctl daemon-reload` and start it again.",
        (
            Pattern(
                RAISED + r"Too many open files",
                "Linux errno 24 (EMFILE) as CPython's OSError prints it",
                "OSError: [Errno 24] Too many open files: '/srv/models/x/model-00003-of-00017.safetensors'",
            ),
        ),
    ),
    Failure(
        "too_many_tasks",
        "A process could not start another thread or process.",
        "Run `systemctl show --property=TasksMax,TasksCurrent,LimitNPROC UNIT`, and raise the one that was met.",
        (
            Pattern(
                RAISED + r"(?:can't start new thread|Resource temporarily unavailable)|^BlockingIOError: \[Errno 11\]|"
                r"pthread_create failed.*Resource temporarily unavailable|"
                r"^libgomp: Thread creation failed: Resource temporarily unavailable",
                "CPython Modules/_threadmodule.c; Linux errno 11 (EAGAIN); OpenBLAS driver/others/blas_server.c; GCC "
                "libgomp/team.c",
                "RuntimeError: can't start new thread",
            ),
            Pattern(
                r"fork rejected by pids controller",
                "Linux kernel/cgroup/pids.c",
                "cgroup: fork rejected by pids controller in /system.slice/sglang-main.service",
            ),
        ),
    ),
    Failure(
        "warm_up_failed",
        "Every pool is there, but the server's own first request failed.",
        "Read the error of that request in `journalctl --unit=UNIT --lines=200`; the memory plan is not at fault.",
        (
            Pattern(
                r"Initialization failed\. warmup error:",
                "SGLang entrypoints/http_server.py",
                "Initialization failed. warmup error: Traceback (most recent call last):",
            ),
        ),
        "warm_up",
        standing=GENERAL,
        fatal=True,
    ),
    Failure(
        "scheduler_exception",
        "An exception ended a rank.",
        "Read the traceback in `journalctl --unit=UNIT --lines=200`; its last line names the error.",
        standing=EFFECT,
        fatal=True,
    ),
    Failure(
        "exception",
        "An exception ended a process.",
        "Read the traceback in `journalctl --unit=UNIT --lines=200`; its last line names the error.",
        standing=EFFECT,
    ),
    Failure(
        "sigquit",
        "A process told the others to end.",
        "Find the error before it in `journalctl --unit=UNIT --lines=200`.",
        standing=EFFECT,
        fatal=True,
    ),
    Failure(
        "sigterm",
        "The server was told to stop.",
        "See who stopped it: `journalctl --since=-10min --grep=UNIT`, and the commands of sudo in "
        "the same minutes (`journalctl _COMM=sudo`).",
        standing=EFFECT,
    ),
)
