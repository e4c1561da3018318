# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The TCP ports of one instance, so that they can be looked at before it starts and kept apart from another's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.port_versions import (
    BELOW_EPHEMERAL,
    DELTA,
    EPHEMERAL,
    NEAR,
    PortFacts,
)

HIGHEST = 65535
DEFAULT_PORT = 30000
LOOPBACK = "127.0.0.1"
# The kernel's default for net.ipv4.ip_local_port_range.
EPHEMERAL_RANGE = (32768, 60999)
BELOW_EPHEMERAL_RANGE = (22000, 29999)
# Flags that name a port of their own; those of the rank that joins others are no ports of this server.
FLAGS = (
    "nccl-port",
    "grpc-port",
    "grpc-http-sidecar-port",
    "smg-http-sidecar-port",
    "disaggregation-bootstrap-port",
    "encoder-bootstrap-port",
    "engine-info-bootstrap-port",
    "gated-launch-port",
)


@dataclass(frozen=True)
class Ports:
    """Ports C(first) to C(last). C(fixed): all of them are taken and have to be free, not any one."""

    name: str
    first: int
    last: int
    address: str
    fixed: bool = True

    @property
    def words(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first} to {self.last}"


def ports_of(
    facts: PortFacts, port: int | None, host: str | None, attention_dp: int, extra_arguments: Mapping[str, Any]
) -> tuple[Ports, ...]:
    """All ports of a server on one node; refuses those that do not exist or that two of its parts would take."""
    http = port or DEFAULT_PORT
    address = host or LOOPBACK
    found = [Ports("http", http, http, address)]
    if attention_dp > 1:
        found += _of_processes(facts, http, attention_dp)
    for flag in FLAGS:
        value = extra_arguments.get(flag)
        if value is not None:
            found.append(_of_flag(flag, value, address))
    if not any(one.name == "nccl_port" for one in found):
        found.append(_rendezvous(facts, http))
    _refuse_impossible(found, http)
    _refuse_clash(found)
    return tuple(found)


def _of_flag(flag: str, value: Any, address: str) -> Ports:
    text = str(value)
    if isinstance(value, bool) or not text.isascii() or not text.isdigit():
        raise Refusal(
            "port_out_of_range", f"{flag} is {value!r}.", f"Expected a port, 1 to {HIGHEST}.", {flag: str(value)}
        )
    return Ports(flag.replace("-", "_"), int(text), int(text), LOOPBACK if flag == "nccl-port" else address)


def _of_processes(facts: PortFacts, http: int, attention_dp: int) -> list[Ports]:
    """Where the processes of an instance talk to each other, instead of through files, under attention DP."""
    meeting = http + DELTA
    if facts.turns_back and meeting > HIGHEST:
        meeting = http - DELTA
    base = meeting + 1
    if facts.turns_back and meeting + facts.reserved > HIGHEST:
        base = meeting - facts.reserved - 1
    last = base + facts.fixed - 1 + (attention_dp if facts.per_rank else 0)
    return [
        Ports("dist_init", meeting, meeting, LOOPBACK),
        Ports("processes", base, last, LOOPBACK),
    ]


def _rendezvous(facts: PortFacts, http: int) -> Ports:
    """One port out of a range, taken when it is free, so that nobody has to keep it free."""
    first, last = {
        NEAR: (http + 100, http + 1000),
        EPHEMERAL: EPHEMERAL_RANGE,
        BELOW_EPHEMERAL: BELOW_EPHEMERAL_RANGE,
    }[facts.rendezvous]
    # Beyond the end the server counts down from it (in steps of 43).
    return Ports("nccl", min(first, HIGHEST), min(last, HIGHEST), LOOPBACK, fixed=False)


def _refuse_impossible(found: list[Ports], http: int) -> None:
    for one in found:
        if one.first >= 1 and one.last <= HIGHEST:
            continue
        largest = http - (one.last - HIGHEST)
        raise Refusal(
            "port_out_of_range",
            f"The server takes the ports {one.words} ({one.name}) beside server.port {http}.",
            f"Expected 1 to {HIGHEST}: set server.port to {largest} or less."
            if one.name in ("dist_init", "processes")
            else f"Expected 1 to {HIGHEST}.",
            {"server.port": http, "first": one.first, "last": one.last, "largest_port": largest},
        )


def _refuse_clash(found: list[Ports]) -> None:
    fixed = [one for one in found if one.fixed]
    for position, one in enumerate(fixed):
        for other in fixed[position + 1 :]:
            if one.first > other.last or other.first > one.last:
                continue
            raise Refusal(
                "ports_clash",
                f"{one.name} takes {one.words} and {other.name} takes {other.words}: two parts of one server cannot "
                "bind the same port.",
                "Give each a port of its own.",
                {one.name: one.words, other.name: other.words},
            )


def port_problems(facts: PortFacts, ports: tuple[Ports, ...]) -> list[Problem]:
    """Fixed ports that lie where ports are handed out at random may be taken when the server starts again."""
    ranges = {"the kernel hands out to any client": EPHEMERAL_RANGE}
    if facts.rendezvous == BELOW_EPHEMERAL:
        ranges["this release takes the ports of its collectives from"] = BELOW_EPHEMERAL_RANGE
    problems = []
    for one in ports:
        for who, (first, last) in ranges.items():
            if not one.fixed or one.last < first or one.first > last:
                continue
            problems.append(
                Problem(
                    "port_handed_out",
                    "info",
                    f"{one.name} takes {one.words}, among the ports {first} to {last} that {who}: another process may "
                    "hold it when the server starts.",
                    "Choose a port outside, such as 30000, or add it to net.ipv4.ip_local_reserved_ports."
                    if first == EPHEMERAL_RANGE[0]
                    else "Choose a port outside, such as 30000.",
                )
            )
    return problems


def ports_as_dict(ports: tuple[Ports, ...], fixed: bool) -> dict[str, dict[str, Any]]:
    """Those that are all taken, or those of which any one is."""
    return {
        one.name: {"first": one.first, "last": one.last, "address": one.address} for one in ports if one.fixed == fixed
    }
