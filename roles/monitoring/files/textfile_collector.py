# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan, ledger and what is in force of each SGLang instance of this node, for node_exporter's textfile collector.

A timer runs it: a play that wrote the file could not tell what the ranks hold an hour later, nor that systemd has
started the server anew since. It only reads, and knows instances by what the role sglang keeps for them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

PREFIX = "gpufleet_sglang_"
COUNTER, GAUGE = "counter", "gauge"
STATES = ("active", "activating", "deactivating", "failed", "inactive", "reloading")
PROPERTIES = "Id,ActiveState,NRestarts,InvocationID,MainPID,ExecMainStartTimestamp,FragmentPath"
# Where each way to allocate shows in /proc/PID/status; memory of the driver shows nowhere (startup_status_info).
METERS = {"shmem": "RssShmem", "anon": "RssAnon", "hugetlb": "HugetlbPages"}
# Of /proc/meminfo: what is somebody's. Cached has the shared memory in it; what a driver holds is in none of them.
ACCOUNTED = ("MemFree", "Buffers", "Cached", "SwapCached", "Slab", "AnonPages", "KernelStack", "PageTables", "Percpu")

_GENERATION = re.compile(rb"GPUFLEET_GENERATION=([0-9a-f]+)")
_KILOBYTES = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)
# managers/scheduler.py (setproctitle): the spaces of a rank's name are underscores.
_PART = r"(?:ATTN_CP|MOE_DP|DP|PP|TP|EP)\d{1,6}"
_RANK = re.compile(rf"sglang::scheduler((?:_{_PART})*)\s*")
_UNIT = re.compile(r"/sglang-([A-Za-z0-9][A-Za-z0-9_.-]*)\.service(?:/|$)", re.MULTILINE)


class Family(NamedTuple):
    kind: str
    text: str


FAMILIES: dict[str, Family] = {
    PREFIX + "info": Family(GAUGE, "Model, release of SGLang and generation that were proven last; always 1."),
    PREFIX + "ledger_readable": Family(GAUGE, "Whether there is a ledger that can be read."),
    PREFIX + "planned_host_bytes": Family(GAUGE, "Host memory that all ranks together pin by the plan."),
    PREFIX + "planned_pool_bytes": Family(GAUGE, "Of it one host pool of one rank."),
    PREFIX + "planned_numa_bytes": Family(GAUGE, "Of it what lies on one NUMA node."),
    PREFIX + "planned_reserve_bytes": Family(GAUGE, "Host memory that has to stay available by the plan."),
    PREFIX + "planned_device_tokens": Family(GAUGE, "Tokens of the KV cache on the device by the plan."),
    PREFIX + "planned_host_tokens": Family(GAUGE, "Tokens of the host tier of a rank by the plan."),
    PREFIX + "planned_ranks": Family(GAUGE, "Ranks by the plan."),
    PREFIX + "planned_start_seconds": Family(GAUGE, "Time that a start takes by the plan."),
    PREFIX + "planned_start_limit_seconds": Family(GAUGE, "Time after which a start counts as failed."),
    PREFIX + "ledger_pinned_bytes": Family(GAUGE, "Host memory that a rank had pinned when it was proven."),
    PREFIX + "ledger_device_tokens": Family(GAUGE, "Tokens of the device that the server told when it was proven."),
    PREFIX + "ledger_host_tokens": Family(GAUGE, "Tokens of the host tier that it told when it was proven."),
    PREFIX + "ledger_start_seconds": Family(GAUGE, "Time that the proven start took."),
    PREFIX + "ledger_stage_seconds": Family(GAUGE, "Of it one stage."),
    PREFIX + "gate_check_passed": Family(GAUGE, "Whether a check of the last gate passed."),
    PREFIX + "gate_timestamp_seconds": Family(GAUGE, "When the last gate was passed."),
    PREFIX + "proven": Family(GAUGE, "Whether the start that runs is the one that the ledger proves."),
    PREFIX + "declared_in_force": Family(GAUGE, "Whether it runs by the files that lie there now."),
    PREFIX + "unit_state": Family(GAUGE, "1 for the state that systemd has for the unit, 0 for the others."),
    PREFIX + "unit_restarts_total": Family(COUNTER, "Restarts by systemd since somebody started the unit."),
    PREFIX + "unit_start_timestamp_seconds": Family(GAUGE, "When the process that runs was started."),
    PREFIX + "ranks": Family(GAUGE, "Ranks that run."),
    PREFIX + "rank_pinned_bytes": Family(GAUGE, "Host memory that a rank has pinned now."),
    PREFIX + "rank_private_bytes": Family(GAUGE, "Private memory of a rank (RssAnon)."),
    PREFIX + "rank_shared_bytes": Family(GAUGE, "Shared memory of a rank (RssShmem)."),
    "gpufleet_host_stray_rank_bytes": Family(GAUGE, "Memory of ranks that are in no unit of an instance."),
    "gpufleet_host_unmapped_shmem_bytes": Family(GAUGE, "Shared memory that no process has mapped, files included."),
    "gpufleet_host_unaccounted_bytes": Family(GAUGE, "Memory in use that the kernel books as nobody's: a driver's."),
    "gpufleet_textfile_duration_seconds": Family(GAUGE, "Time that it took to put this together."),
}


