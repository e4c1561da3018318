#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: startup_status_info
version_added: 0.1.0
short_description: Look once at the start of an SGLang instance
description:
  - Reads the state of the systemd unit or the container, the memory that each rank holds, how hard pressed the host is,
    and what the log says of one start since a cursor, as events.
  - It measures and judges nothing; M(gpufleet.sglang.wait_for_startup) does. A look takes one C(systemctl show) and one
    C(journalctl), however long it waits, and a few more where something changes.
  - A unit or container that is not there is reported as V(not-found) in RV(unit.load_state) and is no failure.
  - OOM kills of the unit's processes and errors of NVIDIA's driver come from the kernel's log as events of the kind
    V(failure) with the labels V(oom_killer) and V(gpu_error), where the kernel's log can be read.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  unit:
    description:
      - The systemd unit.
      - It may be left out where O(log) names a container that no unit runs.
    type: str
  invocation_id:
    description:
      - The start to read about, from RV(unit.invocation_id). The present one if not given.
      - Lines of any other start are never returned.
    type: str
  cursor:
    description: Position in the logs after which to read, from RV(cursor) of an earlier call about the same start.
    type: str
  log:
    description:
      - Where the server logs to.
      - If not given, the file that the server has for its stderr, else the journal.
    type: dict
    suboptions:
      type:
        description:
          - V(journal) for what the unit's processes print, V(file) for O(log.path), V(podman) and V(docker) for the
            container O(log.container).
          - In a file, lines count from the first on whose own time is not before the start; all of them if the file was
            made by the start. Rotation by renaming and by copying and truncating is followed.
          - Of a container the drivers V(journald), V(k8s-file), V(json-file) and, within a unit, V(passthrough) are
            read.
        type: str
        choices: [journal, file, podman, docker]
        default: journal
      path:
        description: The file, for the type V(file).
        type: path
      container:
        description:
          - Name or ID of the container, for the types V(podman) and V(docker).
          - Its processes count as those of the instance as well, whichever control group they are in.
        type: str
  sglang_version:
    description: Release whose log lines are to be understood.
    type: str
    required: true
  meter:
    description:
      - Where pinned memory shows. V(shmem) from SGLang 0.5.13 on, V(anon) from 0.5.5 on, V(available) before.
      - V(hugetlb) where the pools lie in reserved huge pages.
      - The release decides if it is not given.
    type: str
    choices: [shmem, anon, hugetlb, available]
  known_ranks:
    description:
      - RV(ranks) of an earlier call. A rank in it whose process is gone is returned as not alive, with its exit code
        where it can still be read.
    type: list
    elements: dict
    default: []
  ready_url:
    description:
      - Base URL of the server on the node. If given, the server is asked for RV(serves), and its port is looked up for
        RV(listener_in_unit).
      - From SGLang 0.5.20 on C(/ready) is asked, which makes the server generate nothing. Older servers can prove that
        they are ready only by generating a token; they are made to only where the log cannot be read.
    type: str
  wait_seconds:
    description:
      - Waits up to so many seconds for news that a stage or a verdict hangs on, which is an event of a stage, a failure
        or readiness, a change of the unit or of the set of ranks. It returns at once when the server is ready or a
        process of it is gone, 0.3 s after other news that a verdict hangs on, 1.5 s after news of a stage or of ranks,
        and 5 s after the warm-up began, since readiness follows it. What comes meanwhile comes along.
      - Other lines and events wait for the end, and the meter of each rank is noted in RV(samples) meanwhile.
      - At most 30.
    type: float
    default: 0
  max_lines:
    description: How many last lines to return in RV(tail). With 0 no log is read at all.
    type: int
    default: 20
  ledger_path:
    description: File in which the last proven start is recorded, to return in RV(ledger). It may be missing.
    type: path
seealso:
  - module: gpufleet.sglang.wait_for_startup
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: See how far the start of the instance has come
  gpufleet.sglang.startup_status_info:
    unit: sglang-main.service
    sglang_version: 0.5.23
  register: look

