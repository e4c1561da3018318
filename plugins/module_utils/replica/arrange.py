# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A replica of several nodes: what each of its members is started with, and what keeps them from being one. No I/O.

What the server does with these flags, in sglang/srt of the wheel of 0.5.23: arg_groups/validation_hook.py (the ranks
have to divide evenly), entrypoints/engine.py, _calculate_rank_ranges (which ranks live on which node),
arg_groups/pd_disaggregation_hook.py (prefill and decode).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import choices_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version

DEFAULT_MEETING_PORT = 20000
# The server's own (disaggregation_bootstrap_port of its arguments).
DEFAULT_BOOTSTRAP_PORT = 8998
WHOLE, PREFILL, DECODE = "null", "prefill", "decode"
MODES = (WHOLE, PREFILL, DECODE)
DEFAULT_BACKEND = "mooncake"
# Names of network interfaces for NCCL and for Gloo, which ranks meet over.
_INTERFACE_VARIABLES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


@dataclass(frozen=True)
class Member:
    """One node of a replica, or the one node of a server that only prefills or decodes.

    C(address) is the one in the subnet, C(interface) the name of the interface that has it; None where it is not known.
    C(gpus) is how many GPUs it has for the replica. C(settings) is what has to be the same on all members.
    """

    host: str
    instance: str = "main"
    release: str | None = None
    address: str | None = None
    interface: str | None = None
    gpus: int | None = None
    tensor: int = 1
    pipeline: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    meeting_port: int = DEFAULT_MEETING_PORT
    mode: str = WHOLE
    bootstrap_port: int = DEFAULT_BOOTSTRAP_PORT
    backend: str | None = None
    ib_device: str | None = None


@dataclass(frozen=True)
class Share:
    """What one member is started with beside what all of them are: flags without dashes, and environment."""

    host: str
    instance: str
    arguments: Mapping[str, Any]
    environment: Mapping[str, str]
    ranks: int


@dataclass(frozen=True)
class Trouble:
    """C(hosts) are those of which it is said."""

    code: str
    hosts: tuple[str, ...]
    variable: str | None
    found: str
    expected: str


def troubles_of(members: Sequence[Member], replica: str) -> list[Trouble]:
    """What keeps these members from being one replica; in the order of the inventory they are its nodes."""
    found = [*_twice(members, replica), *_different(members, replica), *_unreachable(members, replica)]
    for member in members:
        found += server_troubles(member)
    return [*found, *_indivisible(members, replica)]


def server_troubles(member: Member) -> list[Trouble]:
    """What is wrong with the part of one server that prefills or decodes."""
    if member.mode == WHOLE or member.backend is None or member.release is None:
        return []
    try:
        known = choices_of("disaggregation-transfer-backend", parse_version(member.release)) or ()
    except Refusal:
        return []  # that a release is not known is told where its ports are worked out
    variable = "sglang_disaggregation_transfer_backend"
    if member.backend not in known:
        wanted = f"one of {', '.join(known)}, as SGLang {member.release} has it"
        return [Trouble("disaggregation_impossible", (member.host,), variable, member.backend, wanted)]
    if member.mode == PREFILL and member.backend == "fake":
        return [
            Trouble("disaggregation_impossible", (member.host,), variable, "fake on a server that prefills", "another")
        ]
    return []


def pair_troubles(servers: Sequence[Member], name: str) -> list[Trouble]:
    """What keeps the servers of one model from handing prompts over: C(servers) are the first nodes of each."""
    by_mode = {mode: [one for one in servers if one.mode == mode] for mode in (PREFILL, DECODE)}
    found = []
    for mode, other in ((PREFILL, DECODE), (DECODE, PREFILL)):
        if by_mode[mode] and not by_mode[other]:
            hosts = tuple(one.host for one in by_mode[mode])
            said = f"servers of {name} that {mode}, and none that {'decode' if mode == PREFILL else 'prefill'}s"
            found.append(Trouble("disaggregation_alone", hosts, "sglang_disaggregation_mode", said, "both"))
    backends = sorted({one.backend or DEFAULT_BACKEND for mode in by_mode for one in by_mode[mode]})
    if len(backends) > 1:
        hosts = tuple(one.host for mode in by_mode for one in by_mode[mode])
        found.append(
            Trouble(
                "disaggregation_impossible",
                hosts,
                "sglang_disaggregation_transfer_backend",
                f"{', '.join(backends)} for servers of {name}",
                "one that all of them transfer with",
            )
        )
    return found