class Sample(NamedTuple):
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


def sample(name: str, value: object, **labels: object) -> Iterator[Sample]:
    """Nothing where there is no number."""
    if isinstance(value, (bool, int, float)):
        yield Sample(name, tuple((key, str(one)) for key, one in labels.items()), float(value))


def quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def exposition(samples: Iterable[Sample]) -> str:
    """Prometheus' text format, each family in one piece."""
    found = list(samples)
    lines: list[str] = []
    for name, family in FAMILIES.items():
        rows = [one for one in found if one.name == name]
        if rows:
            lines += [f"# HELP {name} {family.text}", f"# TYPE {name} {family.kind}"]
        for one in rows:
            labels = ",".join(f'{key}="{quoted(value)}"' for key, value in one.labels)
            lines.append(f"{name}{'{' + labels + '}' if labels else ''} {one.value:.15g}")
    return "".join(f"{line}\n" for line in lines)


class Rank(NamedTuple):
    """C(unit) is the instance in whose unit it runs, None outside of any."""

    rank: str
    unit: str | None
    memory: Mapping[str, int]


def kilobytes(text: str) -> dict[str, int]:
    """Sizes of /proc/meminfo and /proc/PID/status in bytes."""
    return {name: int(number) * 1024 for name, number in _KILOBYTES.findall(text)}


def data(path: Path) -> bytes:
    """What is gone, or closed, is empty: processes end while they are read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def text(path: Path) -> str:
    return data(path).decode("utf-8", "replace")


def rank_of(cmdline: bytes) -> str | None:
    """C(sglang::scheduler_DP0_TP1) -> C(DP0 TP1); C(sglang::scheduler) -> C(TP0); None for any other process."""
    found = _RANK.fullmatch(cmdline.replace(b"\0", b" ").decode("utf-8", "replace"))
    return (" ".join(re.findall(_PART, found[1])) or "TP0") if found else None


class Processes(NamedTuple):
    ranks: list[Rank]
    mapped_shmem_bytes: int


def processes(proc: Path) -> Processes:
    ranks, mapped = [], 0
    for folder in proc.glob("[0-9]*"):
        memory = kilobytes(text(folder / "status"))
        mapped += memory.get("RssShmem", 0)
        rank = rank_of(data(folder / "cmdline"))
        # A kernel thread and a zombie have no memory.
        if rank is not None and "VmRSS" in memory:
            unit = _UNIT.search(text(folder / "cgroup"))
            ranks.append(Rank(rank, unit[1] if unit else None, memory))
    return Processes(sorted(ranks, key=lambda one: one.rank), mapped)


def units(names: Sequence[str]) -> dict[str, dict[str, str]]:
    """What systemd says of the unit of each instance."""
    if not names:
        return {}
    words = ["systemctl", "show", "--timestamp=unix", f"--property={PROPERTIES}"]
    done = subprocess.run(
        [*words, *(f"sglang-{name}.service" for name in names)], capture_output=True, text=True, check=True, timeout=30
    )
    blocks = [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in done.stdout.split("\n\n")
    ]
    return {block["Id"][len("sglang-") : -len(".service")]: block for block in blocks if "Id" in block}


def of_plan(name: str, plan: Mapping[str, Any], known: Sequence[str]) -> Iterator[Sample]:
    """C(known) are the names of the ranks, in the plan's order, where they have started."""
    host, device = plan.get("host") or {}, plan.get("device") or {}
    unit, timing = plan.get("unit") or {}, plan.get("timing") or {}
    pinned = host.get("bytes_total") if host.get("enabled") else 0
    yield from sample(PREFIX + "planned_host_bytes", pinned, sglang_instance=name)
    count, stages = host.get("ranks") or 0, host.get("stages") or []
    ranks = known if len(known) == count else [str(number) for number in range(count)]
    # The pools of ranks differ where pipeline stages do; then only the sum of a rank is known.
    rows = [(pool.get("kind"), pool.get("bytes_per_rank"), range(count)) for pool in host.get("pools") or []]
    if len(stages) > 1:
        rows = [("all", stage.get("bytes_per_rank"), stage.get("ranks") or []) for stage in stages]
    for pool, size, numbers in rows if host.get("enabled") else ():
        for number in numbers:
            labels = {"sglang_instance": name, "pool": pool, "rank": ranks[number]}
            yield from sample(PREFIX + "planned_pool_bytes", size, **labels)
    for node in host.get("numa") or []:
        labels = {"sglang_instance": name, "numa_node": node.get("node")}
        yield from sample(PREFIX + "planned_numa_bytes", node.get("pinned_bytes"), **labels)
    for metric, value in (
        ("planned_reserve_bytes", host.get("reserve_bytes")),
        ("planned_device_tokens", device.get("max_total_num_tokens")),
        ("planned_host_tokens", host.get("tokens") if host.get("enabled") else 0),
        ("planned_ranks", host.get("ranks")),
        ("planned_start_seconds", timing.get("start_seconds")),
        ("planned_start_limit_seconds", unit.get("timeout_start_seconds")),
    ):
        yield from sample(PREFIX + metric, value, sglang_instance=name)


