# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a scenario says, checked and with its defaults. See README.md for the meaning of each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

NOISE_KINDS = ("plain", "json", "bracketed", "multi_line", "binary", "long")
MEMORY_KINDS = ("shared", "private", "driver", "hugetlb")
MAIN_POINTS = ("boot", "ranks", "listen", "warm_up", "ready", "serve")
RANK_POINTS = ("distributed", "load", "device_pool", "capture", "capacity", "host_pool", "attached", "done")
STEPS = (
    "say",
    "raw",
    "bytes",
    "sleep",
    "spin",
    "hang",
    "read",
    "allocate",
    "eat",
    "crash",
    "exit",
    "signal",
    "bus_error",
    "kill",
    "ignore",
    "noise",
    "listen",
    # Not for scenarios: what the start itself is made of.
    "pools",
    "stagger",
    "ready_for_requests",
    "report",
    "await_ranks",
    "serve",
    "http",
)
SECONDS = {"boot": 0.3, "load": 0.2, "device_pool": 0.1, "capture": 0.2, "register": 0.1, "warm_up": 0.3}
MEMORY_GIB = {"before_load": 79.1, "weights": 14.98, "pool": 50.0, "capture": 2.5}
HTTP = {
    "listen": "listen",
    "health": "real",
    "health_seconds": 1.0,
    "device_tokens": None,
    "host_tokens": None,
    "hang_after_requests": None,
    "fail_after_requests": None,
    "request_seconds": 0.0,
    "metrics": True,
    "gauge_after_requests": 0,
    "tells_source": True,
    "stores_on_host": True,
    "spoils_host": False,
    "remembers_everything": False,
    "chat": True,
    "generates": True,
    "api_key": None,
    "admin_api_key": None,
    "served_model_name": None,
    "accept_length": None,
}

Step = Mapping[str, Any]


class ScenarioError(ValueError):
    """A scenario that cannot be played, with what is wrong with it."""


@dataclass(frozen=True)
class HostPool:
    """C(speeds) and C(pauses) are (share of the bytes, GB a second or seconds)."""

    bytes: int
    label: str = "kv"
    tokens: int = 0
    memory: str = "shared"
    gb_per_second: float = 1.0
    speeds: tuple[tuple[float, float], ...] = ()
    pauses: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class Fault:
    """Steps beside those of the start. C(rank) None: whoever has the point."""

    where: str
    point: str
    steps: tuple[Step, ...]
    rank: str | None = None
    share: float = 0.0


@dataclass(frozen=True)
class Scenario:
    """One start, as it is to be played."""

    release: str
    ranks: tuple[str, ...] = ("TP0",)
    device: str = "cuda"
    host: str = "127.0.0.1"
    port: int = 30000
    model: Mapping[str, Any] = field(default_factory=dict)
    mem_fraction_static: float = 0.85
    capacity_tokens: int = 8192
    memory_gib: Mapping[str, float] = field(default_factory=lambda: MEMORY_GIB)
    seconds: Mapping[str, float] = field(default_factory=lambda: SECONDS)
    stagger_seconds: float = 0.0
    host_pools: tuple[HostPool, ...] = ()
    rank_changes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    reads_bytes: int = 0
    rank_watch: bool = True
    stop_seconds: float = 0.0
    faults: tuple[Fault, ...] = ()
    noise: tuple[Mapping[str, Any], ...] = ()
    http: Mapping[str, Any] = field(default_factory=lambda: HTTP)
    steps: Mapping[str, tuple[Step, ...]] = field(default_factory=dict)
    # What the main process prints and /server_info answers, by the release's own names.
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def version(self) -> tuple[int, ...]:
        return version_of(self.release)

    def pools_of(self, rank: str) -> tuple[HostPool, ...]:
        """The host pools of a rank, with what is otherwise with this one."""
        changes = {name: value for name, value in self.rank_changes.get(rank, {}).items() if name != "delay_seconds"}
        return tuple(pool_from({**_pool_as_dict(pool), **changes}, self.release) for pool in self.host_pools)


def version_of(release: str) -> tuple[int, ...]:
    """C(0.5.9.post1) -> (0, 5, 9)."""
    parts: list[int] = []
    for part in release.split(".")[:3]:
        digits = "".join(character for character in part.split("rc")[0] if character.isdigit())
        if not digits:
            raise ScenarioError(f"release is '{release}'; expected a number such as 0.5.23")
        parts.append(int(digits))
    return tuple(parts)


def default_memory(release: str) -> str:
    """Where the release's pinned memory shows (mem_cache/memory_pool_host.py, mem_cache/pool_host/common.py)."""
    version = version_of(release)
    if version >= (0, 5, 13):
        return "shared"
    return "private" if version >= (0, 5, 5) else "driver"


