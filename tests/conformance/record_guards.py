# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask an unmodified SGLang, in as many processes as there are ranks, which orders of arrival its check lets pass.

Run with the Python of an environment that holds the release (or its unpacked files first on PYTHONPATH) and with the
folder above ansible_collections on PYTHONPATH:

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_guards --wheel sglang-0.5.23-....whl

The check is SGLang's own: HostKVCache and MambaPoolHost size themselves, ask for their memory and raise what they
raise, auto_size_hicache takes its snapshot and reduces it over a real process group (gloo). Each rank is a process.
Replaced is what they measure, psutil.virtual_memory and the files of a control group, and what they populate, which is
a tensor of no bytes whose size is taken off the measure instead. Both wait for their turn: a rank that is about to read
what is available, or to populate a pool, says so and goes on when the order that is played comes to it.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import importlib.util
import json
import logging
import multiprocessing
import sys
import tempfile
import types
import zipfile
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.guard import Claim, ClaimingRanks, guard_need
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.tests.conformance.guard_cases import (
    AUTO_AVAILABLE,
    AUTO_SHAPES,
    FRACTIONS,
    KV,
    RATIO,
    SHAPES,
    WITH_STATES,
    GuardCase,
    PoolCase,
    at,
    groups_around,
    interleavings,
)
from ansible_collections.gpufleet.sglang.tests.conformance.sglang_environment import (
    KernelStandIn,
    declare_torchvision_operators,
    srt,
)

HERE = Path(__file__).resolve().parent
# The files whose answers are recorded; they must be those of the wheel.
ANSWERING = (
    "mem_cache/memory_pool_host.py",
    "mem_cache/pool_host/base.py",
    "mem_cache/pool_host/mamba.py",
    "mem_cache/host_memory.py",
    "mem_cache/hicache_auto_size.py",
)
READ, POPULATE, SERVED, REFUSED, FAILED = "read", "populate", "served", "refused", "failed"


class Stopped(Exception):
    """The order that is played ended with another rank."""


def host_classes() -> tuple[Any, Any]:
    """The classes that hold the check: of pools of tokens, and of states (None where there is none)."""
    try:
        base = srt("mem_cache.pool_host.base").HostKVCache
        return base, srt("mem_cache.pool_host.mamba").MambaPoolHost
    except ModuleNotFoundError:
        module = srt("mem_cache.memory_pool_host")
        return module.HostKVCache, getattr(module, "MambaPoolHost", None)


def turn(pipe: Connection, action: str, value: int = 0) -> int:
    pipe.send((action, value))
    answer = pipe.recv()
    if answer is None:
        raise Stopped
    return int(answer)


def build(pool: PoolCase, ratio: float, pipe: Connection) -> None:
    """One host pool by SGLang's own constructor; what it would populate is told instead."""
    tokens, states = host_classes()
    base = tokens if pool.kind == KV else states

    def get_size_per_token(_self: Any) -> int:
        return pool.bytes_per_slot

    def init_kv_buffer(self: Any) -> Any:
        turn(pipe, POPULATE, self.size * self.size_per_token)
        return torch.empty(0)

    def nothing(*_arguments: Any, **_rest: Any) -> None:
        """What comes after the pool is there, and wants a GPU."""

    after = {*base.__abstractmethods__, "_configure_npu_mamba_io", "_init_write_back_staging_buffers", "destroy"}
    own = {"get_size_per_token": get_size_per_token, "init_kv_buffer": init_kv_buffer}
    kind: Any = type("Recorded", (base,), {**dict.fromkeys(after, nothing), **own})
    device = types.SimpleNamespace(
        store_dtype=torch.uint8, size=pool.slots, start_layer=0, end_layer=1, device="cpu", layer_num=1
    )
    kind.layer_num = kind.target_layer_num = 1
    common = {"host_to_device_ratio": ratio, "host_size": 0, "pin_memory": False, "device": "cpu"}
    if pool.kind != KV:
        build_states(kind, pool, common)
    elif "device_pool" in base.__init__.__annotations__:
        kind(device_pool=device, page_size=1, layout="layer_first", **common)
    else:
        kind(
            dtype=torch.uint8,
            device_capacity_tokens=pool.slots,
            size_per_token=pool.bytes_per_slot,
            start_layer=0,
            end_layer=1,
            page_size=1,
            layout="layer_first",
            **common,
        )


