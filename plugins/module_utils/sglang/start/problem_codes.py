# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with watching and asking a server: code, severity, meaning, remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "clock_jumped": ProblemCode(
        "warning",
        "The clock of the node was set while the server started, so that the length of that stage is not known.",
        "Keep the clock by NTP (chrony or systemd-timesyncd) before servers start.",
    ),
    "container_engine_failed": ProblemCode(
        "error",
        "podman or docker could not describe the container.",
        "Run as root, or as a user who may ask the engine, and look at the error in the message.",
    ),
    "gpu_holders_unknown": ProblemCode(
        "warning",
        "NVML could not be asked what GPUs hold, so that only the host's memory is waited for.",
        "Look at nvidia-smi on the node.",
    ),
    "gpu_memory_held": ProblemCode(
        "error",
        "GPUs of the instance have less memory free than the plan of the next start counts on, and none comes back.",
        "Stop the processes that the message names, or choose other GPUs.",
    ),
    "host_memory_below_plan": ProblemCode(
        "warning",
        "A start goes on with less host memory than its plan counts on, since the server may take it.",
        "See what else took host memory since the plan was made, or lower hicache.ratio.",
    ),
    "host_memory_held": ProblemCode(
        "error",
        "The host or a NUMA node has less memory available than the next start requires, and none comes back.",
        "Free what the message names, or lower hicache.ratio to the value in it.",
    ),
    "log_driver_unreadable": ProblemCode(
        "warning",
        "The container logs with a driver whose log cannot be read, so that only bytes and readiness can be watched.",
        "Use the log driver journald, k8s-file or json-file.",
    ),
    "log_file_missing": ProblemCode(
        "warning",
        "The log file of the server is not there, so that only bytes and readiness of the start can be watched.",
        "Name the file that the server writes to.",
    ),
    "log_gap": ProblemCode(
        "warning",
        "Lines of the server's log were gone before they could be read.",
        "Keep more of the log: SystemMaxUse= of journald.conf, or a later rotation of the file.",
    ),
    "log_incomplete": ProblemCode(
        "error",
        "The log of the server is named without the file or the container that holds it.",
        "Give log.path with the type file, and log.container with the types podman and docker.",
    ),
    "log_suppressed": ProblemCode(
        "warning",
        "The rate limit of the log dropped messages while the server started, perhaps the ones that tell.",
        "Set LogRateLimitIntervalSec=0 in the unit, or a higher RateLimitBurst= in journald.conf.",
    ),
    "log_unreadable": ProblemCode(
        "warning",
        "The server's log could not be read, so that only bytes and readiness of the start were watched.",
        "Run as root or as a member of systemd-journal, and give ready_url.",
    ),
    "meter_changed": ProblemCode(
        "info",
        "The pinned memory showed in another counter than the release and the plan make expect.",
        "Look for a refused allocation in the log of the server, and for SGLANG_HUGEPAGE_SIZE and "
        "SGLANG_HICACHE_HOST_PARALLEL_ALLOC_THREADS in its environment.",
    ),
    "meter_disagrees": ProblemCode(
        "warning",
        "The ranks show more pinned memory than their control group holds: some is counted twice or elsewhere.",
        "Compare RssShmem of the ranks with memory.stat of the control group.",
    ),
    "node_lost": ProblemCode(
        "error",
        "A node could not be reached any more while its server started, or while memory was waited for before; a start "
        "goes on there.",
        "Look at the network and at sshd of the node, then run the play again: it goes on with the same start or wait.",
    ),
    "node_rebooted": ProblemCode(
        "error",
        "The node was rebooted while its server started.",
        "Find out why it was (last -x, journalctl -b -1), then run the play again.",
    ),
    "nothing_to_watch": ProblemCode(
        "error",
        "Neither a unit nor a container was named.",
        "Give unit, or log with the type podman or docker and a container.",
    ),
    "old_server_alive": ProblemCode(
        "error",
        "Processes of a server that was stopped are still there, in its unit or outside of it, and hold memory.",
        "Kill the processes that the message names.",
    ),
    "probe_doubted": ProblemCode(
        "warning",
        "The port of the server answers, and nothing shows that it is the followed start which answers.",
        "Look who holds the port, and end what is left of an earlier server.",
    ),
    "python_missing": ProblemCode(
        "error",
        "The node cannot run modules, since its Python was not found.",
        "Install Python there, or name it with ansible_python_interpreter.",
    ),
    "ranks_differ": ProblemCode(
        "warning",
        "Not as many ranks run as the plan has.",
        "Compare the parallel sizes of the arguments with those of the plan.",
    ),
    "journal_unreadable": ProblemCode(
        "warning",
        "journalctl failed, so that only bytes and readiness of the start can be watched.",
        "Run as root or as a member of systemd-journal.",
    ),
    "out_of_range": ProblemCode(
        "error",
        "A number of an option is outside of its range.",
        "Give a number within the range that the message names.",
    ),
    "release_not_read": ProblemCode(
        "warning",
        "The log lines of this release of SGLang have not been read. Where they differ from those of the newest that "
        "was, the watch rests on bytes and readiness.",
        "Update the collection; until then give ready_url, and the plan or ranks and planned_bytes.",
    ),
    "restarted_before": ProblemCode(
        "warning",
        "systemd had restarted the unit by itself before the watch began; the start before had failed.",
        "Look at what the message quotes: a server that comes up at the second try may not at the next boot.",
    ),
    "systemctl_failed": ProblemCode(
        "error",
        "systemctl could not show the unit.",
        "Run the module on a node with systemd, and look at the error in the message.",
    ),
    "unit_active": ProblemCode(
        "error",
        "The memory of a server cannot come back, because its unit runs or is about to be started again by systemd.",
        "Stop the unit first.",
    ),
    "url_malformed": ProblemCode(
        "error",
        "The URL of a server is not of the form http://HOST:PORT.",
        "Give it in that form.",
    ),
    "plan_malformed": ProblemCode(
        "error",
        "What was given as a plan is none, such as the whole result of memory_plan in place of its value plan.",
        "Give the value plan of the result of memory_plan, or leave it out.",
    ),
    "unit_name_malformed": ProblemCode(
        "error",
        "What is to be followed is no name of a service: it has wildcards, or is of a kind that runs no process.",
        "Give the name of one service or scope, as `systemctl status` shows it.",
    ),
    "wait_too_long": ProblemCode(
        "error",
        "wait_seconds is more than one call may wait, or below 0.",
        "Give a number within the range that the message names; call again for more.",
    ),
    "watch_broken": ProblemCode(
        "error",
        "The module that looks at the node was killed several times in a row, or become refused to run it.",
        "Look at memory, become and Python of the node, then run the play again: it goes on with the start or wait.",
    ),
}