- name: Wait up to 20 seconds for what comes next
  gpufleet.sglang.startup_status_info:
    unit: sglang-main.service
    sglang_version: 0.5.23
    invocation_id: "{{ look.unit.invocation_id }}"
    cursor: "{{ look.cursor }}"
    known_ranks: "{{ look.ranks }}"
    wait_seconds: 20
  register: look

- name: Look at a server in a container that no unit runs
  gpufleet.sglang.startup_status_info:
    log:
      type: podman
      container: sglang
    sglang_version: 0.5.23
"""

RETURN = r"""
unit:
  description: State of the unit; of a container that no unit runs, in the same terms.
  returned: always
  type: dict
  contains:
    name:
      description: Name of the unit.
      type: str
      sample: sglang-main.service
    load_state:
      description: V(loaded), V(not-found) or another state of systemd.
      type: str
      sample: loaded
    active_state:
      description: V(active), V(activating), V(failed) or another state of systemd.
      type: str
      sample: active
    sub_state:
      description: For example V(running) or V(auto-restart).
      type: str
      sample: running
    result:
      description: How the last run ended, V(success) while it runs.
      type: str
      sample: success
    invocation_id:
      description:
        - Identity of the present or last start; null if there was none. From the journal, where systemd has forgotten a
          unit that has ended.
        - Of a container its ID and the time at which it was started.
      type: str
      sample: 9c1d8a0f2f2c4a52b6b0f0d6a3c1e0b7
    main_pid:
      description: Its main process, null if none runs.
      type: int
      sample: 154
    n_restarts:
      description: How often systemd, or the container's engine, restarted it by itself.
      type: int
      sample: 0
    exec_main_code:
      description: V(exited), V(killed) or V(dumped); null while it runs.
      type: str
      sample: null
    exec_main_status:
      description: Exit status or number of the signal; null while it runs.
      type: int
      sample: null
    exec_main_start_monotonic:
      description: When its main process was started, in microseconds since the boot.
      type: int
      sample: 31769136189
    active_enter_monotonic:
      description: When it became active, in microseconds since the boot.
      type: int
      sample: 31769151974
    inactive_enter_monotonic:
      description: When it last became inactive, in microseconds since the boot.
      type: int
      sample: null
    control_group:
      description: Its control group.
      type: str
      sample: /system.slice/sglang-main.service
    need_daemon_reload:
      description: Whether its file on disk is newer than what systemd read.
      type: bool
      sample: false
    limit_memlock_bytes:
      description: How much memory its processes may lock, null if there is no limit.
      type: int
      sample: 8388608
    memory_max_bytes:
      description: MemoryMax of the unit, null where there is none.
      type: int
      sample: 2147483648
    log_namespace:
      description: Namespace of the journal that its processes log to, null for that of most units.
      type: str
      sample: null
    unit_file_state:
      description: Whether it is started at boot, as systemctl is-enabled says it; null where it has no file.
      type: str
      sample: enabled
    job:
      description:
        - The job that systemd has queued or under way for it, for example V(restart) or V(start); null without one.
        - Where it is going to make a new start, and RV(unit.invocation_id) is still that of the one before, neither
          lines nor ranks are returned, unless O(invocation_id) names a start.
      type: str
    started_at:
      description: When its main process was started, in UNIX seconds.
      type: float
      sample: 1796016357.0922046
    generation:
      description: Value of C(GPUFLEET_GENERATION) in its environment, null if it has none or cannot be read.
      type: str
events:
  description: Lines that mean something for a start, oldest first.
  returned: always
  type: list
  elements: dict
  sample:
    - kind: stage_begin
      stage: host_pool
      rank: TP1
      label: kv
      bytes: 540000000
      tokens: 262145
      seconds: null
      values: {}
      text: "Allocating kv hierarchical KV host pool: 262145 tokens, 0.54 GB host memory."
      timestamp: 1795971231.3151
      pid: 1273
earlier:
  description:
    - What the start before the present one said of its end, in the form of RV(events).
    - Only where O(invocation_id) names no start, and systemd restarted the unit by itself before this look.
  returned: always
  type: list
  elements: dict
  sample: []