def of_ledger(name: str, ledger: Mapping[str, Any], written: float) -> Iterator[Sample]:
    plan, startup, proof = (ledger.get(part) or {} for part in ("plan", "startup", "proof"))
    arguments = plan.get("arguments") or {}
    known = {
        "model": arguments.get("served-model-name") or arguments.get("model-path") or "",
        "sglang_version": ledger.get("sglang_version") or "",
        "generation": str(ledger.get("generation") or "")[:12],
    }
    yield from sample(PREFIX + "info", 1, sglang_instance=name, **known)
    ranks = startup.get("ranks") or []
    yield from of_plan(name, plan, [str(rank.get("rank")) for rank in ranks])
    for rank in ranks:
        labels = {"sglang_instance": name, "rank": rank.get("rank")}
        yield from sample(PREFIX + "ledger_pinned_bytes", rank.get("pinned_bytes"), **labels)
    for metric, value in (
        ("ledger_device_tokens", startup.get("max_total_num_tokens")),
        ("ledger_host_tokens", startup.get("host_tokens")),
        ("ledger_start_seconds", (startup.get("figures") or {}).get("start_seconds") or startup.get("elapsed_seconds")),
        ("gate_timestamp_seconds", written),
    ):
        yield from sample(PREFIX + metric, value, sglang_instance=name)
    for stage in startup.get("stages") or []:
        labels = {"sglang_instance": name, "stage": stage.get("stage")}
        yield from sample(PREFIX + "ledger_stage_seconds", stage.get("seconds"), **labels)
    # A check that is asked of each rank passed if it passed for all.
    passed: dict[str, bool] = {}
    for check in proof.get("checks") or []:
        if isinstance(check.get("ok"), bool):
            passed[check["name"]] = passed.get(check["name"], True) and check["ok"]
    for check_name, ok in passed.items():
        yield from sample(PREFIX + "gate_check_passed", ok, sglang_instance=name, check=check_name)


def generation(content: bytes) -> bytes | None:
    found = _GENERATION.search(content)
    return found[1] if found else None


