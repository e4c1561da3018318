# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Recorded nvidia-smi -q -x of single GPUs: each told by the stand-in, read through the real nvidia-ml-py."""

import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import board_of
from ansible_collections.gpufleet.sglang.tests.conformance.probing import surveys_of
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA, needs_recorded_data
from ansible_collections.gpufleet.sglang.tests.conformance.recordings import TOPOLOGY
from ansible_collections.gpufleet.sglang.tests.conformance.smi_records import (
    machine_file,
    mib,
    number,
    on,
    pair,
    processes,
    text_of,
)

LOGS = sorted((TOPOLOGY / "telegraf-nvidia-smi-xml").glob("*.xml"))
pytestmark = needs_recorded_data
# The tests are parametrized over them and would vanish without a word.
assert LOGS or not DATA.is_dir(), f"{TOPOLOGY} holds no nvidia-smi -q -x"


@pytest.fixture(name="surveys", scope="module")
def _surveys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    base = tmp_path_factory.mktemp("smi")
    for path in LOGS:
        folder = base / "machines" / path.stem
        folder.mkdir(parents=True)
        (folder / "machine.nvml").write_text(machine_file(xml.parse(path).getroot()), encoding="utf-8")
    return surveys_of(base)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_survey_says_what_nvidia_smi_printed(path: Path, surveys: dict[str, Any]) -> None:
    log = xml.parse(path).getroot()
    told = log.find("gpu")
    assert told is not None
    survey = surveys[path.stem]
    (gpu,) = survey["gpus"]
    link = "pci/pci_gpu_link_info"
    assert survey["driver"]["version"] == log.findtext("driver_version")
    assert survey["driver"]["cuda_version"] == log.findtext("cuda_version")
    assert (gpu["name"], gpu["uuid"]) == (text_of(told, "product_name"), text_of(told, "uuid"))
    assert gpu["pci_address"] == (told.findtext("pci/pci_bus_id") or "")[4:].lower()
    assert gpu["minor"] == number(text_of(told, "minor_number"))
    for key in ("total", "reserved", "used"):
        assert gpu[f"memory_{key}_bytes"] == mib(text_of(told, f"fb_memory_usage/{key}"))
    assert gpu["performance_state"] == number(text_of(told, "performance_state"))
    assert gpu["pcie"]["generation"] == number(text_of(told, f"{link}/pcie_gen/current_link_gen"))
    assert gpu["pcie"]["width"] == number(text_of(told, f"{link}/link_widths/current_link_width"))
    for key in ("ecc", "mig"):
        modes = pair(told, f"{key}_mode/current_{key}", f"{key}_mode/pending_{key}")
        assert gpu[key] == (None if modes is None else {"enabled": modes[0], "pending": modes[1]})
    divided = told.findall("mig_devices/mig_device")
    assert [one["memory_total_bytes"] for one in gpu["mig_devices"]] == [
        mib(one.findtext("fb_memory_usage/total")) for one in divided
    ]
    assert [one["gpu_instance_id"] for one in gpu["mig_devices"]] == [
        number(one.findtext("gpu_instance_id")) for one in divided
    ]
    # A process that computes and draws is listed by both of NVML's calls.
    assert {(one["pid"], one["memory_used_bytes"]) for one in gpu["processes"]} == {
        (pid, size) for pid, _kind, _name, size in processes(told)
    }
    assert gpu["usable"] is (not on(text_of(told, "mig_mode/current_mig")))
    assert [problem["code"] for problem in survey["problems"] if problem["severity"] == "error"] == []


def test_an_idle_link_is_no_fault_and_a_working_one_is_full(surveys: dict[str, Any]) -> None:
    states = {name: survey["gpus"][0]["pcie"]["state"] for name, survey in surveys.items()}
    assert states["rtx-3060-v12"] == states["rtx-3090-v12"] == states["rtx-4000-sff-ada-v13"] == "idle"
    assert states["rtx-3080-v13"] == states["a100-sxm4-v12"] == "full"
    # In guests of a cloud these boards have half of their lanes by design.
    assert states["a10g"] == states["tesla-t4"] == "slot_limited"
    codes = {problem["code"] for problem in surveys["tesla-t4"]["problems"]}
    assert "pcie_slot_narrower" in codes
    assert "pcie_width_reduced" not in codes


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_the_catalogue_knows_the_memory_of_recorded_boards(path: Path) -> None:
    told = xml.parse(path).getroot().find("gpu")
    assert told is not None
    device = told.findtext("pci/pci_device_id") or ""
    board = board_of(f"{device[4:].lower()}:{device[:4].lower()}") if len(device) == 8 else None
    # Boards of workstations and those whose id was taken out of the recording are not in it.
    if board is not None:
        assert (board.name, board.memory_bytes) == (
            text_of(told, "product_name"),
            mib(text_of(told, "fb_memory_usage/total")),
        )
