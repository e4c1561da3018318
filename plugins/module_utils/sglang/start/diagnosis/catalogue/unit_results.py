# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What systemd says of a unit that did not come up: its results, and the statuses of what it does before the program.

Source: systemd, src/basic/exit-status.c, src/shared/exit-status.c and src/core/service.c (Result=).
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import (
    EFFECT,
    GENERAL,
    Failure,
    Pattern,
)

# Exit statuses from 200 on are those of the step that failed before the program ran.
EXEC_STATUSES: dict[int, Failure] = {
    200: Failure(
        "unit_folder_missing",
        "systemd could not enter WorkingDirectory (status 200/CHDIR).",
        "Create the folder that `systemctl show --property=WorkingDirectory UNIT` names, or correct it.",
    ),
    203: Failure(
        "cannot_execute",
        "systemd could not execute the program (status 203/EXEC).",
        "Check that the file that ExecStart names exists and is executable for the unit's user "
        "(`systemctl cat UNIT`, `namei -l FILE`), and so is the interpreter in its first line: "
        "the environment of this version may not be installed.",
    ),
    204: Failure(
        "unit_out_of_memory",
        "systemd had no memory to start the program (status 204/MEMORY).",
        "Free host memory (`free -g`), or raise MemoryMax of the unit.",
    ),
    205: Failure(
        "unit_limit_refused",
        "systemd could not set a limit of the unit (status 205/LIMITS).",
        "Lower LimitMEMLOCK or LimitNOFILE of the unit to what this host, or the container it is, "
        "allows (`ulimit -Hl`, `ulimit -Hn`, `sysctl fs.nr_open`).",
    ),
    209: Failure(
        "unit_output_refused",
        "systemd could not open the unit's output (status 209/STDOUT).",
        "Create the folder of the file that StandardOutput names (`systemctl cat UNIT`), or leave "
        "StandardOutput out, so that the unit writes to the journal.",
    ),
    210: Failure(
        "unit_root_missing",
        "systemd could not change to RootDirectory (status 210/CHROOT).",
        "Correct RootDirectory of the unit.",
    ),
    214: Failure(
        "unit_scheduler_refused",
        "systemd could not set the CPU scheduling of the unit (status 214/SETSCHEDULER).",
        "Leave CPUSchedulingPolicy out, or grant the right to it.",
    ),
    215: Failure(
        "unit_affinity_refused",
        "systemd could not set CPUAffinity of the unit (status 215/CPUAFFINITY).",
        "Name processors that this host has in CPUAffinity of the unit (`lscpu --extended`).",
    ),
    216: Failure(
        "unit_group_missing",
        "systemd does not know the unit's group (status 216/GROUP).",
        "Create the group (`groupadd --system NAME`), or correct Group of the unit.",
    ),
    217: Failure(
        "unit_user_missing",
        "systemd does not know the unit's user (status 217/USER).",
        "Create the user (`useradd --system NAME`), or correct User of the unit.",
    ),
    218: Failure(
        "unit_capabilities_refused",
        "systemd could not drop the unit's capabilities (status 218/CAPABILITIES).",
        "Correct CapabilityBoundingSet and AmbientCapabilities of the unit.",
    ),
    219: Failure(
        "unit_cgroup_refused",
        "systemd could not set up the unit's control group (status 219/CGROUP).",
        "Check Slice and Delegate of the unit (`systemctl cat UNIT`), and the host's cgroup file "
        "system (`findmnt -t cgroup2`).",
    ),
    226: Failure(
        "unit_namespace_refused",
        "systemd could not set up the unit's view of the file system (status 226/NAMESPACE).",
        "Create the folders that ReadWritePaths, ReadOnlyPaths and BindPaths of the unit name, or "
        "write a `-` before those that may be missing; `systemctl status UNIT` names the one.",
    ),
    228: Failure(
        "unit_filter_refused",
        "systemd could not set the unit's SystemCallFilter (status 228/SECCOMP).",
        "Correct SystemCallFilter of the unit.",
    ),
    233: Failure(
        "unit_runtime_folder_refused",
        "systemd could not make the unit's RuntimeDirectory (status 233/RUNTIME_DIRECTORY).",
        "Check the room and the rights of /run (`df -h /run`), and RuntimeDirectory of the unit.",
    ),
    238: Failure(
        "unit_state_folder_refused",
        "systemd could not make the unit's StateDirectory (status 238/STATE_DIRECTORY).",
        "Check the room and the rights of /var/lib (`df -h /var/lib`), and StateDirectory of the unit.",
    ),
    239: Failure(
        "unit_cache_folder_refused",
        "systemd could not make the unit's CacheDirectory (status 239/CACHE_DIRECTORY).",
        "Check the room and the rights of /var/cache (`df -h /var/cache`), and CacheDirectory of the unit.",
    ),
    240: Failure(
        "unit_logs_folder_refused",
        "systemd could not make the unit's LogsDirectory (status 240/LOGS_DIRECTORY).",
        "Check the room and the rights of /var/log (`df -h /var/log`), and LogsDirectory of the unit.",
    ),
    242: Failure(
        "unit_numa_refused",
        "systemd could not set the unit's NUMAPolicy (status 242/NUMA_POLICY).",
        "Name NUMA nodes that this host has in NUMAMask of the unit (`numactl --hardware`), or leave NUMAPolicy out.",
    ),
}
OTHER_STATUS = Failure(
    "unit_setup_failed",
    "systemd could not prepare the program.",
    'Run `systemctl status UNIT`, which names the step, and see systemd.exec(5), "Process exit codes".',
)

