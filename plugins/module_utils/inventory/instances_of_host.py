# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The instances of one host, as its variables state them: what each asks for, and what two of them would both take.
No I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.arrange import Wish, meet
from ansible_collections.gpufleet.sglang.plugins.module_utils.instances.entries import entry_problems
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.findings import Finding, finding
from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import Host, Role
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.ports import HIGHEST, Ports

ROLE = "sglang"
# Of the node and not of one of its instances (roles/sglang/vars/main/names.yml).
OF_THE_NODE = ("sglang_instance", "sglang_instances", "sglang_instances_absent", "sglang_rollback_reason")
_INSTANCES = "sglang_instances"
_EVERYWHERE = "0.0.0.0"


@dataclass(frozen=True)
class Asked:
    """One instance of a host. What its entry does not say holds for all of them, or is the role's default."""

    name: str
    entry: Mapping[str, Any]
    host: Host
    options: Mapping[str, Mapping[str, Any]]

    def get(self, key: str) -> Any:
        if key in self.entry:
            return self.entry[key]
        name = f"{ROLE}_{key}"
        return self.host.variables.get(name, self.options.get(name, {}).get("default"))

    def whole(self, key: str) -> int | None:
        """A number, None where it is another thing, which the check of types tells."""
        value = self.get(key)
        if isinstance(value, bool) or not isinstance(value, (int, str)):
            return None
        return int(value) if str(value).isascii() and str(value).isdigit() else None

    def mapping(self, key: str) -> Mapping[str, Any]:
        value = self.get(key)
        return value if isinstance(value, Mapping) else {}

    @property
    def gpus(self) -> list[int]:
        value = self.get("gpus")
        return [gpu for gpu in value if isinstance(gpu, int)] if isinstance(value, (list, tuple)) else []


def asked_of(host: Host, role: Role) -> list[Asked]:
    entries = host.variables.get(_INSTANCES)
    if isinstance(entries, (list, tuple)) and entries:
        return [
            Asked(str(entry["instance"]), entry, host, role.options)
            for entry in entries
            if isinstance(entry, Mapping) and entry.get("instance") is not None
        ]
    return [Asked(str(host.variables.get("sglang_instance") or "main"), {}, host, role.options)]


def instance_findings(host: Host, role: Role, others: Sequence[tuple[str, int]] = ()) -> Iterator[Finding]:
    """C(others): ports that other services of this host take, each with the variable that says so."""
    entries = host.variables.get(_INSTANCES)
    if entries:
        for sentence in entry_problems(entries, role.options, f"{ROLE}_", OF_THE_NODE):
            said, _separator, wanted = sentence.partition("; ")
            wanted = wanted.removeprefix("expected ") or "what the role's variables take"
            yield finding("list_of_instances_wrong", [host.name], _INSTANCES, said, wanted)
    instances = asked_of(host, role)
    yield from _gpus(host, instances)
    yield from _ports(host, instances, others)


def _gpus(host: Host, instances: Sequence[Asked]) -> Iterator[Finding]:
    for one in instances:
        twice = sorted({gpu for gpu in one.gpus if one.gpus.count(gpu) > 1})
        if twice:
            yield finding(
                "instance_gpu_twice",
                [host.name],
                "sglang_gpus",
                f"{_gpu_words(twice)} twice in instance {one.name}",
                "each GPU once",
            )
    for one, other in combinations(instances, 2):
        shared = sorted(set(one.gpus) & set(other.gpus))
        if shared:
            yield finding(
                "instance_gpu_twice",
                [host.name],
                "sglang_gpus",
                f"{_gpu_words(shared)} in the instances {one.name} and {other.name}",
                "each GPU with one of them",
            )


def _gpu_words(gpus: Sequence[int]) -> str:
    return f"GPU {', '.join(str(gpu) for gpu in gpus)}"


