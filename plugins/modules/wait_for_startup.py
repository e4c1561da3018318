#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_for_startup
version_added: 0.1.0
short_description: Follow the start of an SGLang server until it is ready, failed or stalled
description:
  - Follows one start (one invocation of the systemd unit, or one run of a container) through its stages, which are
    boot, load, device pool, capture, host pool (pinning) and warm-up, and shows where it is in a live line, with the
    bytes that each rank has pinned of those planned, the speed and the time left.
  - There are three outcomes. The server is ready; or the start failed, with cause, rank, remedy and last lines; or it
    stalled, with no sign of life for O(stall_seconds), with ranked causes.
  - It works on any server, also on one that this collection did not install; what O(plan) would tell may be given by
    O(ranks) and O(planned_bytes), or left out.
  - A line of an earlier start never counts. Another start that replaces the followed one is a failure, as is a rank
    whose process is gone while the unit still runs, and a node that was rebooted meanwhile.
  - It changes nothing. When the play is interrupted, nothing of it is left on the node after the look that is under
    way, and a play that is run again goes on following the same start.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
    details: Reports what it would wait for and asks the node for nothing.
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  unit:
    description:
      - The systemd unit.
      - Required unless O(log) names a container.
    type: str
  log:
    description: Where the server logs, if not in the journal.
    type: dict
    suboptions:
      type:
        description:
          - V(journal) of the unit; a V(file); or the log of a container of V(podman) or V(docker), whose processes are
            then the server's. A container that a unit keeps (a quadlet) may be followed by O(unit) alone.
        type: str
        choices: [journal, file, podman, docker]
        default: journal
      path:
        description: The file, with O(log.type=file).
        type: path
      container:
        description: Name or identity of the container, with O(log.type=podman) and O(log.type=docker).
        type: str
  invocation_id:
    description: The start to follow. The present one if not given.
    type: str
  sglang_version:
    description:
      - Release whose log lines are to be understood.
      - One that is newer than those that were read is warned of in RV(problems); where its lines differ, the watch
        rests on bytes and readiness.
    type: str
    required: true
  plan:
    description:
      - The plan, as RV(gpufleet.sglang.memory_plan#module:plan) gives it. Ranks, bytes, meter and timeout come from it,
        and the values of the remedies.
      - Without it the server's own announcements are followed.
    type: dict
    default: {}
  ranks:
    description: How many ranks the server has, if not as in O(plan).
    type: int
  planned_bytes:
    description: Host memory that all ranks together will pin, if not as in O(plan). Requires O(ranks).
    type: int
  meter:
    description:
      - Where pinned memory shows, if not as in O(plan). V(shmem) from SGLang 0.5.13 on, V(anon) from 0.5.5 on,
        V(available) before; V(hugetlb) where the pools lie in reserved huge pages.
    type: str
    choices: [shmem, anon, hugetlb, available]
  ready_url:
    description:
      - Base URL of the server on the node.
      - If given, the server itself is asked as well as the log, whose line may be lost.
    type: str
  timeout_seconds:
    description: Longest time to wait. From the plan if not given, else an hour and time for the bytes.
    type: float
  stall_seconds:
    description:
      - How long there may be no sign of life, which is a byte, a line, or CPU time.
      - CPU time alone is believed up to a limit of its own for each stage, since a hung collective uses it for ever.
    type: float
    default: 120
  poll_seconds:
    description:
      - How long one look waits on the node for news, 0.1 to 30. It returns at once when there is any, a line that
        means something, a change of the unit or a rank that is gone; what it waits for is how old the bytes are that
        are shown.
      - If not given, 2 s while the ranks pin, 5 s while the server warms up and 10 s in every other stage, and at
        least 0.4 s for each node that is watched at the same time, so that 50 nodes are looked at every 20 s.
      - A look costs the controller about 0.06 s of CPU time.
    type: float
  reconnect_seconds:
    description:
      - How long a node that cannot be reached is tried again, from when it was last asked. The start goes on meanwhile,
        and is taken up where the last answer ended.
      - A look that does not come back is taken for lost after half of it, 15 s at least and 60 s at most, beyond the
        time that it was to wait.
    type: float
    default: 120
  live_lines:
    description:
      - Whether to show where the start is, in plain lines without control characters.
      - V(auto) does as the environment variable E(GPUFLEET_LIVE_LINES) says, which takes the same values. Without it,
        lines are shown where a person reads along. Not with the callbacks C(json), C(jsonl), C(oneline), C(null),
        C(dense) and C(selective), whose output is for a program or wanted empty, and not with
        C(display_ok_hosts=false).
      - V(always) shows them with any callback, V(never) with none. A task with C(no_log) shows nothing in any case.
    type: str
    choices: [auto, always, never]
    default: auto
notes:
  - The first live line comes after 2 s, further ones when something has changed, at least 3 s apart and the further
    apart the longer it takes, and a sign of life every 30 s. With C(-v) each rank has a line of its own.
  - Up to four nodes have a line each. More share one line, which counts them by stage, sums their bytes and names the
    slowest; only their ends are told one by one. With C(-v) the lines of each node come as well.
  - With fewer forks than nodes they are followed in turns. A start that has ended by then is told from its log.
seealso:
  - module: gpufleet.sglang.memory_plan
  - module: gpufleet.sglang.startup_status_info
  - module: gpufleet.sglang.serving_check
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Follow the start of an instance of this collection
  gpufleet.sglang.wait_for_startup:
    unit: sglang-main.service
    sglang_version: 0.5.23
    plan: "{{ sglang_plan }}"
    ready_url: http://127.0.0.1:30000

- name: Follow the start of a unit that somebody else wrote, of which nothing is known but its release
  gpufleet.sglang.wait_for_startup:
    unit: llm.service
    sglang_version: 0.5.9
    ready_url: http://127.0.0.1:8000
    timeout_seconds: 1800

- name: The same, with what its pools will take, so that there is a time left from the first line on
  gpufleet.sglang.wait_for_startup:
    unit: llm.service
    sglang_version: 0.5.20
    ranks: 8
    planned_bytes: 768000000000
    ready_url: http://127.0.0.1:8000

- name: Follow a container that a quadlet keeps, whose output systemd hands to the journal
  gpufleet.sglang.wait_for_startup:
    unit: sglang-chat.service
    sglang_version: 0.5.23
    ready_url: http://127.0.0.1:30000

- name: Follow a container of Docker
  gpufleet.sglang.wait_for_startup:
    log:
      type: docker
      container: sglang-chat
    sglang_version: 0.5.23
    ready_url: http://127.0.0.1:30000

- name: Follow a unit that logs to a file
  gpufleet.sglang.wait_for_startup:
    unit: llm.service
    log:
      type: file
      path: /var/log/llm/server.log
    sglang_version: 0.5.23
    ready_url: http://127.0.0.1:30000
"""

RETURN = r"""
outcome:
  description: V(ready), V(failed) or V(stalled); null in check mode and where the watch ended before the start.
  returned: always
  type: str
  sample: ready
reason:
  description: By what rule, for example V(log) or V(probe) for a server that is ready, V(rank_died) or V(timeout).
  returned: when it was not a check
  type: str
  sample: log
stages:
  description:
    - The stages that were seen, timed by the log from when the first rank entered one to when the last left it.
    - C(bytes) are the weights, the KV cache and the pinned memory, of all ranks together.
  returned: when it was not a check
  type: list
  elements: dict
  sample:
    - {stage: boot, seconds: 126.835, bytes: null, started_at: 1795973106.006}
    - {stage: load, seconds: 0.992, bytes: 21474836, started_at: 1795973232.025}
    - {stage: device_pool, seconds: 2.103, bytes: 42949672, started_at: 1795973232.466}
    - {stage: host_pool, seconds: 16.883, bytes: 1073954816, started_at: 1795973234.593}
    - {stage: warm_up, seconds: 2.86, bytes: null, started_at: 1795973251.497}
invocation_id:
  description: The start that was followed.
  returned: when it was not a check
  type: str
  sample: b1a7630ae7004c4eb96b0ad3f18b9c99
main_pid:
  description: Its main process.
  returned: when it was not a check
  type: int
  sample: 1202
n_restarts:
  description: How often systemd has restarted the unit by itself.
  returned: when it was not a check
  type: int
  sample: 0
meter:
  description: Where pinned memory showed.
  returned: when it was not a check
  type: str
  sample: shmem
meter_reason:
  description: Why it was read there.
  returned: when it was not a check
  type: str
  sample: It is where the memory of this release and plan shows.
pinned_bytes:
  description: Host memory that all ranks hold pinned.
  returned: when it was not a check
  type: int
  sample: 599998464
planned_bytes:
  description: Host memory that all ranks were to pin.
  returned: when it was not a check
  type: int
  sample: 599998464
ranks:
  description:
    - What is known of each rank. C(planned_bytes) is what it was to pin, C(announced_bytes) what it said that it would,
      to two decimals of a GB, C(pinned_bytes) what the meter showed.
    - C(pin_seconds) is the time that it took to pin its own pools, C(pin_bytes_per_second) its mean speed, or the
      present one where it is not done.
  returned: when it was not a check
  type: list
  elements: dict
  sample:
    - rank: TP0
      pid: 1204
      alive: true
      exit_code: null
      stage: ready
      planned_bytes: 299999232
      announced_bytes: 300000000
      pinned_bytes: 299999232
      pin_seconds: 10.356
      pin_bytes_per_second: 28968639.6
max_total_num_tokens:
  description: Tokens that the device pool holds, as the server says.
  returned: when it was not a check
  type: int
  sample: 8192
host_tokens:
  description: Tokens that one rank's host pool holds, as the server says; null before SGLang 0.5.17.
  returned: when it was not a check
  type: int
  sample: 262145
figures:
  description:
    - What the start really took, for the ledger and the next plan. Memory of GPUs is the minimum over the ranks, as
      they print it, with two decimals of GiB (C(resolution_bytes)); C(device_pool_bytes) are all pools of a rank,
      C(host_pool_bytes) those that all ranks announced, C(pinned_bytes) those that were metered.
    - C(mem_fraction_static) is the one that the server resolved. C(rest_seconds) is what C(start_seconds) has beside
      loading and pinning. What the release does not tell is null; on a CPU the memory is that of the host.
  returned: when the server is ready
  type: dict
  sample:
    mem_fraction_static: 0.88
    available_before_load_bytes: 102649718374
    available_after_load_bytes: 23504194109
    available_after_pool_bytes: 12112366632
    available_after_capture_bytes: 8000000000
    available_at_end_bytes: 7999915458
    device_pool_bytes: 11188387840
    host_pool_bytes: 358160000000
    resolution_bytes: 10737418
    pinned_bytes: 358167420928
    pin_seconds: 91.402
    pin_bytes_per_second: 3918594905.2
    load_seconds: 412.118
    rest_seconds: 96.2
    start_seconds: 599.72
log:
  description: How far the log could be trusted over the whole wait.
  returned: when it was not a check
  type: dict
  contains:
    source:
      description: Where it was read.
      type: str
      sample: journal
    readable:
      description: Whether it could be read at last.
      type: bool
      sample: true
    suppressed:
      description: How many messages a rate limit dropped.
      type: int
      sample: 0
    gap:
      description: Whether lines were gone before they could be read (rotated, vacuumed, truncated).
      type: bool
      sample: false
problems:
  description: What was not as it should be with the watch itself, each once.
  returned: always
  type: list
  elements: dict
  sample:
    - code: log_suppressed
      severity: warning
      message: 1204 messages of the log were dropped by its rate limit.
      remedy: Set LogRateLimitIntervalSec=0 in the unit, or a higher RateLimitBurst= in journald.conf.
elapsed_seconds:
  description: How long this task waited.
  returned: when it was not a check
  type: float
  sample: 16.71
would_wait:
  description:
    - What it would wait for, with what each stage is planned to take.
    - C(bytes_by_stage) is what each rank of a pipeline stage will pin, C(release_read) the release whose lines are
      looked for.
  returned: in check mode
  type: dict
  sample:
    unit: sglang-main.service
    log: null
    invocation_id: null
    ranks: 8
    planned_bytes: 358166827008
    bytes_by_stage: [44770853376]
    meter: shmem
    stages:
      - {stage: load, seconds: 547.0, bytes: 656365928448}
      - {stage: host_pool, seconds: 88.8, bytes: 358166827008}
    start_seconds: 755.8
    timeout_seconds: 3624.0
    stall_seconds: 120.0
    release_read: 0.5.23
failure:
  description: Cause of a failure or a stall, or why the watch ended before the start.
  returned: when the server is not ready
  type: dict
  contains:
    code:
      description: Stable name of the cause.
      type: str
      sample: host_memory_guard
    message:
      description: The cause in one sentence.
      type: str
    remedy:
      description: What to do, with computed values.
      type: str
    rank:
      description: The rank it came from, null for the server as a whole.
      type: str
    evidence:
      description: The lines and facts that tell it.
      type: dict
    computed:
      description: The numbers that were computed, which the remedy names.
      type: dict
    causes:
      description: Likely causes of a stall, most likely first.
      type: list
      elements: str
last_lines:
  description: The last lines of the server.
  returned: when the start failed or stalled
  type: list
  elements: str
"""