def build_states(kind: Any, pool: PoolCase, common: dict[str, Any]) -> None:
    temporal, conv = torch.empty(1, 2, 4), [torch.empty(1, 2, 4)]
    if "buffer_info" in kind.__init__.__annotations__:
        info = types.SimpleNamespace(
            temporal=temporal, conv=conv, extra_checkpoint_buffers=(), validate=lambda **_rest: None
        )
        kind(info, device_capacity=pool.slots, layout="page_first", **common)
        return
    cache = types.SimpleNamespace(temporal=temporal, conv=conv)
    device = types.SimpleNamespace(
        mamba_cache=cache, size=pool.slots, device="cpu", num_mamba_layers=1, host_capacity_tokens=None
    )
    kind(device, layout="page_first", **common)


def start(case: GuardCase, pools: Sequence[PoolCase], pipe: Connection) -> None:
    """What one rank does: its pools, one after the other, under auto-sizing where the case has a fraction."""
    ratio, scope = RATIO, contextlib.nullcontext()
    if case.fraction is not None:
        module, memory = srt("mem_cache.hicache_auto_size"), srt("mem_cache.memory_pool")
        pool = memory.MHATokenToKVPool.__new__(memory.MHATokenToKVPool)
        pool.host_capacity_bytes = sum(one.slots * one.bytes_per_slot for one in pools)
        allocator = types.SimpleNamespace(get_kvcache=lambda: pool)
        params = types.SimpleNamespace(
            token_to_kv_pool_allocator=allocator, req_to_token_pool=None, mtp_draft_device_pools=()
        )
        scope = module.auto_size_hicache(params, None, enabled=True)
    with scope:
        if case.fraction is not None:
            ratio = srt("runtime_context").get_memory().hicache_ratio
        for one in pools:
            build(one, ratio, pipe)


def settled(case: GuardCase) -> contextlib.AbstractContextManager[Any]:
    """The configuration that the release reads ranks and fraction from."""
    try:
        context = srt("runtime_context").get_context()
    except ModuleNotFoundError:
        return contextlib.nullcontext()
    fields: dict[str, Any] = {"tp_size": len(case.ranks), "hicache_ratio": RATIO}
    if case.fraction is not None:
        fields["hicache_host_memory_fraction"] = case.fraction
    override = context.override_server_args(**fields)

    @contextlib.contextmanager
    def held() -> Iterator[None]:
        override.install()
        try:
            yield
        finally:
            override.restore()

    return held()


def rank_process(rank: int, ranks: int, store: str, proc: str, pipe: Connection) -> None:
    """Imports the release once, joins its process group, and starts case after case until there is none."""
    sys.meta_path.insert(0, KernelStandIn())
    _library = declare_torchvision_operators()
    logging.disable(logging.WARNING)
    # As a module of any type: what SGLang imports by this name is replaced.
    measure: Any = importlib.import_module("psutil")
    measure.virtual_memory = lambda: types.SimpleNamespace(available=turn(pipe, READ))
    state = srt("distributed.parallel_state")
    with contextlib.suppress(ModuleNotFoundError):
        srt("mem_cache.host_memory")._cgroup_memory_headroom.__defaults__ = (Path(proc),)
    state.init_distributed_environment(ranks, rank, f"file://{store}", rank, "gloo")
    with contextlib.suppress(ModuleNotFoundError, AttributeError, ValueError):
        srt("runtime_context").get_parallel().override_permanently(world_group=state._WORLD)
    pipe.send((SERVED, 0))
    while (case := pipe.recv()) is not None:
        try:
            with settled(case):
                start(case, case.ranks[rank], pipe)
            pipe.send((SERVED, 0))
        except Stopped:
            pipe.send((SERVED, 0))
        except ValueError as error:
            pipe.send((REFUSED if "host memory" in str(error) else FAILED, str(error)))
        except Exception as error:
            pipe.send((FAILED, f"{type(error).__name__}: {error}"))