def _ports(host: Host, instances: Sequence[Asked], others: Sequence[tuple[str, int]]) -> Iterator[Finding]:
    taken: list[tuple[str, str, Ports]] = [
        ("", variable, Ports(variable, port, port, _EVERYWHERE)) for variable, port in others
    ]
    for one in instances:
        try:
            claimed = _claimed(one)
        except Refusal as refusal:
            yield _refused(host, one, refusal)
            continue
        taken += [(one.name, ports.name, ports) for ports in claimed]
    for (owner, part, mine), (other_owner, other_part, theirs) in combinations(taken, 2):
        if owner == other_owner and owner:
            continue  # refused where its ports are worked out
        if meet(mine, theirs):
            first = max(mine.first, theirs.first)
            yield finding(
                "host_port_twice",
                [host.name],
                "sglang_port" if owner or other_owner else part,
                f"{first} for {_who(owner, part)} and for {_who(other_owner, other_part)}",
                "a port of its own for each",
            )


def _who(owner: str, part: str) -> str:
    return f"instance {owner} ({part})" if owner else part


def _claimed(one: Asked) -> list[Ports]:
    """Those of its ports that are all taken; none where it says nothing of its port, which is then chosen."""
    port, version = one.whole("port"), one.get("version")
    if port is None or version is None:
        return []
    extra = {**_flags(one), **one.mapping("extra_arguments")}
    address = one.get("host")
    wish = Wish(
        one.name,
        str(version),
        port,
        str(address) if address is not None else None,
        one.whole("attention_data_parallel_size") or 1,
        extra,
    )
    claimed = list(wish.ports(port))
    meeting = str(extra.get("dist-init-addr", extra.get("nccl-init-addr", ""))).rpartition(":")[2]
    # The first node of a replica binds it, the others only ask there.
    if meeting.isascii() and meeting.isdigit() and str(extra.get("node-rank", "0")) == "0":
        claimed.append(Ports("dist_init_addr", int(meeting), int(meeting), _EVERYWHERE))
        _refuse_meeting(claimed)
    return claimed


def _flags(one: Asked) -> dict[str, Any]:
    """Those of a replica and of a server that prefills that name ports. Where ranks meet is kept free on every node of
    a replica, so that any of them can be the first."""
    port, bootstrap = one.whole("dist_init_port"), one.whole("disaggregation_bootstrap_port")
    meets = one.get("replica") and port is not None
    binds = one.get("disaggregation_mode") == "prefill" and bootstrap is not None
    return {
        **({"dist-init-addr": f":{port}"} if meets else {}),
        **({"disaggregation-bootstrap-port": bootstrap} if binds else {}),
    }


def _refuse_meeting(claimed: Sequence[Ports]) -> None:
    meeting = claimed[-1]
    if not 1 <= meeting.first <= HIGHEST:
        raise Refusal(
            "port_out_of_range",
            f"dist-init-addr names port {meeting.first}.",
            f"Expected 1 to {HIGHEST}.",
            {"dist-init-addr": meeting.first},
        )
    for other in claimed[:-1]:
        if meet(meeting, other):
            raise Refusal(
                "ports_clash",
                f"dist-init-addr names port {meeting.first}, which {other.name} takes: two parts of one server cannot "
                "bind the same port.",
                "Give each a port of its own.",
                {"dist-init-addr": meeting.first, other.name: other.words},
            )


def _refused(host: Host, one: Asked, refusal: Refusal) -> Finding:
    code = {"ports_clash": "host_port_twice", "port_out_of_range": "host_port_impossible"}.get(refusal.code)
    if code is None:
        return finding(
            "variable_choice",
            [host.name],
            "sglang_version",
            refusal.message,
            "a release that the collection knows",
            refusal.remedy,
        )
    return finding(
        code,
        [host.name],
        "sglang_port",
        f"{refusal.message.rstrip('.')}, in instance {one.name}",
        f"ports of its own, 1 to {HIGHEST}",
        refusal.remedy,
    )


def service_ports(host: Host, roles: Sequence[Role], groups: frozenset[str]) -> list[tuple[str, int]]:
    """Ports of other roles on this host: those of the roles whose group it is in, and where a role has no group in this
    inventory (C(groups)), those that are stated for the host."""
    found: list[tuple[str, int]] = []
    for role in roles:
        if role.name == ROLE:
            continue
        for name, spec in role.options.items():
            if spec.get("type") != "int" or not name.endswith("_port"):
                continue
            value = host.variables.get(name, spec.get("default") if role.name in host.groups else None)
            meant = role.name in host.groups or role.name not in groups
            if meant and isinstance(value, int) and not isinstance(value, bool) and value > 0:
                found.append((name, value))
    return found