def _unknown(what: str, given: Mapping[str, Any], known: Sequence[str]) -> None:
    strangers = sorted(set(given) - set(known))
    if strangers:
        raise ScenarioError(f"{what} has {', '.join(strangers)}; known are {', '.join(known)}")


def _pairs(values: Any) -> tuple[tuple[float, float], ...]:
    return tuple((float(share), float(number)) for share, number in values or ())


def _noise(given: Mapping[str, Any]) -> Mapping[str, Any]:
    kind = given.get("kind", "plain")
    if kind not in NOISE_KINDS:
        raise ScenarioError(f"noise is of the kind '{kind}'; known are {', '.join(NOISE_KINDS)}")
    return given


def _pool_as_dict(pool: HostPool) -> dict[str, Any]:
    return {name: getattr(pool, name) for name in HostPool.__dataclass_fields__}


def pool_from(given: Mapping[str, Any], release: str) -> HostPool:
    _unknown("a host pool", given, tuple(HostPool.__dataclass_fields__))
    memory = given.get("memory") or default_memory(release)
    if memory not in MEMORY_KINDS:
        raise ScenarioError(f"memory is '{memory}'; known are {', '.join(MEMORY_KINDS)}")
    return HostPool(
        bytes=int(given["bytes"]),
        label=str(given.get("label", "kv")),
        tokens=int(given.get("tokens") or 0),
        memory=memory,
        gb_per_second=float(given.get("gb_per_second", 1.0)),
        speeds=_pairs(given.get("speeds")),
        pauses=_pairs(given.get("pauses")),
    )


def steps_from(given: Any) -> tuple[Step, ...]:
    for step in given:
        if not isinstance(step, Mapping) or len(step) != 1 or next(iter(step)) not in STEPS:
            raise ScenarioError(f"a step is {step!r}; expected one of {', '.join(STEPS)} with its value")
    return tuple(given)


def fault_from(given: Mapping[str, Any]) -> Fault:
    _unknown("a fault", given, ("before", "after", "within", "share", "rank", "do"))
    places = [name for name in ("before", "after", "within") if name in given]
    if len(places) != 1:
        raise ScenarioError(f"a fault has {' and '.join(places) or 'no place'}; expected one of before, after, within")
    where, point = places[0], str(given[places[0]])
    known = ("host_pool",) if where == "within" else (*MAIN_POINTS, *RANK_POINTS)
    if point not in known:
        raise ScenarioError(f"a fault is {where} {point}; known points are {', '.join(known)}")
    return Fault(where, point, steps_from(given["do"]), given.get("rank"), float(given.get("share", 0.0)))


def rank_names(given: Any) -> tuple[str, ...]:
    if isinstance(given, int):
        return tuple(f"TP{index}" for index in range(given))
    return tuple(str(name) for name in given)


def scenario_from(given: Mapping[str, Any]) -> Scenario:
    """Raises C(ScenarioError) with what is wrong."""
    _unknown("the scenario", given, tuple(Scenario.__dataclass_fields__))
    if "release" not in given:
        raise ScenarioError("the scenario has no release")
    release = str(given["release"])
    version_of(release)
    http = dict(given.get("http") or {})
    _unknown("http", http, tuple(HTTP))
    for name, known in (("seconds", SECONDS), ("memory_gib", MEMORY_GIB)):
        _unknown(name, given.get(name) or {}, tuple(known))
    ranks = rank_names(given.get("ranks", 1))
    changes = given.get("rank_changes") or {}
    _unknown("rank_changes", changes, ranks)
    return Scenario(
        release=release,
        ranks=ranks,
        device=str(given.get("device", "cuda")),
        host=str(given.get("host", "127.0.0.1")),
        port=int(given.get("port", 30000)),
        model={
            "name": "scripted-model",
            "type": "LlamaForCausalLM",
            "context_tokens": 8192,
            **(given.get("model") or {}),
        },
        mem_fraction_static=float(given.get("mem_fraction_static", 0.85)),
        capacity_tokens=int(given.get("capacity_tokens", 8192)),
        memory_gib={**MEMORY_GIB, **(given.get("memory_gib") or {})},
        seconds={**SECONDS, **(given.get("seconds") or {})},
        stagger_seconds=float(given.get("stagger_seconds", 0.0)),
        host_pools=tuple(pool_from(pool, release) for pool in given.get("host_pools") or ()),
        rank_changes=changes,
        reads_bytes=int(given.get("reads_bytes", 0)),
        rank_watch=bool(given.get("rank_watch", True)),
        stop_seconds=float(given.get("stop_seconds", 0.0)),
        faults=tuple(fault_from(fault) for fault in given.get("faults") or ()),
        noise=tuple(_noise(entry) for entry in given.get("noise") or ()),
        http={**HTTP, **http},
        steps={who: steps_from(steps) for who, steps in (given.get("steps") or {}).items()},
        arguments=given.get("arguments") or {},
    )