cursor:
  description: Position in all logs up to which was read, to be passed back as it is; null if nothing was.
  returned: always
  type: str
  sample: '{"journal":"s=0539;i=3108a;b=439987;m=684df371b;t=66176c442564d;x=82316303eb4b0f03","start":"4bbaf8cb"}'
lines:
  description: How many lines were read, the server's access log left out.
  returned: always
  type: int
  sample: 26
more:
  description: Whether reading stopped before the end of the log; the next call with RV(cursor) goes on.
  returned: always
  type: bool
  sample: false
ranks:
  description: The schedulers of the instance.
  returned: always
  type: list
  elements: dict
  contains:
    rank:
      description: Name of the rank as SGLang prints it, V(TP0) where there is only one.
      type: str
      sample: TP0
    pid:
      description: Its process.
      type: int
      sample: 1272
    alive:
      description: Whether the process runs.
      type: bool
      sample: true
    state:
      description: State of the process as in C(/proc/PID/stat), null if it is gone.
      type: str
      sample: R
    start_ticks:
      description: When it was started, in clock ticks since the boot; tells it from another process of that number.
      type: int
      sample: 3176941
    pinned_bytes:
      description: What it holds by the meter, with what lay there before it began to pin.
      type: int
      sample: 92770304
    shmem_bytes:
      description: Shared memory that it holds.
      type: int
      sample: 177446912
    anon_bytes:
      description: Private memory that it holds.
      type: int
      sample: 12869632
    hugetlb_bytes:
      description: Memory in reserved huge pages that it holds.
      type: int
      sample: 0
    resident_bytes:
      description: All memory that it holds.
      type: int
      sample: 195825664
    exit_code:
      description: Exit status of a dead rank, negative for a signal; null if it cannot be read any more.
      type: int
      sample: -9
read_at:
  description: When the ranks were read, in UNIX seconds.
  returned: always
  type: float
  sample: 1796016361.3264296
pinned_bytes:
  description: Sum of what the ranks hold by the meter, null where the meter does not tell it by process.
  returned: always
  type: int
  sample: 353071104
meter:
  description: The meter that was used.
  returned: always
  type: str
  sample: shmem
samples:
  description:
    - What the meter showed while the call waited, about twice a second, thinned out.
    - Empty where the meter does not tell it by process.
  returned: always
  type: list
  elements: dict
  contains:
    at:
      description: When it was read, in UNIX seconds.
      type: float
      sample: 1796016359.7480085
    rank_bytes:
      description: What each living rank held by the meter, by its name.
      type: dict
      sample: {"TP0": 97222656, "TP1": 97882112}
monotonic:
  description: What CLOCK_MONOTONIC showed when the ranks were read, in seconds since the boot.
  returned: always
  type: float
  sample: 28001.147599032
boot_id:
  description: Identity of the node's boot, null if it cannot be read.
  returned: always
  type: str
  sample: 439987ce-2392-484d-81ae-371a0c830c5a
activity:
  description: Signs of life of all processes of the instance together.
  returned: always
  type: dict
  contains:
    resident_bytes:
      description: Memory held.
      type: int
      sample: 430768128
    read_bytes:
      description: Bytes read, from disks or the page cache.
      type: int
      sample: 3182514
    cpu_seconds:
      description:
        - User and system time. Of the control group, which counts processes that have ended as well; where that does
          not tell it, of the processes that are there.
        - Null if neither tells it.
      type: float
      sample: 0.27
