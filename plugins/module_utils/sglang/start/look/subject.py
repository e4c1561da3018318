# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is looked at: a unit, a container, or a unit that runs a container."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.container import (
    Container,
    inspect_command,
    missing_container,
    parse_group,
    parse_inspect,
    unit_of_container,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.ranks import (
    descendants,
    pids_of_group,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.unit import read_unit
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus

# A unit's state is asked for again after so long even if nothing on the node hints at a change; a container's costs
# ten times as much.
UNIT_SECONDS = 5.0
CONTAINER_SECONDS = 15.0


@dataclass(frozen=True)
class Subject:
    """C(unit) or C(container_name) or both. C(engine): podman or docker, None without a container."""

    unit: str | None
    engine: str | None = None
    container_name: str | None = None

    @property
    def again_seconds(self) -> float:
        return UNIT_SECONDS if self.unit else CONTAINER_SECONDS


@dataclass(frozen=True)
class Seen:
    """C(group): the control group that holds the server; of a container, its own."""

    status: UnitStatus
    container: Container | None = None
    group: str | None = None

    @property
    def start(self) -> str | None:
        return self.status.invocation_id

    @property
    def main_pid(self) -> int | None:
        """The server's first process; of a unit that runs a container that of the container."""
        return (self.container.pid if self.container else None) or self.status.main_pid


def _read_container(node: Node, engine: str, name: str) -> Container | None:
    code, output, errors = node.run(inspect_command(engine, name))
    if code == 0:
        return parse_inspect(output)
    if "no such container" in errors.lower():
        return None
    raise Refusal(
        "container_engine_failed",
        f"`{engine} container inspect {name}` failed: {errors.strip() or output.strip() or code}.",
        f"The node needs {engine}, and the user of this task has to be allowed to ask it.",
        {"returncode": code},
    )


def read_subject(node: Node, subject: Subject) -> Seen:
    container = None
    group = None
    if subject.engine and subject.container_name:
        container = _read_container(node, subject.engine, subject.container_name)
        if container is not None and container.pid:
            group = parse_group(node.text(f"proc/{container.pid}/cgroup") or "")
    if subject.unit:
        status = read_unit(node, subject.unit)
        return Seen(status, container, group or status.control_group)
    name = subject.container_name or ""
    if container is None:
        return Seen(missing_container(name))
    return Seen(unit_of_container(name, container, group, node.wall(), node.uptime()), container, group)


def read_pids(node: Node, seen: Seen) -> list[int]:
    """All living processes: those of the unit's control group, and those of its container wherever they are."""
    pids = set(pids_of_group(node, seen.status.control_group))
    if seen.container is not None and seen.container.pid:
        if seen.group != seen.status.control_group:
            pids.update(pids_of_group(node, seen.group))
        if seen.container.pid not in pids:
            pids.update(descendants(node, seen.container.pid))
    return sorted(pids)