def write_groups(proc: Path, case: GuardCase, populated_bytes: int) -> None:
    """The files of the control group that the ranks find themselves in."""
    group, folder = case.group, proc / "group"
    version = 2 if group is None else group.version
    for file in folder.glob("memory.*"):
        file.unlink()
    (folder).mkdir(parents=True, exist_ok=True)
    (proc / "self").mkdir(exist_ok=True)
    (proc / "self/cgroup").write_text("0::/\n" if version == 2 else "4:memory:/\n", encoding="utf-8")
    kind, options = ("cgroup2", "rw") if version == 2 else ("cgroup", "rw,memory")
    (proc / "self/mountinfo").write_text(f"30 1 0:26 / {folder} rw - {kind} none {options}\n", encoding="utf-8")
    if group is None:
        return
    files: dict[str, int | None] = {
        "memory.max": group.max_bytes,
        "memory.high": group.high_bytes,
        "memory.current": group.current_bytes + populated_bytes,
    }
    prefix = ""
    if version == 1:
        prefix = "total_"
        files = {
            "memory.limit_in_bytes": group.max_bytes,
            "memory.usage_in_bytes": group.current_bytes + populated_bytes,
        }
    for name, value in files.items():
        (folder / name).write_text("max" if value is None else str(value), encoding="utf-8")
    cache = f"{prefix}active_file {group.page_cache_bytes}\n{prefix}inactive_file 0\n"
    (folder / "memory.stat").write_text(cache, encoding="utf-8")


class Ranks:
    """As many processes as ranks, and the order in which they take their steps."""

    def __init__(self, count: int, folder: Path) -> None:
        self.proc = folder / f"proc-{count}"
        self.proc.mkdir()
        spawn = multiprocessing.get_context("spawn")
        pairs = [spawn.Pipe() for _rank in range(count)]
        self.pipes = [ours for ours, _theirs in pairs]
        self.processes = [
            spawn.Process(
                target=rank_process,
                args=(rank, count, str(folder / f"store-{count}"), str(self.proc), theirs),
                daemon=True,
            )
            for rank, (_ours, theirs) in enumerate(pairs)
        ]
        for process in self.processes:
            process.start()
        self.heard = [pipe.recv() for pipe in self.pipes]

    def close(self) -> None:
        for pipe in self.pipes:
            pipe.send(None)
        for process in self.processes:
            process.join()

    def play(self, case: GuardCase, order: str) -> tuple[bool, list[list[int]]]:
        """Whether all ranks were served in this order, and what each populated."""
        left = case.available_bytes
        populated: list[list[int]] = [[] for _rank in case.ranks]
        write_groups(self.proc, case, 0)
        for pipe in self.pipes:
            pipe.send(case)
        self.heard = [pipe.recv() for pipe in self.pipes]
        for letter in order:
            rank = int(letter)
            action, value = self.heard[rank]
            if action == POPULATE:
                left -= value
                populated[rank].append(value)
                if case.group is not None:
                    write_groups(self.proc, case, case.available_bytes - left)
            if action in (READ, POPULATE):
                self.pipes[rank].send(left)
            # Under auto-sizing the readings meet in a collective, so that nobody goes on before all have read.
            if case.fraction is None or action == POPULATE:
                self.heard[rank] = self.pipes[rank].recv()
            elif action == READ:
                self.heard[rank] = ("", 0)
                if all(heard == ("", 0) for heard in self.heard):
                    self.heard = [pipe.recv() for pipe in self.pipes]
            if self.heard[rank][0] == REFUSED:
                break
        served = all(action == SERVED for action, _value in self.heard)
        for rank, (action, value) in enumerate(self.heard):
            if action == FAILED:
                raise SystemExit(f"{case}: {value}")
            if action in (READ, POPULATE):
                self.pipes[rank].send(None)
                self.pipes[rank].recv()
        return served, populated


