#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_for_startup
version_added: 0.1.0
short_description: Follow the start of an SGLang instance until it is ready, failed or stalled
description:
  - Follows one start (one invocation of the systemd unit) through its stages, which are boot, load, device pool,
    capture, host pool (pinning) and warm-up, and shows where it is in a live line for each node, with the bytes that
    each rank has pinned of those planned, the speed and the time left.
  - There are three outcomes. The server is ready; or the start failed, with cause, rank, remedy and last lines; or it
    stalled, with no byte moved and no line printed for O(stall_seconds), with ranked causes.
  - A line of an earlier start never counts, since the journal is read by invocation. Another start that replaces the
    followed one is a failure, as is a rank whose process is gone while the unit still runs.
  - It changes nothing. A broken connection is tried again for two minutes, and a play that was interrupted and is run
    again goes on following the same start.
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
    description: The systemd unit.
    type: str
    required: true
  invocation_id:
    description: The start to follow. The present one if not given.
    type: str
  sglang_version:
    description: Release whose log lines are to be understood.
    type: str
    required: true
  plan:
    description:
      - The plan, as RV(gpufleet.sglang.memory_plan#module:plan) gives it. Ranks, bytes, meter and timeout come from it.
      - Without it the server's own announcements are followed.
    type: dict
    default: {}
  ready_url:
    description:
      - Base URL of the server on the node.
      - If given, its health endpoint counts as well as the line that says that it is ready, which can be lost.
    type: str
  timeout_seconds:
    description: Longest time to wait. From the plan if not given, else an hour.
    type: float
  stall_seconds:
    description:
      - How long nothing may happen.
      - In stages in which SGLang is silent by nature, which are capture, registration and warm-up, its own limits
        hold if they are longer.
    type: float
    default: 120
  poll_seconds:
    description: How often to look when nothing happens, 0.1 to 10. News is seen at once.
    type: float
    default: 2
seealso:
  - module: gpufleet.sglang.memory_plan
  - module: gpufleet.sglang.startup_status_info
  - module: gpufleet.sglang.serving_check
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Wait for the startup of SGLang
  gpufleet.sglang.wait_for_startup:
    unit: sglang-main.service
    sglang_version: 0.5.23
    plan: "{{ sglang_plan }}"
    ready_url: http://127.0.0.1:30000
"""

RETURN = r"""
outcome:
  description: V(ready), V(failed) or V(stalled); null in check mode.
  returned: always
  type: str
  sample: ready
stages:
  description:
    - The stages that were seen, timed by the journal from when the first rank entered one to when the last left it.
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
main_pid:
  description: Its main process.
  returned: when it was not a check
  type: int
pinned_bytes:
  description: Host memory that all ranks hold pinned.
  returned: when it was not a check
  type: int
planned_bytes:
  description: Host memory that all ranks were to pin.
  returned: when it was not a check
  type: int
ranks:
  description: What is known of each rank; C(pin_seconds) is the time it took to pin its own pools.
  returned: when it was not a check
  type: list
  elements: dict
  sample:
    - rank: TP0
      pid: 417
      alive: true
      exit_code: null
      stage: ready
      pinned_bytes: 536944640
      planned_bytes: 536872960
      pin_seconds: 16.818
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
  returned: when it was not a check
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
elapsed_seconds:
  description: How long this task waited.
  returned: when it was not a check
  type: float
would_wait:
  description: What it would wait for.
  returned: in check mode
  type: dict
failure:
  description: Cause of a failure or a stall.
  returned: on failure
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
      description: The numbers behind it.
      type: dict
    causes:
      description: Likely causes of a stall, most likely first.
      type: list
      elements: str
last_lines:
  description: The last lines of the server.
  returned: on failure
  type: list
  elements: str
"""
