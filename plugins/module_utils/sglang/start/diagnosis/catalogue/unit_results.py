# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What systemd says of a unit that did not come up: its results, and the statuses of what it does before the program.

Source: systemd, src/basic/exit-status.c, src/shared/exit-status.c and src/core/service.c (Result=).
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import (
    GENERAL,
    Failure,
)

# Exit statuses from 200 on are those of the step that failed before the program ran.
EXEC_STATUSES: dict[int, Failure] = {
    200: Failure(
        "unit_folder_missing",
        "systemd could not enter WorkingDirectory (status 200/CHDIR).",
        "Create the folder, or correct WorkingDirectory of the unit.",
    ),
    203: Failure(
        "cannot_execute",
        "systemd could not execute the program (status 203/EXEC).",
        "Check that the environment of this version is installed and executable for the unit's user.",
    ),
    204: Failure(
        "unit_out_of_memory",
        "systemd had no memory to start the program (status 204/MEMORY).",
        "Free host memory, or raise MemoryMax of the unit.",
    ),
    205: Failure(
        "unit_limit_refused",
        "systemd could not set a limit of the unit (status 205/LIMITS).",
        "Lower the Limit… lines of the unit to what this host allows (LimitMEMLOCK, LimitNOFILE).",
    ),
    209: Failure(
        "unit_output_refused",
        "systemd could not open the unit's output (status 209/STDOUT).",
        "Create the folder of StandardOutput, or let the unit write to the journal.",
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
        "Name processors that this host has in CPUAffinity.",
    ),
    216: Failure(
        "unit_group_missing",
        "systemd does not know the unit's group (status 216/GROUP).",
        "Create the group, or correct Group of the unit.",
    ),
    217: Failure(
        "unit_user_missing",
        "systemd does not know the unit's user (status 217/USER).",
        "Create the user, or correct User of the unit.",
    ),
    218: Failure(
        "unit_capabilities_refused",
        "systemd could not drop the unit's capabilities (status 218/CAPABILITIES).",
        "Correct CapabilityBoundingSet and AmbientCapabilities of the unit.",
    ),
    219: Failure(
        "unit_cgroup_refused",
        "systemd could not set up the unit's control group (status 219/CGROUP).",
        "Check Slice and Delegate of the unit, and the host's cgroup file system.",
    ),
    226: Failure(
        "unit_namespace_refused",
        "systemd could not set up the unit's view of the file system (status 226/NAMESPACE).",
        "Create the folders that ReadWritePaths, BindPaths and the like name.",
    ),
    228: Failure(
        "unit_filter_refused",
        "systemd could not set the unit's SystemCallFilter (status 228/SECCOMP).",
        "Correct SystemCallFilter of the unit.",
    ),
    233: Failure(
        "unit_runtime_folder_refused",
        "systemd could not make the unit's RuntimeDirectory (status 233/RUNTIME_DIRECTORY).",
        "See the file system of /run, and correct RuntimeDirectory.",
    ),
    238: Failure(
        "unit_state_folder_refused",
        "systemd could not make the unit's StateDirectory (status 238/STATE_DIRECTORY).",
        "See the file system of /var/lib, and correct StateDirectory.",
    ),
    239: Failure(
        "unit_cache_folder_refused",
        "systemd could not make the unit's CacheDirectory (status 239/CACHE_DIRECTORY).",
        "See the file system of /var/cache, and correct CacheDirectory.",
    ),
    240: Failure(
        "unit_logs_folder_refused",
        "systemd could not make the unit's LogsDirectory (status 240/LOGS_DIRECTORY).",
        "See the file system of /var/log, and correct LogsDirectory.",
    ),
    242: Failure(
        "unit_numa_refused",
        "systemd could not set the unit's NUMAPolicy (status 242/NUMA_POLICY).",
        "Name NUMA nodes that this host has in NUMAMask, or leave NUMAPolicy out.",
    ),
}
OTHER_STATUS = Failure(
    "unit_setup_failed",
    "systemd could not prepare the program.",
    "See `systemctl status` and systemd.exec(5) for the status.",
)

RESULTS: dict[str, Failure] = {
    "start-limit-hit": Failure(
        "start_limit",
        "The unit failed so often that systemd no longer starts it.",
        "Find the cause in the journal, then `systemctl reset-failed` the unit.",
    ),
    "timeout": Failure(
        "unit_timeout",
        "systemd gave up on the unit: it was not started within TimeoutStartSec.",
        "Raise TimeoutStartSec of the unit; the stages so far show where the time went.",
    ),
    "watchdog": Failure(
        "unit_watchdog",
        "The unit did not tell systemd's watchdog in time that it lives.",
        "Leave WatchdogSec out: SGLang does not serve it.",
    ),
    "resources": Failure(
        "unit_resources",
        "systemd lacked something to start the unit: an EnvironmentFile, memory or a file descriptor.",
        "See `systemctl status` of the unit for what is missing.",
    ),
    "protocol": Failure(
        "unit_protocol",
        "The unit did not do what its Type says.",
        "Set Type=exec: SGLang does not notify systemd.",
    ),
    "condition": Failure(
        "unit_condition",
        "ExecCondition of the unit was not met.",
        "See `systemctl status` of the unit.",
    ),
}
# By what state and result tell beside these; the sentences are made where the state is known (unit_failures.py).
UNIT = (
    Failure("stopped_meanwhile", "The unit was stopped.", "See who stopped it, then run the play again."),
    Failure("restarted_meanwhile", "Another start replaced the one that was followed.", "See who restarted the unit."),
    Failure("server_killed", "The main process was killed by a signal.", "See the last lines below.", standing=GENERAL),
    Failure("server_exited", "The main process ended with a status.", "See the last lines below.", standing=GENERAL),
    Failure("unit_not_found", "systemd knows no such unit.", "Install and configure the instance first."),
    Failure("not_started", "The unit does not run, and nobody starts it.", "Start it, then wait for it."),
    Failure("timeout", "The server was not ready in time.", "Raise timeout_seconds if it still moves."),
    Failure("stalled", "Nothing moved for too long.", "See the causes."),
    Failure("unknown", "The server ended and neither it nor systemd named a cause.", "See the journal of the unit."),
)