def of_unit(name: str, unit: Mapping[str, str], ledger: Mapping[str, Any], root: Path) -> Iterator[Sample]:
    state = unit.get("ActiveState", "inactive")
    for one in STATES:
        yield from sample(PREFIX + "unit_state", state == one, sglang_instance=name, state=one)
    restarts = unit.get("NRestarts", "")
    yield from sample(
        PREFIX + "unit_restarts_total", int(restarts) if restarts.isdigit() else None, sglang_instance=name
    )
    running = unit.get("MainPID", "0") != "0"
    checks = (ledger.get("proof") or {}).get("checks") or []
    proven = running and ledger.get("invocation_id") == unit.get("InvocationID") and bool(checks)
    # One that has left its routers for a restart is not proven any more (roles/sglang/tasks/leave.yml).
    proven = proven and all(check.get("ok") is not False for check in checks) and not ledger.get("left_routers")
    yield from sample(PREFIX + "proven", proven, sglang_instance=name)
    if not running:
        return
    started = unit.get("ExecMainStartTimestamp", "").lstrip("@")
    yield from sample(
        PREFIX + "unit_start_timestamp_seconds", int(started) if started.isdigit() else None, sglang_instance=name
    )
    declared = generation(data(root / unit.get("FragmentPath", "").lstrip("/")))
    in_force = generation(data(root / "proc" / unit["MainPID"] / "environ"))
    if declared and in_force:
        yield from sample(PREFIX + "declared_in_force", declared == in_force, sglang_instance=name)


def of_ranks(name: str, ledger: Mapping[str, Any], ranks: Sequence[Rank]) -> Iterator[Sample]:
    yield from sample(PREFIX + "ranks", len(ranks), sglang_instance=name)
    plan = (ledger.get("plan") or {}).get("host") or {}
    meter = METERS.get((ledger.get("startup") or {}).get("meter") or plan.get("meter") or "shmem")
    for one in ranks:
        labels = {"sglang_instance": name, "rank": one.rank}
        for metric, value in (
            ("rank_pinned_bytes", one.memory.get(meter) if meter and plan.get("enabled", True) else None),
            ("rank_private_bytes", one.memory.get("RssAnon")),
            ("rank_shared_bytes", one.memory.get("RssShmem")),
        ):
            yield from sample(PREFIX + metric, value, **labels)


def of_host(found: Processes, memory: Mapping[str, int]) -> Iterator[Sample]:
    stray = sum(one.memory["VmRSS"] for one in found.ranks if one.unit is None)
    yield from sample("gpufleet_host_stray_rank_bytes", stray)
    if "MemTotal" in memory:
        unmapped = max(0, memory.get("Shmem", 0) - found.mapped_shmem_bytes)
        accounted = sum(memory.get(part, 0) for part in ACCOUNTED) + memory.get("Hugetlb", 0)
        yield from sample("gpufleet_host_unmapped_shmem_bytes", unmapped)
        yield from sample("gpufleet_host_unaccounted_bytes", max(0, memory["MemTotal"] - accounted))


def read_ledger(path: Path) -> tuple[dict[str, Any], float] | None:
    """(the ledger, when it was written)"""
    try:
        written = path.stat().st_mtime
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return (found, written) if isinstance(found, dict) else None


def collect(root: Path, config_root: str, state_root: str) -> Iterator[Sample]:
    began = time.monotonic()
    ending = ".reserved.json"
    names = sorted(path.name[: -len(ending)] for path in (root / config_root.lstrip("/")).glob(f"*{ending}"))
    found = processes(root / "proc")
    shown = units(names)
    for name in names:
        read = read_ledger(root / state_root.lstrip("/") / name / "ledger.json")
        yield from sample(PREFIX + "ledger_readable", read is not None, sglang_instance=name)
        ledger, written = read or ({}, 0.0)
        if read is not None:
            yield from of_ledger(name, ledger, written)
        yield from of_unit(name, shown.get(name, {}), ledger, root)
        yield from of_ranks(name, ledger, [one for one in found.ranks if one.unit == name])
    yield from of_host(found, kilobytes(text(root / "proc/meminfo")))
    yield from sample("gpufleet_textfile_duration_seconds", time.monotonic() - began)


def write(path: Path, content: str) -> None:
    """As a whole or not at all; node_exporter reads no name that does not end with .prom."""
    half = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        half.write_text(content, encoding="utf-8")
        half.chmod(0o644)
        half.replace(path)
    finally:
        half.unlink(missing_ok=True)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="a file that ends with .prom")
    parser.add_argument("--config-root", default="/etc/sglang")
    parser.add_argument("--state-root", default="/var/lib/sglang")
    parser.add_argument("--root", type=Path, default=Path("/"), help="folder above /proc, /sys and the rest")
    asked = parser.parse_args(arguments)
    write(asked.output, exposition(collect(asked.root, asked.config_root, asked.state_root)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
