# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The module as a whole: alone on recorded roots, and with the real nvidia-ml-py on the NVML stand-in."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.modules import gpu_topology_info
from ansible_collections.gpufleet.sglang.rehearsal import machine_tree

REPOSITORY = Path(machine_tree.__file__).resolve().parents[1]
MACHINES = REPOSITORY / "rehearsal" / "machines"

RUN = """
import json, sys
from ansible.module_utils.testing import patch_module_args
from ansible_collections.gpufleet.sglang.plugins.modules import gpu_topology_info
with patch_module_args(json.loads(sys.argv[1])):
    gpu_topology_info.main()
"""


@pytest.fixture(name="compiler", scope="session")
def _compiler() -> str:
    """What the NVML stand-in is built with; nvidia-ml-py, which speaks to it, has to be there as well."""
    if importlib.util.find_spec("pynvml") is None:
        pytest.fail("nvidia-ml-py is not installed: install tests/unit/requirements.txt (make setup does).")
    found = machine_tree.compiler()
    if found is None:
        pytest.fail("No C compiler to build the NVML stand-in: install gcc and libc6-dev (make setup does).")
    return found


@pytest.fixture(name="library", scope="session")
def _library(tmp_path_factory: pytest.TempPathFactory, compiler: str) -> Path:
    """The stand-in, compiled once; which machine it speaks of is told through the environment."""
    dest = tmp_path_factory.mktemp("standin")
    machine_tree.build_library(dest, compiler)
    return dest / machine_tree.LIBRARY


def build(name: str, dest: Path, faults: str = "") -> Path:
    machine_tree.build_tree(machine_tree.load_profile(MACHINES / f"{name}.yml"), dest)
    if faults:
        with (dest / "machine.nvml").open("a", encoding="utf-8") as file:
            file.write(f"\n[faults]\n{faults}\n")
    return dest


