# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The module as a whole: alone on recorded roots, and with the real nvidia-ml-py on the NVML stand-in."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pytest
import yaml
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology import probe as topology_probe
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import GpuLink, Machine
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.interpreters import (
    PYTHON_CANDIDATES,
    interpreters,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.modules import gpu_topology_info
from ansible_collections.gpufleet.sglang.rehearsal import machine_tree

MACHINES = Path(machine_tree.__file__).resolve().parent / "machines"


def build(name: str, dest: Path, faults: str = "") -> Path:
    machine_tree.build_tree(machine_tree.load_profile(MACHINES / f"{name}.yml"), dest)
    if faults:
        with (dest / "machine.nvml").open("a", encoding="utf-8") as file:
            file.write(f"\n[faults]\n{faults}\n")
    return dest


def run_here(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        gpu_topology_info.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


Probe = Callable[..., "dict[str, Any]"]


@pytest.fixture(name="probe")
def _probe(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, library: Path) -> Probe:
    """Runs the module on a root with the stand-in, which speaks of the machine of that root."""

    def probe(root: Path, **options: Any) -> dict[str, Any]:
        monkeypatch.setenv("GPUFLEET_NVML_MACHINE", str(root / "machine.nvml"))
        return run_here(capsys, root=str(root), nvml_library=str(library), **options)

    return probe


def codes(result: dict[str, Any]) -> list[str]:
    return [problem["code"] for problem in result["problems"]]


def values(result: dict[str, Any], key: str) -> list[Any]:
    return [gpu[key] for gpu in result["gpus"]]


# Without NVML ---------------------------------------------------------------------------------------------------------


def test_another_root_leaves_this_systems_nvml_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_here(capsys, root=str(build("founding", tmp_path / "machine")))
    assert result["changed"] is False
    assert result["driver"] == {"version": "595.58.03", "nvml_version": None, "cuda_version": None, "source": "pci"}
    assert codes(result) == ["nvml_not_consulted", "gpu_memory_from_catalogue", "cpus_offline"]
    assert result["host"]["memory_available_bytes"] == 396_000_000_000


def test_nvml_can_be_left_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_here(capsys, root=str(build("no-gpu", tmp_path / "machine")), nvml=False)
    assert (result["gpus"], codes(result)) == ([], ["nvml_not_consulted", "no_gpu"])


def test_a_library_that_cannot_be_loaded_is_a_problem_and_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    absent = str(tmp_path / "libnvidia-ml.so.1")
    result = run_here(capsys, root=str(build("founding", tmp_path / "machine")), nvml_library=absent)
    assert result["driver"]["source"] == "pci"
    assert codes(result)[0] == "nvml_library_not_found"
    assert absent in result["problems"][0]["message"]


def test_a_missing_binding_is_a_problem_and_names_what_was_tried(
    tmp_path: Path, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    broken.chmod(0o755)
    result = probe(build("founding", tmp_path / "machine"), python_candidates=["/nowhere/python", str(broken)])
    assert codes(result)[0] == "nvml_binding_missing"
    assert str(broken) in result["problems"][0]["message"]
    assert result["gpus"][0]["memory_source"] == "catalogue"


def test_a_missing_binding_sends_the_module_to_the_interpreter_that_has_it(
    tmp_path: Path, probe: Probe, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def choose(paths: list[str], module: str) -> str:
        asked.append((paths, module))
        return paths[1]

    def respawn(interpreter: str) -> None:
        raise Respawned(interpreter)

    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(topology_probe, "probe_interpreters_for_module", choose)
    monkeypatch.setattr(topology_probe, "respawn_module", respawn)
    for name in ("0.5.9", "0.5.23", "0.5.23-0123abcd"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin/python").touch()
    candidates = [f"{tmp_path}/*/bin/python", f"{tmp_path}/0.5.9/bin/python", "/nowhere/*/python"]
    with pytest.raises(Respawned):
        probe(build("founding", tmp_path / "machine"), python_candidates=candidates)
    # The newest version first, the name that links to it before it, each once.
    found = [f"{tmp_path}/{name}/bin/python" for name in ("0.5.23", "0.5.23-0123abcd", "0.5.9")]
    assert asked == [(found, "pynvml")]


class Respawned(Exception):
    """In place of the end of this process."""


def test_candidates_that_are_no_patterns_find_nothing() -> None:
    assert interpreters(["", "/", "/nowhere/**x", "/nowhere/[", "relative/*/python"]) == []


def test_the_default_finds_the_environments_of_the_role(tmp_path: Path) -> None:
    assert PYTHON_CANDIDATES == [
        "/opt/gpufleet/probe/bin/python",
        "/opt/sglang/*/bin/python",
        "/usr/bin/python3",
    ]


@pytest.mark.parametrize("seconds", [0, -1, 86401, float("nan"), float("inf")])
def test_a_timeout_that_is_none_fails_with_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seconds: float
) -> None:
    result = run_here(capsys, root=str(tmp_path), nvml_timeout_seconds=seconds)
    assert result["failed"] is True
    assert result["failure"]["code"] == "timeout_out_of_range"


@pytest.mark.parametrize("root", ["", ".", "machine"])
def test_the_folder_that_the_task_runs_in_is_never_read(capsys: pytest.CaptureFixture[str], root: str) -> None:
    result = run_here(capsys, root=root)
    assert (result["failed"], result["failure"]["code"]) == (True, "root_not_absolute")
    assert result["failure"]["remedy"].startswith("Name the folder that holds the machine's proc and sys")


def test_a_root_that_is_none_fails_with_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = run_here(capsys, root=str(tmp_path / "absent"))
    assert result["failed"] is True
    assert result["failure"]["code"] == "root_missing"
    assert str(tmp_path / "absent") in result["msg"]


def test_this_machine_can_be_surveyed(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_here(capsys, nvml=False)
    assert result["host"]["memory_total_bytes"] > 0
    assert result["host"]["kernel"]


# With the real nvidia-ml-py on the stand-in ---------------------------------------------------------------------------


def test_the_founding_box_through_nvml(tmp_path: Path, probe: Probe) -> None:
    result = probe(build("founding", tmp_path / "machine"))
    assert result["driver"] == {
        "version": "595.58.03",
        "nvml_version": "13.595.58.03",
        "cuda_version": "13.2",
        "source": "nvml",
    }
    first = result["gpus"][0]
    assert (first["memory_total_bytes"], first["memory_reserved_bytes"]) == (97887 << 20, 636 << 20)
    assert first["memory_free_bytes"] == (97887 - 636) << 20
    assert first["pcie"] == {
        "generation_max": 5,
        "width_max": 16,
        "generation": 1,
        "width": 16,
        "slot_generation_max": 5,
        "slot_width_max": 16,
        "state": "idle",
    }
    assert (first["mig"], first["ecc"]) == ({"enabled": False, "pending": False}, {"enabled": True, "pending": True})
    assert (first["persistence"], first["compute_mode"], first["fabric"]) == (True, "default", None)
    assert (first["compute_capability"], first["architecture"]) == ("12.0", "blackwell")
    assert (first["state"], first["usable"], first["virtualization"]) == ("ok", True, "none")
    assert values(result, "minor") == [2, 3, 0, 1, 6, 7, 4, 5]
    assert values(result, "numa_node") == [0, 0, 0, 0, 1, 1, 1, 1]
    assert len(set(values(result, "uuid"))) == 8
    assert [link["level"] for link in result["gpu_links"][2]] == ["NODE", "NODE", "SELF", "PIX"] + ["SYS"] * 4
    assert result["gpu_links"][0][7]["p2p"] == "ok"
    assert codes(result) == ["cpus_offline"]


@pytest.mark.parametrize(
    ("name", "level", "nodes", "links", "fabric"),
    [
        ("hgx-h100-snc4", "NV18", [0, 2, 3, 1, 4, 6, 7, 5], 18, "completed"),
        ("dgx-a100-nps4", "NV12", [3, 3, 1, 1, 7, 7, 5, 5], 12, None),
    ],
)
def test_nvlink_machines(
    tmp_path: Path, probe: Probe, name: str, level: str, nodes: list[int], links: int, fabric: str | None
) -> None:
    result = probe(build(name, tmp_path / "machine"))
    assert {link["level"] for row in result["gpu_links"] for link in row} == {"SELF", level}
    assert values(result, "numa_node") == nodes
    assert values(result, "nvlinks") == [{"active": links, "total": links}] * 8
    assert [(gpu["fabric"] or {}).get("state") for gpu in result["gpus"]] == [fabric] * 8
    assert result["problems"] == []


def test_a_guest_through_nvml(tmp_path: Path, probe: Probe) -> None:
    result = probe(build("kvm-guest", tmp_path / "machine"))
    assert values(result, "numa_node") == [None, None]
    assert values(result, "mig") == [None, None]
    assert values(result, "virtualization") == ["passthrough"] * 2
    link = result["gpu_links"][0][1]
    assert (link["level"], link["p2p"]) == ("PHB", "chipset_not_supported")
    assert codes(result) == ["nvml_not_supported", "gpu_persistence_off"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("DRIVER_NOT_LOADED", "nvml_driver_not_loaded"),
        ("LIB_RM_VERSION_MISMATCH", "nvml_version_mismatch"),
        ("NO_PERMISSION", "nvml_no_permission"),
        ("UNKNOWN", "nvml_unusable"),
        ("CRASH", "nvml_crashed"),
    ],
)
def test_nvml_that_does_not_start(tmp_path: Path, probe: Probe, error: str, code: str) -> None:
    result = probe(build("founding", tmp_path / "machine", f"Init = {error}"))
    assert codes(result)[:2] == [code, "gpu_memory_from_catalogue"]
    assert result["driver"]["source"] == "pci"
    assert values(result, "memory_source") == ["catalogue"] * 8
    assert values(result, "state") == [None] * 8


@pytest.mark.parametrize(
    ("faults", "key", "expected", "code"),
    [
        ("DeviceGetHandleByIndex = GPU_IS_LOST gpu=3", "uuid", None, "gpu_lost"),
        ("DeviceGetMemoryInfo = GPU_IS_LOST gpu=3", "memory_total_bytes", None, "gpu_lost"),
        ("DeviceGetName = RESET_REQUIRED gpu=3", "state", "reset_required", "gpu_reset_required"),
        ("DeviceGetMinorNumber = FUNCTION_NOT_FOUND", "minor", None, "nvml_function_missing"),
        ("DeviceGetMemoryAffinity = NOT_SUPPORTED", "numa_node", 0, "nvml_not_supported"),
        ("DeviceGetUUID = UNKNOWN gpu=3", "uuid", None, "nvml_call_failed"),
        ("DeviceGetPciInfo = UNKNOWN gpu=3", "pci_address", "0000:76:00.0", "nvml_call_failed"),
        ("DeviceGetMemoryInfo = NO_PERMISSION gpu=3", "state", "unreadable", "nvml_call_failed"),
    ],
)
def test_one_call_that_fails_is_null_and_a_problem(
    tmp_path: Path, probe: Probe, faults: str, key: str, expected: Any, code: str
) -> None:
    result = probe(build("founding", tmp_path / "machine", faults))
    assert codes(result) == [code, "cpus_offline"]
    assert len(result["gpus"]) == 8
    assert result["gpus"][3][key] == expected
    if "gpu=3" in faults:
        # The others are whole.
        others = [gpu for gpu in result["gpus"] if gpu["index"] != 3]
        assert all(gpu["memory_total_bytes"] == 97887 << 20 and gpu["uuid"] and gpu["usable"] for gpu in others)


def test_a_gpu_that_is_lost_in_the_middle(tmp_path: Path, probe: Probe) -> None:
    """From its second question about peers on GPU 2 no longer answers: what it told before is kept."""
    result = probe(build("founding", tmp_path / "machine", "DeviceGetP2PStatus = GPU_IS_LOST gpu=2 from=2"))
    row = [link["p2p"] for link in result["gpu_links"][2]]
    assert row == ["ok", "ok", None, "ok", None, None, None, None]
    assert result["gpus"][2]["memory_total_bytes"] == 97887 << 20
    assert (result["gpus"][2]["state"], result["gpus"][2]["usable"]) == ("lost", False)
    lost = [problem["message"] for problem in result["problems"] if problem["code"] == "gpu_lost"]
    assert lost == ["GPU 2: GPU is lost (first said by nvmlDeviceGetP2PStatus)."]


def test_a_gpu_that_fell_off_the_driver_is_named_by_its_address(tmp_path: Path, probe: Probe) -> None:
    root = build("kvm-guest", tmp_path / "machine")
    file = root / "machine.nvml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: text.index("[gpu 1]")], encoding="utf-8")
    result = probe(root)
    assert len(result["gpus"]) == 1
    message = next(problem["message"] for problem in result["problems"] if problem["code"] == "gpu_not_in_nvml")
    assert message == "0000:02:00.0 (10de:26b9, kernel driver nvidia) is not among NVML's GPUs."


def test_processes_and_broken_links_are_seen(tmp_path: Path, probe: Probe) -> None:
    root = build("hgx-h100-snc4", tmp_path / "machine")
    with (root / "machine.nvml").open("a", encoding="utf-8") as file:
        file.write("\n[gpu 1]\nprocesses = 4711:1073741824,4712:0,4713\ngraphics_processes = 4714:1\n")
        file.write("nvlink.17 = down 0000:86:00.0 switch\nfabric = 2 0 0\n[system]\nprocess.4714 = Xorg\n")
    (root / "proc/4711").mkdir()
    (root / "proc/4711/cmdline").write_bytes(b"sglang::scheduler_TP0\0")
    result = probe(root)
    assert result["gpus"][1]["processes"] == [
        {"pid": 4711, "memory_used_bytes": 1 << 30, "name": "sglang::scheduler_TP0", "kind": "compute"},
        {"pid": 4712, "memory_used_bytes": 0, "name": None, "kind": "compute"},
        {"pid": 4713, "memory_used_bytes": None, "name": None, "kind": "compute"},
        {"pid": 4714, "memory_used_bytes": 1, "name": "Xorg", "kind": "graphics"},
    ]
    assert result["gpus"][1]["nvlinks"] == {"active": 17, "total": 18}
    assert [link["level"] for link in result["gpu_links"][1]][:3] == ["NV17", "SELF", "NV17"]
    assert codes(result) == ["gpu_busy", "nvlink_down", "fabric_not_ready"]


def test_health_and_division_are_seen(tmp_path: Path, probe: Probe) -> None:
    root = build("hgx-h100-snc4", tmp_path / "machine")
    with (root / "machine.nvml").open("a", encoding="utf-8") as file:
        file.write("\n[gpu 1]\nmig = 1 1\nmig_devices_max = 7\nmig.2 = MIG-2 4 1 1000 H100 MIG 1g.10gb\n")
        file.write("[gpu 2]\necc_volatile = 1 2\necc_aggregate = 3 4\nremapped_rows = 5 6 1 1\n")
        file.write("[gpu 3]\nvirtualization = HOST_VGPU\nfabric = 3 0 0 0x15 2 00112233-4455-6677-8899-aabbccddeeff\n")
    result = probe(root)
    assert result["gpus"][1]["mig_devices"] == [
        {
            "uuid": "MIG-2",
            "name": "H100 MIG 1g.10gb",
            "memory_total_bytes": 1000,
            "gpu_instance_id": 4,
            "compute_instance_id": 1,
        }
    ]
    assert list(result["gpus"][2]["ecc_errors"].values()) == [1, 2, 3, 4]
    assert list(result["gpus"][2]["remapped_rows"].values()) == [5, 6, True, True, "row"]
    assert result["gpus"][3]["fabric"]["cluster_uuid"] == "00112233-4455-6677-8899-aabbccddeeff"
    assert values(result, "usable") == [True, False, True, False, True, True, True, True]
    assert codes(result) == [
        "gpu_mig_enabled",
        "gpu_ecc_uncorrected",
        "gpu_remap_failed",
        "gpu_remap_pending",
        "gpu_given_to_guests",
        "fabric_unhealthy",
    ]


def test_a_machine_without_a_machine_file_has_no_driver(tmp_path: Path, probe: Probe) -> None:
    root = build("founding", tmp_path / "machine")
    (root / "machine.nvml").unlink()
    assert codes(probe(root))[0] == "nvml_driver_not_loaded"


# A driver that hangs, crashes or raves --------------------------------------------------------------------------------


def test_a_hang_is_named_and_what_came_before_is_kept(tmp_path: Path, probe: Probe) -> None:
    started = time.monotonic()
    root = build("founding", tmp_path / "machine", "DeviceGetNumaNodeId = HANG gpu=3")
    result = probe(root, nvml_timeout_seconds=2)
    assert time.monotonic() - started < 20
    assert result["problems"][0] == {
        "code": "nvml_no_answer",
        "severity": "error",
        "message": "NVML gave no answer within 2 seconds; the question was nvmlDeviceGetNumaNodeId for GPU 3, and what "
        "came before it is kept.",
        "remedy": CODES["nvml_no_answer"].remedy,
    }
    # Every GPU has told what it is before the details of the first are asked for.
    assert values(result, "memory_source") == ["nvml"] * 8
    assert values(result, "numa_node") == [0, 0, 0, 0, 1, 1, 1, 1]
    assert values(result, "persistence") == [True, True, True, None, None, None, None, None]
    assert codes(result) == ["nvml_no_answer", "cpus_offline"]


def test_a_hang_while_gpus_are_counted_leaves_the_bus(tmp_path: Path, probe: Probe) -> None:
    result = probe(build("founding", tmp_path / "machine", "DeviceGetCount = HANG"), nvml_timeout_seconds=1)
    assert codes(result)[:2] == ["nvml_no_answer", "gpu_memory_from_catalogue"]
    assert result["driver"] == {
        "version": "595.58.03",
        "nvml_version": "13.595.58.03",
        "cuda_version": "13.2",
        "source": "pci",
    }


def test_a_hang_before_gpus_can_be_told_apart(tmp_path: Path, probe: Probe) -> None:
    root = build("founding", tmp_path / "machine", "DeviceGetHandleByIndex = HANG gpu=2")
    result = probe(root, nvml_timeout_seconds=1)
    assert codes(result)[:2] == ["nvml_no_answer", "gpu_address_unknown"]
    assert values(result, "state") == ["unreadable"] * 8
    assert values(result, "usable") == [False] * 8


@pytest.mark.parametrize("function", ["DeviceGetName", "DeviceGetMigMode", "DeviceGetP2PStatus", "Shutdown"])
def test_a_crash_is_named_and_what_came_before_is_kept(tmp_path: Path, probe: Probe, function: str) -> None:
    result = probe(build("founding", tmp_path / "machine", f"{function} = CRASH"))
    message = result["problems"][0]["message"]
    assert codes(result)[0] == "nvml_crashed"
    assert message.startswith(f"The process that asked NVML was ended by SIGSEGV; the question was nvml{function}")
    assert len(result["gpus"]) == 8
    assert result["driver"]["source"] == "nvml"


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ("[system]\ngpu_count = 2147483648", "nvmlDeviceGetCount: The answer was 2147483648."),
        ("[system]\ngpu_count = -1", "nvmlDeviceGetCount: The answer was 4294967295."),
        ("[gpu 0]\nmemory_total = -1", "nvmlDeviceGetMemoryInfo for GPU 0: The answer was"),
        ("[gpu 0]\nminor = -1", "nvmlDeviceGetMinorNumber for GPU 0: The answer was 4294967295."),
        ("[gpu 0]\nprocess_count = 1000000000", "nvmlDeviceGetComputeRunningProcesses, nvmlDeviceGetGraphics"),
        ("[gpu 0]\nname = " + "x" * 500, "nvmlDeviceGetName for GPU 0: Insufficient Size."),
        ("[gpu 0]\nname = \udcff\udcfe", "nvmlDeviceGetName for GPU 0: The answer is a text that cannot be decoded."),
        ("[gpu 0]\nmig = 1 1\nmig_devices_max = 4000000000", "nvmlDeviceGetMaxMigDeviceCount for GPU 0: The answer"),
        ("[gpu 0]\nretired_pages = 9 9 9", None),
        ("[gpu 0]\nuuid = \x1b[31mGPU", None),
    ],
)
def test_what_no_driver_says_is_null_and_a_problem(tmp_path: Path, probe: Probe, lines: str, found: str | None) -> None:
    root = build("kvm-guest", tmp_path / "machine")
    with (root / "machine.nvml").open("a", encoding="utf-8", errors="surrogateescape") as file:
        file.write(f"\n{lines}\n")
    result = probe(root)
    assert len(result["gpus"]) == 2
    messages = [problem["message"] for problem in result["problems"]]
    assert found is None or [message for message in messages if message.startswith(found)], messages
    assert "\x1b" not in json.dumps(result, ensure_ascii=False)


# Documentation --------------------------------------------------------------------------------------------------------

NOTHING = type(None)
TYPES = {int: "int", str: "str", bool: "bool", float: "float"}


def compare(documented: dict[str, Any], kind: Any, where: str) -> None:
    """The fields of a dataclass and of all within it against what is documented: names, order and types."""
    assert is_dataclass(kind)
    assert list(documented) == [field.name for field in fields(kind)], where
    hints = get_type_hints(kind)
    for name, entry in documented.items():
        compare_one(entry, hints[name], f"{where}.{name}")


def compare_one(entry: dict[str, Any], hint: Any, where: str) -> None:
    (hint,) = [one for one in get_args(hint) or (hint,) if one is not NOTHING] if is_optional(hint) else (hint,)
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        assert entry["type"] == "list", where
        assert entry["elements"] == (
            "dict" if is_dataclass(inner) else "list" if get_origin(inner) else TYPES[inner]
        ), where
        if is_dataclass(inner):
            compare(entry["contains"], inner, where)
    elif is_dataclass(hint):
        assert entry["type"] == "dict", where
        compare(entry["contains"], hint, where)
    else:
        assert entry["type"] == TYPES[hint], where
        assert "sample" in entry, where


def is_optional(hint: Any) -> bool:
    return NOTHING in get_args(hint)


def test_what_is_documented_is_what_is_returned() -> None:
    documented = yaml.safe_load(gpu_topology_info.RETURN)
    compare(documented, Machine, "RETURN")
    assert all(entry["returned"] == "always" for entry in documented.values())


def test_links_are_documented_by_sample_and_in_words() -> None:
    """Lists in lists have no place for a description of each key."""
    links = yaml.safe_load(gpu_topology_info.RETURN)["gpu_links"]
    known = [field.name for field in fields(GpuLink)]
    assert all(list(link) == known for row in links["sample"] for link in row)
    assert all(f"C({name})" in " ".join(links["description"]) for name in known)


def leaves(value: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Every value of a result under the path of its keys; lists of plain values are values."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, f"{where}.{name}")
    elif isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
        for item in value:
            yield from leaves(item, where)
    else:
        yield where, value


def samples(documented: dict[str, Any], where: str) -> Iterator[tuple[str, Any]]:
    for name, entry in documented.items():
        if "contains" in entry:
            yield from samples(entry["contains"], f"{where}.{name}")
        else:
            yield from leaves(entry["sample"], f"{where}.{name}")


def test_samples_are_from_real_runs(tmp_path: Path, probe: Probe) -> None:
    found = [
        leaf
        for name in ("founding", "hgx-h100-snc4", "h100-mig")
        for leaf in leaves(probe(build(name, tmp_path / name)), "RETURN")
    ]
    shown = list(samples(yaml.safe_load(gpu_topology_info.RETURN), "RETURN"))
    assert [sample for sample in shown if sample not in found] == []
    assert len(shown) > 100


# The stand-in itself --------------------------------------------------------------------------------------------------


def test_a_library_in_the_tree_finds_its_machine_by_itself(tmp_path: Path, compiler: str) -> None:
    root = build("kvm-guest", tmp_path / "machine")
    machine_tree.build_library(root, compiler)
    script = "import pynvml; pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())"
    environment = {key: value for key, value in os.environ.items() if key != "GPUFLEET_NVML_MACHINE"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**environment, "LD_LIBRARY_PATH": str(root / "lib")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == ("2", "")


def test_the_stand_in_follows_its_file_while_it_is_loaded(tmp_path: Path, library: Path) -> None:
    file = tmp_path / "machine.nvml"
    script = (
        "import pynvml, sys\n"
        "def write(count):\n"
        "    open(sys.argv[1], 'w').write('[system]\\n' + ''.join(f'[gpu {i}]\\nname = A\\n' for i in range(count)))\n"
        "write(2); pynvml.nvmlInit(); print(pynvml.nvmlDeviceGetCount())\n"
        "handle = pynvml.nvmlDeviceGetHandleByIndex(1); write(1); print(pynvml.nvmlDeviceGetCount())\n"
        "try: pynvml.nvmlDeviceGetName(handle)\n"
        "except pynvml.NVMLError as error: print(error)\n"
        "write(3); print(pynvml.nvmlDeviceGetCount(), pynvml.nvmlDeviceGetName(handle))\n"
        "pynvml.nvmlShutdown()\n"
        "try: pynvml.nvmlDeviceGetCount()\n"
        "except pynvml.NVMLError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(file)],
        env={**os.environ, "LD_LIBRARY_PATH": str(library.parent), "GPUFLEET_NVML_MACHINE": str(file)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.splitlines() == ["2", "1", "Invalid Argument", "3 A", "Uninitialized"], done.stderr
