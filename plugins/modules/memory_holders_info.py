#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: memory_holders_info
version_added: 0.1.0
short_description: Tell who holds the host memory and the GPU memory that an SGLang instance needs
description:
  - Looks at everything that can keep memory from the next start of a server. These are processes that are left in its
    control group or outside of it, processes on its GPUs, files and segments of shared memory that a dead server left
    behind, huge pages in use, and pages that the driver has not given back although their process is gone.
  - With O(needs) it also says in RV(holds) what of that is in the way. M(gpufleet.sglang.wait_for_idle) asks it until
    nothing is, and computes the needs from a plan.
  - It kills and removes nothing.
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
      - The systemd unit of the server, one that runs, stops or has ended. The scope of a container is a unit too, such
        as C(docker-ID.scope).
      - Without it, and without O(control_group), processes are found by their names and their GPUs only.
    type: str
  control_group:
    description: Control group of a server that is no unit, such as C(/docker/ID). The unit's own if not given.
    type: str
  generations:
    description:
      - Values of C(GPUFLEET_GENERATION) in the environment of processes that are this instance's, wherever they are.
      - SGLang's ranks write over their environment. One that left the unit is known by its title, C(sglang::...), and
        by working in the unit's C(WorkingDirectory).
    type: list
    elements: str
    default: []
  gpus:
    description:
      - Indexes or UUIDs of the GPUs of the instance. Others are not looked at.
      - All that the driver has if not given; none with an empty list.
    type: list
    elements: str
  needs:
    description: What has to be free; nothing but the instance's own processes is in the way without it.
    type: dict
    default: {}
    suboptions:
      required_available_bytes:
        description: Host memory that has to be available.
        type: int
      least_available_bytes:
        description: >-
          Host memory that has to be available at least; between this and O(needs.required_available_bytes) a hold is
          bearable.
        type: int
      numa_nodes:
        description: The same for single NUMA nodes.
        type: list
        elements: dict
        suboptions:
          node:
            description: Number of the node.
            type: int
            required: true
          required_bytes:
            description: Memory that has to be available on it.
            type: int
            required: true
          least_bytes:
            description: Memory that has to be available on it at least.
            type: int
      hugepage_bytes:
        description: Size of the huge pages that O(needs.hugepages) is about.
        type: int
      hugepages:
        description: What has to be free in reserved huge pages.
        type: list
        elements: dict
        suboptions:
          node:
            description: Number of the node; the whole host if not given.
            type: int
          bytes:
            description: Free bytes.
            type: int
            required: true
      gpu_free_bytes:
        description: Memory of a GPU that is enough for the start, whoever uses the rest.
        type: int
      gpu_idle_bytes:
        description: Memory in use up to which a GPU counts as idle. 1 GiB if not given.
        type: int
  wait_seconds:
    description:
      - Waits up to so many seconds for RV(idle), and returns at once when it is true or the unit runs.
      - At most 10.
    type: float
    default: 0
  details:
    description: >-
      Whether to find RV(memory_users), RV(files), RV(segments) and RV(blocked) as well, for which every process of the
      host is looked at.
    type: bool
    default: true
  most_users:
    description: How many of the largest holders of host memory to return.
    type: int
    default: 10
  nvml_library:
    description: Path of the NVML library to use. The one that the system's loader finds if not given.
    type: path
  nvml_timeout_seconds:
    description: How long asking the driver may take in all, beside O(wait_seconds).
    type: float
    default: 60
  python_candidates:
    description:
      - Python interpreters that may have C(nvidia-ml-py), as paths or patterns; see
        O(gpufleet.sglang.gpu_topology_info#module:python_candidates).
    type: list
    elements: path
    default:
      - /opt/gpufleet/probe/bin/python
      - /opt/sglang/*/bin/python
      - /usr/bin/python3
requirements:
  - nvidia-ml-py (for GPUs; the interpreter that runs the module or one of O(python_candidates))
  - root, to see what processes of other users hold
notes:
  - Where NVML cannot be asked RV(gpus) is null, and RV(problems) says why if GPUs were named.
  - Pages that a driver has pinned belong to no process once it is dead. They show in RV(host.unaccounted_bytes), and
    C(MemAvailable) comes back when the driver has let go of them.
seealso:
  - module: gpufleet.sglang.wait_for_idle
  - module: gpufleet.sglang.gpu_topology_info
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: See what a server that was killed still holds
  gpufleet.sglang.memory_holders_info:
    unit: sglang-main.service
  register: held

- name: See who holds memory of two GPUs, whatever runs on them
  gpufleet.sglang.memory_holders_info:
    gpus: ["0", "1"]
    needs:
      gpu_idle_bytes: 1073741824
    details: false

- name: See what is left of a server that ran in a container
  gpufleet.sglang.memory_holders_info:
    unit: docker-4f1f5a3c7f6e1b6e0c6c3a5d0f5c8e2d7f3b1a9c0e4d6f8a2b4c6e8f0a1b2c3d.scope
    needs:
      required_available_bytes: 250000000000
"""

RETURN = r"""
idle:
  description: Whether nothing is in the way.
  returned: always
  type: bool
  sample: false
holds:
  description:
    - What is in the way. The C(kind) is V(process) for one of the instance, V(gpu) for memory of a GPU, V(host_memory),
      V(numa_node) or V(huge_pages) for memory that is missing.
    - C(bytes) is what is held or missing, C(pid) null where no process is named for it. C(bearable) says that the
      server may start all the same.
  returned: always
  type: list
  elements: dict
  sample:
    - kind: process
      bytes: 503697408
      bearable: false
      pid: 166
      name: sglang::scheduler_TP1
      user: root
      unit: stray-rank.service
      container: null
      state: S
      belongs: working_directory
      gpu: null
      numa_node: null
      required_bytes: null
      available_bytes: null
    - kind: host_memory
      bytes: 16847798272
      bearable: false
      pid: null
      name: null
      user: null
      unit: null
      container: null
      state: null
      belongs: null
      gpu: null
      numa_node: null
      required_bytes: 40000000000
      available_bytes: 23152201728
unit:
  description: State of the unit, as RV(gpufleet.sglang.startup_status_info#module:unit) gives it; null without O(unit).
  returned: always
  type: dict
  sample:
    name: sglang-idle.service
    active_state: failed
processes:
  description:
    - Processes of the instance, in its control group or outside of it, and all others that are SGLang's by their title
      (C(sglang::...)), which other instances have too.
    - C(belongs) is why one is the instance's, V(unit), V(environment) or V(working_directory); null where it is not.
  returned: always
  type: list
  elements: dict
  sample:
    - pid: 166
      name: sglang::scheduler_TP1
      user: root
      unit: stray-rank.service
      container: null
      state: S
      parent: 1
      started_at: 1796012333.14
      start_ticks: 2774614
      shmem_bytes: 499990528
      anon_bytes: 3706880
      hugetlb_bytes: 0
      held_bytes: 503697408
      belongs: working_directory
gpus:
  description:
    - The GPUs that were named, with the processes on them; null where NVML could not be asked.
    - C(unnamed_bytes) is memory in use that no process is named for.
  returned: always
  type: list
  elements: dict
  sample:
    - index: 0
      uuid: GPU-db3b077d-2399-57db-8e33-ab9c932b13d9
      name: NVIDIA RTX PRO 6000 Blackwell Server Edition
      memory_total_bytes: 102641958912
      memory_reserved_bytes: 666894336
      memory_used_bytes: 30000000000
      memory_free_bytes: 71975064576
      unnamed_bytes: 10000000000
      processes:
        - {pid: 166, name: "sglang::scheduler_TP1", user: root, memory_used_bytes: 20000000000, kind: compute}
host:
  description: The kernel's account of the host's memory (C(/proc/meminfo)).
  returned: always
  type: dict
  contains:
    total_bytes:
      description: Memory that the kernel manages.
      type: int
      sample: 25276502016
    available_bytes:
      description: Memory that new processes can have without swapping (MemAvailable).
      type: int
      sample: 24226983936
    free_bytes:
      description: Memory that nothing uses.
      type: int
      sample: 19292917760
    shmem_bytes:
      description: Shared memory, files in memory among it (Shmem).
      type: int
      sample: 253947904
    mlocked_bytes:
      description: Memory that processes have locked (Mlocked); what a driver pins is not in it.
      type: int
      sample: 23703552
    unevictable_bytes:
      description: Memory that the kernel cannot reclaim (Unevictable).
      type: int
      sample: 24633344
    unaccounted_bytes:
      description: What no counter of the kernel names, above all pages that a driver holds; null where it has too few.
      type: int
      sample: 87904256
    hugepages:
      description: Reserved huge pages by size, with C(used_bytes).
      type: list
      elements: dict
      sample: [{size_bytes: 2097152, total: 512, free: 500, used_bytes: 25165824}]
numa_nodes:
  description: Memory of each NUMA node; C(available_bytes) is its share of what the host has available.
  returned: always
  type: list
  elements: dict
  sample:
    - node: 0
      total_bytes: 25276502016
      free_bytes: 19292917760
      available_bytes: 24226983936
      shmem_bytes: 253947904
      hugepages: []
samples:
  description: What was seen during the call, one entry a look. C(at) is in UNIX seconds.
  returned: always
  type: list
  elements: dict
  sample:
    - at: 1796012433.117
      memory_available_bytes: 23152201728
      shmem_bytes: 1253947904
      gpu_memory_used_bytes: 30000000000
      processes: 1
memory_users:
  description: The processes with the most host memory, those with shared memory first; null without O(details).
  returned: always
  type: list
  elements: dict
files:
  description:
    - Files of a MiB or more in C(/dev/shm) and in huge pages, and those in memory that have no name (memfd, removed
      files), with the processes that use them; null without O(details).
  returned: always
  type: list
  elements: dict
  sample:
    - {path: /dev/shm/psm_leftover, kind: tmpfs, bytes: 209715200, user: root, used_by: []}
segments:
  description: >-
    Segments of System V shared memory of a MiB or more. C(bytes) lie in memory, C(attached) counts the processes that
    use it; null without O(details).
  returned: always
  type: list
  elements: dict
  sample:
    - {id: 32769, bytes: 104857600, size_bytes: 209715200, attached: 0, creator_pid: 101, user: root}
blocked:
  description: Processes that are dead and unattended (V(Z)) or wait in the kernel (V(D)). Null without O(details).
  returned: always
  type: list
  elements: dict
  sample: []
problems:
  description: What could not be seen, and why.
  returned: always
  type: list
  elements: dict
  sample: []
"""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.common.respawn import has_respawned, probe_interpreters_for_module, respawn_module

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import answer_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.file_reading import read_files, read_segments
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.gpu_reading import GpuReader
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.holders import BY_UNIT, Look, Process
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.judge import Hold, holds_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.needs import needs_from_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.process_reading import (
    Instance,
    all_pids,
    memory_users,
    pids_in,
    read_host,
    read_nodes,
    read_processes,
    still_there,
    strays,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.idle.texts import slice_path
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus, parse_show, show_command
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.interpreters import (
    PYTHON_CANDIDATES,
    interpreters,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import (
    IMPORT,
    LOAD,
    Call,
    nvml_process,
)

LONGEST_WAIT_SECONDS = 10.0
# Looks come apart by these, then by the last: what a small server held is back within the first second.
PAUSES = (0.1, 0.2, 0.4, 0.8, 1.0)
# Properties of the unit beside those of its state.
PLACE = ("WorkingDirectory", "Slice")
BINDING = "pynvml"
MOST_BLOCKED = 20


@dataclass(frozen=True)
class Node:
    """The node as this module touches it; a test gives it other parts."""

    run: Callable[[list[str]], tuple[int, str, str]]
    root: Path = Path("/")
    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


def read_unit(node: Node, unit: str) -> tuple[UnitStatus, dict[str, str]]:
    """The unit's state, and where it lives."""
    command = show_command(unit)
    command = [f"{word},{','.join(PLACE)}" if word.startswith("--property=") else word for word in command]
    code, output, errors = node.run(command)
    if code != 0:
        raise Refusal(
            "systemctl_failed",
            f"`systemctl show {unit}` failed: {errors.strip() or output.strip() or code}.",
            "The node has to run systemd.",
            {"returncode": code},
        )
    fields = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    return parse_show(output, unit), {name: fields.get(name, "") for name in PLACE}


def group_of(unit: UnitStatus | None, place: dict[str, str], given: str | None) -> str | None:
    """systemd tells no group of a unit that has ended, whose processes may be left all the same."""
    if given is not None or unit is None:
        return given
    if unit.control_group is not None:
        return unit.control_group
    return f"/{slice_path(place['Slice'] or 'system.slice')}/{unit.name}"


class Watch:
    """One call's looks: what needs a search of all processes is found once, the rest read anew each time."""

    def __init__(self, node: Node, params: dict[str, Any], gpus: GpuReader | None) -> None:
        self._node, self._gpus = node, gpus
        self._needs = needs_from_dict(params["needs"] or {})
        self.unit: UnitStatus | None = None
        place = dict.fromkeys(PLACE, "")
        if params["unit"]:
            self.unit, place = read_unit(node, params["unit"])
        self._group = group_of(self.unit, place, params["control_group"])
        instance = Instance(
            invocation_id=self.unit.invocation_id if self.unit else None,
            generations=tuple(params["generations"]),
            working_directory=place["WorkingDirectory"].lstrip("!-") or None,
        )
        here = pids_in(node.root, self._group)
        self._strays = strays(node.root, instance, here, os.getpid())
        self.samples: list[dict[str, Any]] = []

    def look(self, again: bool) -> tuple[Look, tuple[Hold, ...]]:
        """C(again) reads the unit anew, and lets go of the strays that have ended."""
        node = self._node
        if again and self.unit is not None:
            self.unit, _place = read_unit(node, self.unit.name)
        self._strays = [one for one in (still_there(node.root, stray) for stray in self._strays) if one is not None]
        own = read_processes(node.root, pids_in(node.root, self._group), BY_UNIT)
        host = read_host(node.root)
        found = Look(
            processes=(*own, *self._strays),
            gpus=None if self._gpus is None else self._gpus.read(),
            host=host,
            nodes=read_nodes(node.root, host.available_bytes),
        )
        holds = holds_of(found, self._needs)
        self.samples.append(
            {
                "at": round(node.wall(), 3),
                "memory_available_bytes": host.available_bytes,
                "shmem_bytes": host.shmem_bytes,
                "gpu_memory_used_bytes": found.gpu_used_bytes,
                "processes": sum(process.belongs is not None for process in found.processes),
            }
        )
        return found, holds

    @property
    def _stopping(self) -> bool:
        return self.unit is not None and self.unit.active_state == "deactivating"

    def until_idle(self, seconds: float) -> tuple[Look, tuple[Hold, ...]]:
        clock = self._node.clock
        deadline = clock() + seconds
        found, holds = self.look(again=False)
        while (holds or self._stopping) and not (self.unit is not None and self.unit.runs):
            left = deadline - clock()
            if left <= 0:
                break
            self._node.sleep(min(PAUSES[min(len(self.samples), len(PAUSES)) - 1], left))
            found, holds = self.look(again=True)
        return found, holds


def blocked(processes: list[Process]) -> list[Process]:
    """Processes that cannot end: dead ones that nobody looks after, and those that wait in the kernel."""
    return [one for one in processes if one.state in ("Z", "D") and one.name is not None][:MOST_BLOCKED]


def details_of(root: Path, most: int, known: Sequence[Process]) -> dict[str, Any]:
    """C(known) are processes of which it is known whether they are the instance's."""
    pids, belongs = all_pids(root), {process.pid: process.belongs for process in known}
    processes = [replace(process, belongs=belongs.get(process.pid)) for process in read_processes(root, pids)]
    return {
        "memory_users": [one.as_dict() for one in memory_users(processes, most)],
        "files": [file.as_dict() for file in read_files(root, pids)],
        "segments": [asdict(segment) for segment in read_segments(root)],
        "blocked": [one.as_dict() for one in blocked(processes)],
    }


def look(node: Node, params: dict[str, Any], gpus: GpuReader | None, problems: list[Problem]) -> dict[str, Any]:
    wait = params["wait_seconds"]
    if not 0 <= wait <= LONGEST_WAIT_SECONDS:
        raise Refusal(
            "wait_too_long",
            f"wait_seconds is {wait:g}.",
            f"Expected 0 to {LONGEST_WAIT_SECONDS:g}; call again for more.",
            {"wait_seconds": wait},
        )
    watch = Watch(node, params, gpus)
    found, holds = watch.until_idle(wait)
    nothing = dict.fromkeys(("memory_users", "files", "segments", "blocked"))
    return {
        "idle": not holds,
        "holds": [hold.as_dict() for hold in holds],
        "unit": None if watch.unit is None else watch.unit.as_dict(),
        "processes": [process.as_dict() for process in found.processes],
        "gpus": None if found.gpus is None else [gpu.as_dict() for gpu in found.gpus],
        "host": found.host.as_dict(),
        "numa_nodes": [one.as_dict() for one in found.nodes],
        "samples": watch.samples,
        **(details_of(node.root, params["most_users"], found.processes) if params["details"] else nothing),
        "problems": [problem.as_dict() for problem in problems],
    }


# GPUs -----------------------------------------------------------------------------------------------------------------


def unknown(why: str) -> Problem:
    return Problem(
        "gpu_holders_unknown",
        "warning",
        f"The memory of the GPUs is not known: {why}.",
        "Look at `nvidia-smi` on the node; the host's memory is watched all the same.",
    )


def with_gpus(
    params: dict[str, Any], root: Path, use: Callable[[GpuReader | None, list[Problem]], dict[str, Any]]
) -> dict[str, Any]:
    """What C(use) makes of the GPUs that it can ask again and again, or of None and why not.

    Does not come back where another interpreter has nvidia-ml-py: the module runs again there.
    """
    wanted, library = params["gpus"], params["nvml_library"]
    if wanted is not None and not wanted:
        return use(None, [])
    named = wanted is not None or library is not None
    with nvml_process(params["nvml_timeout_seconds"] + params["wait_seconds"]) as call:
        reader, why, lacking = start_gpus(call, library, root, wanted)
        if not lacking:
            return use(reader, [unknown(why)] if why is not None and (named or reader is not None) else [])
    candidates = interpreters(params["python_candidates"])
    interpreter = None if has_respawned() else probe_interpreters_for_module(candidates, BINDING)
    if interpreter:
        respawn_module(interpreter)
    return use(None, [unknown("no interpreter of the node has nvidia-ml-py")])


def start_gpus(
    call: Call, library: str | None, root: Path, wanted: list[str] | None
) -> tuple[GpuReader | None, str | None, bool]:
    """The reader, what is wrong, and whether nvidia-ml-py is all that is missing."""
    loaded = call(LOAD, [library])
    if "error" in loaded:
        return None, str(loaded["text"]), False
    if "error" in call(IMPORT, []):
        return None, None, True
    reader = GpuReader(call, root, wanted)
    if not reader.started:
        return None, reader.failures[0].text, False
    if reader.missing:
        return reader, f"the driver lists no GPU {', '.join(reader.missing)}", False
    return reader, None, False


def main() -> None:
    node_needs = {
        "node": {"type": "int", "required": True},
        "required_bytes": {"type": "int", "required": True},
        "least_bytes": {"type": "int"},
    }
    needs = {
        "required_available_bytes": {"type": "int"},
        "least_available_bytes": {"type": "int"},
        "numa_nodes": {"type": "list", "elements": "dict", "options": node_needs},
        "hugepage_bytes": {"type": "int"},
        "hugepages": {
            "type": "list",
            "elements": "dict",
            "options": {"node": {"type": "int"}, "bytes": {"type": "int", "required": True}},
        },
        "gpu_free_bytes": {"type": "int"},
        "gpu_idle_bytes": {"type": "int"},
    }
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str"},
            "control_group": {"type": "str"},
            "generations": {"type": "list", "elements": "str", "default": []},
            "gpus": {"type": "list", "elements": "str"},
            "needs": {"type": "dict", "default": {}, "options": needs},
            "wait_seconds": {"type": "float", "default": 0},
            "details": {"type": "bool", "default": True},
            "most_users": {"type": "int", "default": 10},
            "nvml_library": {"type": "path"},
            "nvml_timeout_seconds": {"type": "float", "default": 60},
            "python_candidates": {"type": "list", "elements": "path", "default": PYTHON_CANDIDATES},
        },
        supports_check_mode=True,
    )
    node = Node(run=partial(answer_of, module.run_command))
    try:
        result = with_gpus(module.params, node.root, lambda gpus, problems: look(node, module.params, gpus, problems))
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
