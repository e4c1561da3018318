#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: wait_for_idle
version_added: 0.1.0
short_description: Wait between stop and start until the memory of the old server is given back
description:
  - A server that was stopped or killed gives its memory back late. After a C(SIGKILL) 243 GB stayed pinned for 26
    seconds with no process left, and a scheduler that leaked out of its unit holds its GPU until it is killed. The next
    start then dies at the check of host memory or in the device pool.
  - Waits until no process of the instance is left, its GPUs are idle or have free what the plan counts on, and as much
    host memory is available as the plan requires, on each NUMA node where ranks are bound to them strictly. Shows in a
    live line how much came back, how fast, and the time left.
  - Ends with a failure when nothing has come back for O(stall_seconds), or for twice the time that the driver takes to
    unpin what is missing if that is longer. The message says who holds what and what to do, computed from that, which
    may be a process to kill, a file to remove, or the largest C(hicache.ratio) that fits what is available now.
  - What other instances of the node hold does not count, unless it is missing.
  - If the server may start with what there is, because only a part of the plan's reserve is missing, or its own check
    passes in some orders of its ranks, it goes on after ten seconds of quiet, with a warning in RV(problems). A server
    that was stopped is not left down for that.
  - A node that cannot be reached is tried again for two minutes, and a call that was killed four times in all.
  - It kills and removes nothing. On a node that is idle it takes one look.
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
      - The systemd unit of the server. It has to be stopped or stopping. The wait fails at once if it runs, or if
        systemd is about to start it again.
      - It need not be of this collection, and the scope of a container is a unit as well.
    type: str
  control_group:
    description: Control group of a server that is no unit, such as C(/docker/ID).
    type: str
  generations:
    description: See O(gpufleet.sglang.memory_holders_info#module:generations).
    type: list
    elements: str
    default: []
  plan:
    description:
      - The plan of the start to come, as RV(gpufleet.sglang.memory_plan#module:plan) gives it. The GPUs, what has to be
        free and the timeout come from it.
      - Without it the processes of the instance and O(gpus) are waited for.
    type: dict
    default: {}
  gpus:
    description:
      - Indexes or UUIDs of the GPUs that have to be idle. Those of the plan if not given, and without a plan all that
        the driver has.
    type: list
    elements: str
  gpu_idle_bytes:
    description: Memory in use up to which a GPU counts as idle.
    type: int
    default: 1073741824
  timeout_seconds:
    description:
      - Longest time to wait.
      - If not given, a minute and twice the time that unpinning the plan's pools takes at 9.4 GB/s, from when the unit
        has stopped; until then the stop limit of the plan's unit.
    type: float
  stall_seconds:
    description: How long nothing may come back.
    type: float
    default: 30
  poll_seconds:
    description: How long one call waits on the node, 0.1 to 10. That the memory is free is seen at once.
    type: float
    default: 3
  live_lines:
    description: >-
      Whether the live line is shown. V(auto) does as E(GPUFLEET_LIVE_LINES) in the controller's environment says, and
      without it shows the line where a person reads along.
    type: str
    choices: [auto, always, never]
    default: auto
  nvml_library:
    description: See O(gpufleet.sglang.memory_holders_info#module:nvml_library).
    type: path
  nvml_timeout_seconds:
    description: See O(gpufleet.sglang.memory_holders_info#module:nvml_timeout_seconds).
    type: float
    default: 60
  python_candidates:
    description: See O(gpufleet.sglang.memory_holders_info#module:python_candidates).
    type: list
    elements: path
    default:
      - /opt/gpufleet/probe/bin/python
      - /opt/sglang/*/bin/python
      - /usr/bin/python3
seealso:
  - module: gpufleet.sglang.memory_holders_info
  - module: gpufleet.sglang.memory_plan
  - module: gpufleet.sglang.wait_for_startup
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Stop the server
  ansible.builtin.systemd_service:
    name: sglang-main.service
    state: stopped

- name: Wait until its memory is given back
  gpufleet.sglang.wait_for_idle:
    unit: sglang-main.service
    plan: "{{ sglang_plan }}"

- name: Wait for a server that another tool has installed, by its GPUs
  gpufleet.sglang.wait_for_idle:
    unit: my-inference.service
    gpus: ["0", "1", "2", "3"]
    timeout_seconds: 300

- name: Wait for a server that ran in a container
  gpufleet.sglang.wait_for_idle:
    unit: docker-4f1f5a3c7f6e1b6e0c6c3a5d0f5c8e2d7f3b1a9c0e4d6f8a2b4c6e8f0a1b2c3d.scope
    gpus: [GPU-db3b077d-2399-57db-8e33-ab9c932b13d9]
"""

RETURN = r"""
outcome:
  description: V(idle), V(failed) or V(stalled); null in check mode.
  returned: always
  type: str
  sample: idle
idle_seconds:
  description: How long the wait took.
  returned: when it was not a check
  type: float
  sample: 12.782
given_back_bytes:
  description: Host memory and GPU memory that came back during the wait.
  returned: when it was not a check
  type: int
  sample: 1330597888
given_back_host_bytes:
  description: Host memory that came back, by what is available.
  returned: when it was not a check
  type: int
  sample: 1330597888
given_back_gpu_bytes:
  description: Memory of the GPUs that came back.
  returned: when it was not a check
  type: int
  sample: 0
memory_available_bytes:
  description: Host memory that was available at the end.
  returned: when it was not a check
  type: int
  sample: 23849693184
gpu_memory_used_bytes:
  description: Memory of the GPUs in use at the end; null where there are none or it is not known.
  returned: when it was not a check
  type: int
  sample: null
problems:
  description: What could not be seen, and whether the start goes on with less than planned.
  returned: when it was not a check
  type: list
  elements: dict
  sample: []
would_wait:
  description: What it would wait for.
  returned: in check mode
  type: dict
  sample:
    unit: sglang-main.service
    gpus: ["0", "1"]
    needs: {required_available_bytes: 250000000000, least_available_bytes: 239262581760, gpu_free_bytes: 100000000000}
    timeout_seconds: 111.4
    stall_seconds: 30.0
holders:
  description: >-
    Who holds what, in full: C(processes), C(gpus), C(host), C(numa_nodes), C(memory_users), C(files), C(segments) and
    C(blocked) of M(gpufleet.sglang.memory_holders_info).
  returned: on failure
  type: dict
failure:
  description: >-
    C(code) is V(old_server_alive), V(gpu_memory_held), V(host_memory_held) or V(unit_active), or of a node that gave no
    answer V(node_lost), V(watch_broken) or V(python_missing). C(evidence) holds the figures behind the message, with
    C(holds), C(remedies) and C(largest_ratio).
  returned: on failure
  type: dict
  sample:
    code: old_server_alive
    message: |-
      The memory for sglang-idle.service is not free after 69.1 s, and for 7.1 s none has come back.
        sglang::scheduler_TP1 (pid 166, user root, stray-rank.service) of the old server is still there, outside of
      sglang-idle.service; it holds 0.50 GB of host memory.
    remedy: >-
      Kill pid 166 (sglang::scheduler_TP1 of user root), which the old server left behind: `kill -KILL 166`.
    evidence:
      waited_seconds: 69.1
      missing_host_bytes: 16847798272
      held_gpu_bytes: 30000000000
      remedies:
        - {code: kill_process, pid: 166, path: null, bytes: 503697408, value: null}
        - {code: remove_file, pid: null, path: /dev/shm/psm_leftover, bytes: 209715200, value: null}
"""