def run_apart(tmp_path: Path, root: Path, library: Path, **options: Any) -> dict[str, Any]:
    """Run the module in a process of its own: a loaded NVML cannot be unloaded."""
    place = tmp_path / "collections" / "ansible_collections" / "gpufleet"
    place.mkdir(parents=True, exist_ok=True)
    if not (place / "sglang").exists():
        (place / "sglang").symlink_to(REPOSITORY)
    paths = [str(tmp_path / "collections"), *(path for path in sys.path if path)]
    arguments = {"root": str(root), "nvml_library": str(library), **options}
    done = subprocess.run(
        [sys.executable, "-c", RUN, json.dumps(arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "GPUFLEET_NVML_MACHINE": str(root / "machine.nvml")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def run_here(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        gpu_topology_info.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


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
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_topology_info, "load_library", lambda _path: None)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    result = run_here(
        capsys,
        root=str(build("founding", tmp_path / "machine")),
        nvml_library="/nowhere/libnvidia-ml.so.1",
        python_candidates=["/nowhere/python"],
    )
    assert codes(result)[0] == "nvml_binding_missing"
    assert "/nowhere/python" in result["problems"][0]["message"]
    assert result["gpus"][0]["memory_source"] == "catalogue"


def test_a_missing_binding_sends_the_module_to_the_interpreter_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def probe(paths: list[str], module: str) -> str:
        asked.append((paths, module))
        return paths[1]

    def respawn(interpreter: str) -> None:
        raise SystemExit(interpreter)

    monkeypatch.setattr(gpu_topology_info, "load_library", lambda _path: None)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    monkeypatch.setattr(gpu_topology_info, "probe_interpreters_for_module", probe)
    monkeypatch.setattr(gpu_topology_info, "respawn_module", respawn)
    arguments = {
        "root": str(build("founding", tmp_path / "machine")),
        "nvml_library": "/nowhere/libnvidia-ml.so.1",
        "python_candidates": ["/a/python", "/b/python"],
    }
    with patch_module_args(arguments), pytest.raises(SystemExit, match="/b/python"):
        gpu_topology_info.main()
    assert asked == [(["/a/python", "/b/python"], "pynvml")]


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


def test_the_founding_box_through_nvml(tmp_path: Path, library: Path) -> None:
    result = run_apart(tmp_path, build("founding", tmp_path / "machine"), library)
    assert result["driver"] == {
        "version": "595.58.03",
        "nvml_version": "13.595.58.03",
        "cuda_version": "13.2",
        "source": "nvml",
    }
    first = result["gpus"][0]
    assert (first["memory_total_bytes"], first["memory_reserved_bytes"]) == (97887 << 20, 636 << 20)
    assert first["memory_free_bytes"] == (97887 - 636) << 20
    assert first["pcie"] == {"generation_max": 5, "width_max": 16, "generation": 1, "width": 16}
    assert (first["mig"], first["ecc"]) == ({"enabled": False, "pending": False}, {"enabled": True, "pending": True})
    assert (first["persistence"], first["compute_mode"], first["fabric"]) == (True, "default", None)
    assert (first["compute_capability"], first["architecture"]) == ("12.0", "blackwell")
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
    tmp_path: Path, library: Path, name: str, level: str, nodes: list[int], links: int, fabric: str | None
) -> None:
    result = run_apart(tmp_path, build(name, tmp_path / "machine"), library)
    assert {link["level"] for row in result["gpu_links"] for link in row} == {"SELF", level}
    assert values(result, "numa_node") == nodes
    assert values(result, "nvlinks") == [{"active": links, "total": links}] * 8
    assert [(gpu["fabric"] or {}).get("state") for gpu in result["gpus"]] == [fabric] * 8
    assert result["problems"] == []


def test_a_guest_through_nvml(tmp_path: Path, library: Path) -> None:
    result = run_apart(tmp_path, build("kvm-guest", tmp_path / "machine"), library)
    assert values(result, "numa_node") == [None, None]
    assert values(result, "mig") == [None, None]
    assert result["gpu_links"][0][1] == {"level": "PHB", "p2p": "chipset_not_supported"}
    assert codes(result) == ["nvml_not_supported", "gpu_persistence_off"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("DRIVER_NOT_LOADED", "nvml_driver_not_loaded"),
        ("LIB_RM_VERSION_MISMATCH", "nvml_version_mismatch"),
        ("NO_PERMISSION", "nvml_no_permission"),
        ("UNKNOWN", "nvml_unusable"),
    ],
)
def test_nvml_that_does_not_start(tmp_path: Path, library: Path, error: str, code: str) -> None:
    result = run_apart(tmp_path, build("founding", tmp_path / "machine", f"Init = {error}"), library)
    assert codes(result)[:2] == [code, "gpu_memory_from_catalogue"]
    assert result["driver"]["source"] == "pci"
    assert values(result, "memory_source") == ["catalogue"] * 8


@pytest.mark.parametrize(
    ("faults", "key", "expected", "code"),
    [
        ("DeviceGetHandleByIndex = GPU_IS_LOST gpu=3", "uuid", None, "gpu_lost"),
        ("DeviceGetMemoryInfo = GPU_IS_LOST gpu=3", "memory_total_bytes", None, "gpu_lost"),
        ("DeviceGetName = RESET_REQUIRED gpu=3", "uuid", "told", "gpu_reset_required"),
        ("DeviceGetMinorNumber = FUNCTION_NOT_FOUND", "minor", None, "nvml_function_missing"),
        ("DeviceGetMemoryAffinity = NOT_SUPPORTED", "numa_node", 0, "nvml_not_supported"),
        ("DeviceGetUUID = UNKNOWN gpu=3", "uuid", None, "nvml_call_failed"),
        ("DeviceGetPciInfo = UNKNOWN gpu=3", "pci_address", "0000:76:00.0", "nvml_call_failed"),
        ("DeviceGetMemoryInfo = NO_PERMISSION gpu=3", "memory_total_bytes", None, "nvml_call_failed"),
    ],
)
def test_one_call_that_fails_is_null_and_a_problem(
    tmp_path: Path, library: Path, faults: str, key: str, expected: Any, code: str
) -> None:
    result = run_apart(tmp_path, build("founding", tmp_path / "machine", faults), library)
    assert codes(result) == [code, "cpus_offline"]
    assert len(result["gpus"]) == 8
    found = result["gpus"][3][key]
    assert (found is not None) if expected == "told" else (found == expected)
    if "gpu=3" in faults:
        # The others are whole.
        assert all(
            gpu["memory_total_bytes"] == 97887 << 20 and gpu["uuid"] for gpu in result["gpus"] if gpu["index"] != 3
        )


def test_a_gpu_that_is_lost_in_the_middle(tmp_path: Path, library: Path) -> None:
    """From its second question about peers on GPU 2 no longer answers: what it told before is kept."""
    faults = "DeviceGetP2PStatus = GPU_IS_LOST gpu=2 from=2"
    result = run_apart(tmp_path, build("founding", tmp_path / "machine", faults), library)
    row = [link["p2p"] for link in result["gpu_links"][2]]
    assert row == ["ok", "ok", None, "ok", None, None, None, None]
    assert result["gpus"][2]["memory_total_bytes"] == 97887 << 20
    lost = [problem["message"] for problem in result["problems"] if problem["code"] == "gpu_lost"]
    assert lost == ["GPU 2: GPU is lost (first said by nvmlDeviceGetP2PStatus)."]


def test_a_gpu_that_fell_off_the_driver_is_named_by_its_address(tmp_path: Path, library: Path) -> None:
    root = build("kvm-guest", tmp_path / "machine")
    file = root / "machine.nvml"
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: text.index("[gpu 1]")], encoding="utf-8")
    result = run_apart(tmp_path, root, library)
    assert len(result["gpus"]) == 1
    message = next(problem["message"] for problem in result["problems"] if problem["code"] == "gpu_not_in_nvml")
    assert message == "0000:02:00.0 (10de:26b9, kernel driver nvidia) is not among NVML's GPUs."


def test_processes_and_broken_links_are_seen(tmp_path: Path, library: Path) -> None:
    root = build("hgx-h100-snc4", tmp_path / "machine")
    with (root / "machine.nvml").open("a", encoding="utf-8") as file:
        file.write(
            "\n[gpu 1]\nprocesses = 4711:1073741824,4712:0\nnvlink.17 = down 0000:86:00.0 switch\nfabric = 2 0 0\n"
        )
    result = run_apart(tmp_path, root, library)
    assert result["gpus"][1]["processes"] == [
        {"pid": 4711, "memory_used_bytes": 1 << 30},
        {"pid": 4712, "memory_used_bytes": 0},
    ]
    assert result["gpus"][1]["nvlinks"] == {"active": 17, "total": 18}
    assert [link["level"] for link in result["gpu_links"][1]][:3] == ["NV17", "SELF", "NV17"]
    assert codes(result) == ["gpu_busy", "nvlink_down", "fabric_not_ready"]


def test_a_machine_without_a_machine_file_has_no_driver(tmp_path: Path, library: Path) -> None:
    root = build("founding", tmp_path / "machine")
    (root / "machine.nvml").unlink()
    assert codes(run_apart(tmp_path, root, library))[0] == "nvml_driver_not_loaded"


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