def provenance(wheel: Path) -> dict[str, str]:
    """The wheel's name and sum, when the imported files are its own."""
    spec = importlib.util.find_spec("sglang")
    package = Path((spec.origin if spec else None) or "").parent
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        for file in ANSWERING:
            member = f"sglang/srt/{file}"
            if member in names and archive.read(member) != (package / "srt" / file).read_bytes():
                raise SystemExit(f"{package / 'srt' / file} is not the file of {wheel.name}")
    return {"wheel": wheel.name, "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}


def edges_of(release: str, shape: Sequence[Sequence[PoolCase]], fraction: float | None) -> list[int]:
    """Where a verdict should change: only a choice of what to ask, the answers are SGLang's."""
    groups = [ClaimingRanks(1, tuple(Claim(*[pool.requested_bytes] * 2) for pool in pools)) for pools in shape]
    need = guard_need(version_facts(release), groups, fraction)
    return [need.best_order_bytes, need.worst_order_bytes]


def cases_of(release: str) -> Iterator[GuardCase]:
    facts = version_facts(release)
    # Before, states are checked in the same words and are not built without their kernels.
    shapes = (*SHAPES, *(WITH_STATES if facts.guard != "A" else ()))
    for shape in shapes:
        yield from at(GuardCase(shape), edges_of(release, shape, None))
    if not facts.auto_sizes_host_pool:
        return
    for shape in AUTO_SHAPES:
        for fraction in FRACTIONS:
            for available in sorted({*edges_of(release, shape, fraction), *AUTO_AVAILABLE}):
                yield GuardCase(shape, available, fraction)
    shape = SHAPES[2]
    for edge in edges_of(release, shape, None):
        for group in groups_around(edge):
            yield GuardCase(shape, edge, group=group)


def answer(ranks: Ranks, case: GuardCase) -> dict[str, Any]:
    """Which of all orders were served, in the order of interleavings(), and what was populated in one that was."""
    reads_once = case.fraction is not None
    steps = [1 + len(pools) if reads_once else 2 * len(pools) for pools in case.ranks]
    words = list(interleavings(steps))
    if reads_once:
        # All have read before any pool is built.
        count = len(case.ranks)
        words = [word for word in words if len(set(word[:count])) == count]
    results, sizes = [], None
    for word in words:
        served, populated = ranks.play(case, word)
        results.append(served)
        sizes = populated if served else sizes
    return {"served": "".join("1" if served else "0" for served in results), "populated": sizes}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--wheel", type=Path, required=True)
    wheel = parser.parse_args().wheel
    release = wheel.name.split("-")[1]
    origin = provenance(wheel)
    rows = []
    with tempfile.TemporaryDirectory() as folder:

        @functools.cache
        def of(count: int) -> Ranks:
            return Ranks(count, Path(folder))

        for case in cases_of(release):
            rows.append({**case.asked(), **answer(of(len(case.ranks)), case)})
        for count in (1, 2, 3):
            of(count).close()
    text = ",\n ".join(json.dumps(row, sort_keys=True) for row in rows)
    (HERE / "oracle" / f"guards-{release}.json").write_text(
        f'{{"wheel": {json.dumps(origin, sort_keys=True)},\n"rows": [\n {text}\n]}}\n', encoding="utf-8"
    )
    print(f"{release}: {len(rows)} starts, {sum(len(row['served']) for row in rows)} orders")


if __name__ == "__main__":
    main()