host:
  description: Memory of the node. What cannot be read is null.
  returned: always
  type: dict
  contains:
    memory_available_bytes:
      description: MemAvailable.
      type: int
      sample: 23169167360
    shmem_bytes:
      description: Shmem, which holds the pools of all servers.
      type: int
      sample: 1326104576
    swap_used_bytes:
      description: Swap in use.
      type: int
      sample: 0
    memory_some_avg10:
      description: Share of the last 10 s in which some process waited for memory, in percent (PSI).
      type: float
      sample: 0.0
    memory_full_avg10:
      description: Share of the last 10 s in which all processes waited for memory, in percent (PSI).
      type: float
      sample: 0.0
    io_full_avg10:
      description: Share of the last 10 s in which all processes waited for disks, in percent (PSI).
      type: float
      sample: 0.22
    numa_nodes:
      description:
        - For each NUMA node its number C(node), C(total_bytes), C(free_bytes), and C(large_free_bytes), which is free
          in blocks of 2 MiB and more.
      type: list
      elements: dict
      sample:
        - node: 0
          total_bytes: 24119554048
          free_bytes: 17956745216
          large_free_bytes: 13144948736
cgroup:
  description: Memory of the control group that holds the server. What its controllers do not tell is null.
  returned: always
  type: dict
  contains:
    current_bytes:
      description: Memory charged to it.
      type: int
      sample: 377810944
    limit_bytes:
      description: The tightest limit of the group and those above it, null where there is none.
      type: int
      sample: 2147483648
    shmem_bytes:
      description: Shared memory charged to it.
      type: int
      sample: 355708928
    anon_bytes:
      description: Private memory charged to it.
      type: int
      sample: 19533824
    oom_kills:
      description: How many of its processes the OOM killer has killed.
      type: int
      sample: 0
log:
  description: How far the log can be trusted.
  returned: always
  type: dict
  contains:
    source:
      description: The type of the log, see O(log.type).
      type: str
      sample: journal
    readable:
      description:
        - Whether it can be read.
        - Also false where the journal holds nothing at all of a start that has run for 5 s, not even systemd's own
          word.
      type: bool
      sample: true
    suppressed:
      description: How many messages of this start journald says it dropped since RV(cursor) for coming too fast.
      type: int
      sample: 29725
    gap:
      description: Whether lines may be missing before those returned, since the log was vacuumed or truncated.
      type: bool
      sample: false
serves:
  description:
    - Whether the server answered that it is ready; null if it was not asked, see O(ready_url).
    - It is not asked either where its log has just told.
  returned: always
  type: bool
  sample: true
listener_in_unit:
  description:
    - Whether the process that listens on the port of O(ready_url) is one of the instance.
    - Null if none listens, if that could not be told, or if it was not asked.
  returned: always
  type: bool
  sample: true
port_owner:
  description: Who listens on that port if it is not the instance (C(pid), C(name) and C(unit)); null otherwise.
  returned: always
  type: dict
  sample:
    pid: 49
    name: sshd
    unit: ssh.service
ledger:
  description: The record of the last proven start, empty where there is none that can be read.
  returned: always
  type: dict
  sample: {}
ledger_in_force:
  description: Whether the start that RV(ledger) records is the one that runs.
  returned: always
  type: bool
  sample: false
tail:
  description: Last lines that were read, without secrets.
  returned: always
  type: list
  elements: str
problems:
  description: What could not be measured, and why.
  returned: always
  type: list
  elements: dict
"""

from functools import partial

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import answer_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import METERS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.look import look
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.probe import http_status
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.request import LOG_TYPES
from ansible_collections.gpufleet.sglang.plugins.module_utils.streaming import Child


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str"},
            "invocation_id": {"type": "str"},
            "cursor": {"type": "str"},
            "log": {
                "type": "dict",
                "options": {
                    "type": {"type": "str", "choices": list(LOG_TYPES), "default": "journal"},
                    "path": {"type": "path"},
                    "container": {"type": "str"},
                },
            },
            "sglang_version": {"type": "str", "required": True},
            "meter": {"type": "str", "choices": list(METERS)},
            "known_ranks": {"type": "list", "elements": "dict", "default": []},
            "ready_url": {"type": "str"},
            "wait_seconds": {"type": "float", "default": 0},
            "max_lines": {"type": "int", "default": 20},
            "ledger_path": {"type": "path"},
        },
        supports_check_mode=True,
    )
    run = module.run_command
    node = Node(run=partial(answer_of, run), stream=partial(Child, run), probe=http_status)
    try:
        result = look(node, module.params)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