def _twice(members: Sequence[Member], replica: str) -> list[Trouble]:
    hosts: dict[str, int] = {}
    addresses: dict[str, list[str]] = {}
    for member in members:
        hosts[member.host] = hosts.get(member.host, 0) + 1
        if member.address is not None:
            addresses.setdefault(member.address, []).append(member.host)
    variable = "sglang_replica"
    return [
        *(
            Trouble("replica_member_twice", (host,), variable, f"{count} instances of {host} in {replica}", "one")
            for host, count in hosts.items()
            if count > 1
        ),
        *(
            Trouble("replica_member_twice", tuple(names), variable, f"{address} twice in {replica}", "one node each")
            for address, names in addresses.items()
            if len(set(names)) > 1
        ),
    ]


def _different(members: Sequence[Member], replica: str) -> list[Trouble]:
    releases = {member.release for member in members}
    names = tuple(member.host for member in members)
    found = []
    if len(releases) > 1:
        told = ", ".join(sorted(str(release) for release in releases))
        found.append(
            Trouble("replica_differs", names, "sglang_version", f"{told} in {replica}", "one release on all nodes")
        )
    shared = {"tensor_parallel_size": "tensor", "pipeline_parallel_size": "pipeline", "dist_init_port": "meeting_port"}
    settings = {
        **{name: [getattr(member, key) for member in members] for name, key in shared.items()},
        **{
            name: [member.settings.get(name) for member in members]
            for name in sorted({name for member in members for name in member.settings})
        },
    }
    for name, values in settings.items():
        different = {str(value) for value in values}
        if len(different) > 1:
            told = ", ".join(sorted(different))
            found.append(
                Trouble("replica_differs", names, f"sglang_{name}", f"{told} in {replica}", "the same on all nodes")
            )
    return found


def _unreachable(members: Sequence[Member], replica: str) -> list[Trouble]:
    if len(members) < 2:
        return []
    return [
        Trouble(
            "replica_without_address",
            (member.host,),
            "sglang_subnet",
            f"no address of {member.host} for its ranks to meet over, in {replica}",
            "one address in sglang_subnet",
        )
        for member in members
        if member.address is None
    ]


def _indivisible(members: Sequence[Member], replica: str) -> list[Trouble]:
    nodes, first = len(members), members[0]
    names = tuple(member.host for member in members)
    if not _divides(first.tensor, first.pipeline, nodes):
        return [
            Trouble(
                "replica_indivisible",
                names,
                "sglang_tensor_parallel_size",
                f"{first.tensor} x {first.pipeline} ranks (tensor x pipeline) on {nodes} nodes in {replica}",
                "stages that divide evenly over the nodes, or nodes over the stages and a stage's ranks over its nodes",
            )
        ]
    ranks = first.tensor * first.pipeline // nodes
    return [
        Trouble(
            "replica_indivisible",
            (member.host,),
            "sglang_tensor_parallel_size",
            f"{ranks} ranks for the {member.gpus} GPUs of {member.host} in {replica}",
            "no more ranks than GPUs on each node",
        )
        for member in members
        if member.gpus is not None and ranks > member.gpus
    ]


def _divides(tensor: int, pipeline: int, nodes: int) -> bool:
    """Whether each rank lives on one node, by the integer divisions of _calculate_rank_ranges."""
    if pipeline % nodes == 0:
        return True
    return nodes % pipeline == 0 and tensor % (nodes // pipeline) == 0


def shares_of(members: Sequence[Member]) -> list[Share]:
    """The first member is the one that all others meet at, and the only one that clients ask. C(members) have no
    troubles."""
    nodes, first = len(members), members[0]
    return [
        Share(
            member.host,
            member.instance,
            {**_together(first, nodes, rank), **_disaggregated(member)},
            dict.fromkeys(_INTERFACE_VARIABLES, member.interface) if nodes > 1 and member.interface else {},
            first.tensor * first.pipeline // nodes,
        )
        for rank, member in enumerate(members)
    ]


def _together(first: Member, nodes: int, rank: int) -> dict[str, Any]:
    if nodes == 1:
        return {}
    address = f"[{first.address}]" if ":" in str(first.address) else first.address
    return {"nnodes": nodes, "node-rank": rank, "dist-init-addr": f"{address}:{first.meeting_port}"}


def _disaggregated(member: Member) -> dict[str, Any]:
    if member.mode == WHOLE:
        return {}
    return {
        "disaggregation-mode": member.mode,
        # Servers that prefill bind it; those that decode are told of it by the router.
        **({"disaggregation-bootstrap-port": member.bootstrap_port} if member.mode == PREFILL else {}),
        **({"disaggregation-transfer-backend": member.backend} if member.backend else {}),
        **({"disaggregation-ib-device": member.ib_device} if member.ib_device else {}),
    }
