# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node tells of its instances, whatever of it is there."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FILE = Path(__file__).resolve().parents[3] / "roles" / "monitoring" / "files" / "textfile_collector.py"


def _loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("textfile_collector", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COLLECTOR = _loaded()
GIB = 2**30
UNIT = {
    "Id": "sglang-main.service",
    "ActiveState": "active",
    "NRestarts": "2",
    "InvocationID": "6a64",
    "MainPID": "500",
    "ExecMainStartTimestamp": "@1796075991",
    "FragmentPath": "/etc/systemd/system/sglang-main.service",
}
MEMORY = {"MemTotal": 100, "MemFree": 40, "Cached": 30, "AnonPages": 10, "Slab": 5, "Shmem": 25}


def ledger(**changes: Any) -> dict[str, Any]:
    return {
        "generation": "c4577cd77cbddb1458",
        "invocation_id": "6a64",
        "sglang_version": "0.5.23",
        "plan": {
            "arguments": {"served-model-name": 'say "hi"', "model-path": "/srv/models/a"},
            "device": {"max_total_num_tokens": 8192},
            "host": {
                "enabled": True,
                "ranks": 2,
                "tokens": 262145,
                "bytes_total": 3 * GIB,
                "reserve_bytes": 10 * GIB,
                "meter": "shmem",
                "pools": [{"kind": "kv", "bytes_per_rank": GIB}, {"kind": "mamba", "bytes_per_rank": GIB // 2}],
                "numa": [{"node": 0, "pinned_bytes": 3 * GIB}],
                "stages": [{"ranks": [0, 1], "bytes_per_rank": 3 * GIB // 2}],
            },
            "timing": {"start_seconds": 56.8},
            "unit": {"timeout_start_seconds": 828},
        },
        "startup": {
            "elapsed_seconds": 58.8,
            "figures": {"start_seconds": 59.7},
            "max_total_num_tokens": 8192,
            "host_tokens": 262145,
            "meter": "shmem",
            "ranks": [{"rank": "TP0", "pinned_bytes": GIB}, {"rank": "TP1", "pinned_bytes": GIB}],
            "stages": [{"stage": "load", "seconds": 0.3}, {"stage": "ready", "seconds": None}],
        },
        "proof": {
            "checks": [
                {"name": "health", "ok": True},
                {"name": "chat", "ok": None},
                {"name": "canary", "ok": True, "rank": 0},
                {"name": "canary", "ok": False, "rank": 1},
            ]
        },
        **changes,
    }


def node(root: Path, written: dict[str, Any] | None) -> None:
    """An instance of two ranks that runs, a rank that is nobody's, and a unit file."""
    (root / "etc/sglang").mkdir(parents=True)
    (root / "etc/sglang/main.reserved.json").write_text("{}")
    (root / "etc/systemd/system").mkdir(parents=True)
    (root / "etc/systemd/system/sglang-main.service").write_text("[Service]\nEnvironment=GPUFLEET_GENERATION=abc1\n")
    state = root / "var/lib/sglang/main"
    state.mkdir(parents=True)
    if written is not None:
        (state / "ledger.json").write_text(json.dumps(written))
    group = "0::/libpod-1/system.slice/sglang-main.service\n"
    process(root, 500, "python\0-m\0sglang.launch_server\0", group, 0, b"HOME=/\0GPUFLEET_GENERATION=abc1\0")
    process(root, 528, "sglang::scheduler_TP0\0\0", group, 1000)
    process(root, 529, "sglang::scheduler_TP1", group, 1100)
    process(root, 666, "sglang::scheduler_DP0_TP3", "0::/user.slice/session-1.scope\n", 50)
    # A zombie has no memory.
    (root / "proc/700").mkdir()
    (root / "proc/700/cmdline").write_text("sglang::scheduler_TP9")
    (root / "proc/meminfo").write_text("".join(f"{name}: {kb} kB\n" for name, kb in MEMORY.items()))


def process(root: Path, pid: int, title: str, group: str, shmem: int, environ: bytes = b"") -> None:
    folder = root / "proc" / str(pid)
    folder.mkdir(parents=True)
    (folder / "cmdline").write_text(title)
    (folder / "cgroup").write_text(group)
    (folder / "environ").write_bytes(environ)
    (folder / "status").write_text(f"Name:\tx\nVmRSS:\t{shmem + 7} kB\nRssAnon:\t7 kB\nRssShmem:\t{shmem} kB\n")


def told(root: Path, monkeypatch: pytest.MonkeyPatch, unit: dict[str, str]) -> dict[str, float]:
    monkeypatch.setattr(COLLECTOR, "units", lambda names: {"main": unit} if "main" in names else {})
    text = COLLECTOR.exposition(COLLECTOR.collect(root, "/etc/sglang", "/var/lib/sglang"))
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name.removeprefix("gpufleet_"): float(value) for name, value in lines}


def test_plan_ledger_and_what_is_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node(tmp_path, ledger())
    found = told(tmp_path, monkeypatch, UNIT)
    main = 'sglang_instance="main"'
    assert found[f'sglang_info{{{main},model="say \\"hi\\"",sglang_version="0.5.23",generation="c4577cd77cbd"}}'] == 1
    assert found[f"sglang_planned_host_bytes{{{main}}}"] == 3 * GIB
    assert found[f'sglang_planned_pool_bytes{{{main},pool="mamba",rank="TP1"}}'] == GIB // 2
    assert found[f'sglang_planned_numa_bytes{{{main},numa_node="0"}}'] == 3 * GIB
    assert found[f"sglang_planned_reserve_bytes{{{main}}}"] == 10 * GIB
    assert found[f"sglang_planned_start_limit_seconds{{{main}}}"] == 828
    assert found[f'sglang_ledger_pinned_bytes{{{main},rank="TP0"}}'] == GIB
    assert found[f"sglang_ledger_start_seconds{{{main}}}"] == 59.7
    stages = {name for name in found if name.startswith("sglang_ledger_stage_seconds")}
    assert stages == {f'sglang_ledger_stage_seconds{{{main},stage="load"}}'}
    assert found[f'sglang_gate_check_passed{{{main},check="health"}}'] == 1
    # One rank failed it; a check that was not made is told nowhere.
    assert found[f'sglang_gate_check_passed{{{main},check="canary"}}'] == 0
    assert not [name for name in found if '"chat"' in name]
    assert found[f"sglang_gate_timestamp_seconds{{{main}}}"] > 1_700_000_000
    assert found[f"sglang_proven{{{main}}}"] == 0
    assert found[f"sglang_declared_in_force{{{main}}}"] == 1
    assert found[f'sglang_unit_state{{{main},state="active"}}'] == 1
    assert found[f'sglang_unit_state{{{main},state="failed"}}'] == 0
    assert found[f"sglang_unit_restarts_total{{{main}}}"] == 2
    assert found[f"sglang_unit_start_timestamp_seconds{{{main}}}"] == 1796075991
    assert found[f"sglang_ranks{{{main}}}"] == 2
    assert found[f'sglang_rank_pinned_bytes{{{main},rank="TP1"}}'] == 1100 * 1024
    assert found[f'sglang_rank_private_bytes{{{main},rank="TP1"}}'] == 7 * 1024
    assert found["host_stray_rank_bytes"] == 57 * 1024
    # All of Shmem is mapped, and more: what two processes share is counted twice.
    assert found["host_unmapped_shmem_bytes"] == 0
    assert found["host_unaccounted_bytes"] == 15 * 1024


PASSED = {"checks": [{"name": "health", "ok": True}, {"name": "chat", "ok": None}]}


@pytest.mark.parametrize(
    ("written", "unit", "expected"),
    [
        (ledger(proof=PASSED), UNIT, 1),
        (ledger(proof=PASSED), {**UNIT, "InvocationID": "7777"}, 0),
        (ledger(proof=PASSED), {**UNIT, "ActiveState": "inactive", "MainPID": "0"}, 0),
        (ledger(proof={}), UNIT, 0),
        (None, UNIT, 0),
    ],
)
def test_proven_is_the_start_that_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: dict[str, Any] | None,
    unit: dict[str, str],
    expected: int,
) -> None:
    node(tmp_path, written)
    assert told(tmp_path, monkeypatch, unit)['sglang_proven{sglang_instance="main"}'] == expected


def test_files_that_were_changed_are_not_in_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node(tmp_path, ledger())
    (tmp_path / "etc/systemd/system/sglang-main.service").write_text("Environment=GPUFLEET_GENERATION=def2\n")
    assert told(tmp_path, monkeypatch, UNIT)['sglang_declared_in_force{sglang_instance="main"}'] == 0


@pytest.mark.parametrize("content", ["", "{", "[]", '{"plan": null, "startup": {"ranks": null}}'])
def test_a_ledger_that_is_none_costs_only_what_it_would_tell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    node(tmp_path, None)
    (tmp_path / "var/lib/sglang/main/ledger.json").write_text(content)
    found = told(tmp_path, monkeypatch, UNIT)
    assert found['sglang_ledger_readable{sglang_instance="main"}'] == content.startswith('{"plan"')
    assert found['sglang_ranks{sglang_instance="main"}'] == 2
    assert found['sglang_proven{sglang_instance="main"}'] == 0


def test_pools_of_stages_are_told_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = ledger()
    written["plan"]["host"]["stages"] = [
        {"ranks": [0], "bytes_per_rank": GIB},
        {"ranks": [1], "bytes_per_rank": 2 * GIB},
    ]
    written["startup"]["ranks"] = []
    node(tmp_path, written)
    found = told(tmp_path, monkeypatch, UNIT)
    pools = {name: value for name, value in found.items() if name.startswith("sglang_planned_pool_bytes")}
    # Ranks that have not started go by their number.
    assert pools == {
        f'sglang_planned_pool_bytes{{sglang_instance="main",pool="all",rank="{rank}"}}': size
        for rank, size in (("0", GIB), ("1", 2 * GIB))
    }


@pytest.mark.parametrize(("meter", "expected"), [("anon", 7 * 1024), ("shmem", 1000 * 1024), ("available", None)])
def test_pinned_is_read_where_the_release_allocates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meter: str, expected: int | None
) -> None:
    written = ledger()
    written["startup"]["meter"] = meter
    node(tmp_path, written)
    found = told(tmp_path, monkeypatch, UNIT)
    assert found.get('sglang_rank_pinned_bytes{sglang_instance="main",rank="TP0"}') == expected


def test_a_node_without_instances_tells_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 100 kB\nMemFree: 60 kB\n")
    found = told(tmp_path, monkeypatch, {})
    assert found["host_unaccounted_bytes"] == 40 * 1024
    assert not [name for name in found if name.startswith("sglang_")]


@pytest.mark.parametrize(
    ("title", "rank"),
    [
        (b"sglang::scheduler", "TP0"),
        (b"sglang::scheduler_DP0_TP1\0\0\0", "DP0 TP1"),
        (b"sglang::scheduler_ATTN_CP1_MOE_DP0_TP2", "ATTN_CP1 MOE_DP0 TP2"),
        (b"sglang::detokenizer", None),
        (b"grep\0sglang::scheduler_TP0", None),
        (b"", None),
    ],
)
def test_a_rank_is_known_by_its_title(title: bytes, rank: str | None) -> None:
    assert COLLECTOR.rank_of(title) == rank


def test_the_file_is_replaced_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = tmp_path / "gpufleet_sglang.prom"
    COLLECTOR.write(output, "first 1\n")
    assert output.stat().st_mode & 0o777 == 0o644

    def full(*_words: object, **_options: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="No space"):
        COLLECTOR.write(output, "second 2\n")
    assert output.read_bytes() == b"first 1\n"
    assert [path.name for path in tmp_path.iterdir()] == [output.name]


def test_all_that_is_told_is_described_and_has_its_unit_in_its_name() -> None:
    for name, family in COLLECTOR.FAMILIES.items():
        assert family.text.endswith("."), name
        assert name.endswith("_total") == (family.kind == "counter"), name