# systemd keeps the result of the last start where that failed, so that often only this line tells (service_enter_dead).
START_LIMIT = Failure(
    "start_limit",
    "The unit was started too often in too short a time, and systemd no longer starts it.",
    "Find out why its last start ended (`journalctl --unit=UNIT --lines=200`) and correct that. Then "
    "`systemctl reset-failed UNIT` and start it again; without it every start is refused for StartLimitIntervalSec.",
    (
        Pattern(
            r": Start request repeated too quickly\.",
            "systemd src/core/unit.c (unit_test_start_limit), src/core/service.c (service_enter_dead)",
            "sglang-main.service: Start request repeated too quickly.",
        ),
    ),
    standing=EFFECT,
)
START_LIMIT_HIT = "start-limit-hit"
RESULTS: dict[str, Failure] = {
    "timeout": Failure(
        "unit_timeout",
        "systemd gave up on the unit: it was not started within TimeoutStartSec.",
        "Raise TimeoutStartSec of the unit; the stages so far show where the time went. With "
        "Type=exec the time ends as the program begins, so a unit of Type=notify does not suit "
        "SGLang.",
    ),
    "watchdog": Failure(
        "unit_watchdog",
        "The unit did not tell systemd's watchdog in time that it lives.",
        "Leave WatchdogSec out: SGLang does not serve it.",
    ),
    "resources": Failure(
        "unit_resources",
        "systemd lacked something to start the unit: an EnvironmentFile, memory or a file descriptor.",
        "Run `systemctl status UNIT`: it names what is missing, mostly the EnvironmentFile.",
    ),
    "protocol": Failure(
        "unit_protocol",
        "The unit did not do what its Type says.",
        "Set Type=exec: SGLang does not notify systemd.",
    ),
    "condition": Failure(
        "unit_condition",
        "ExecCondition of the unit was not met.",
        "Run `systemctl cat UNIT` for its ExecCondition, and `journalctl --unit=UNIT --lines=50` for what that said.",
    ),
}
# By what state and result tell beside these; the sentences are made where the state is known (unit_failures.py).
UNIT = (
    Failure(
        "stopped_meanwhile",
        "The unit was stopped.",
        "See who stopped it (`journalctl --since=-10min --grep=UNIT`), then run the play again.",
    ),
    Failure(
        "restarted_meanwhile",
        "Another start replaced the one that was followed.",
        "See who restarted the unit (`journalctl --unit=UNIT --since=-10min`), then run the play "
        "again; it follows the newest start.",
    ),
    Failure(
        "server_killed",
        "The main process was killed by a signal.",
        "Read the last lines in `journalctl --unit=UNIT --lines=200` and what the kernel says "
        "(`journalctl -k --since=-10min`). SIGKILL is also what SGLang does to itself after an "
        "error.",
        standing=GENERAL,
    ),
    Failure(
        "server_exited",
        "The main process ended with a status.",
        "Read the last lines in `journalctl --unit=UNIT --lines=200`.",
        standing=GENERAL,
    ),
    Failure(
        "unit_not_found",
        "systemd knows no such unit.",
        "Install and configure the instance first; `systemctl list-unit-files 'sglang*'` lists those that there are.",
    ),
    Failure(
        "not_started",
        "The unit does not run, and nobody starts it.",
        "Start it (`systemctl start UNIT`), then wait for it.",
    ),
    Failure(
        "timeout",
        "The server was not ready in time.",
        "Raise timeout_seconds if it still moves; the stages so far show where the time went.",
    ),
    Failure(
        "stalled",
        "Nothing moved for too long.",
        "Look into the causes that are listed, the likeliest first; `py-spy dump --pid PID` shows where a rank stands.",
    ),
    Failure(
        "unknown",
        "The server ended and neither it nor systemd named a cause.",
        "Read `journalctl --unit=UNIT --lines=200` from its end, and what the kernel says "
        "(`journalctl -k --since=-10min`).",
    ),
)
