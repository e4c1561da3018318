# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Every failure of NVML at every call that is made, and from the K-th call on: the real nvidia-ml-py on the stand-in.

What has to come of each is a result, with a problem that names the function unless the error is quiet there.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.asking import read_nvml
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.process import IMPORT, LOAD, nvml_process
from ansible_collections.gpufleet.sglang.tests.unit.conftest import Once
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.nvml import failure_table
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.topology.nvml.failure_table import ERRORS

Case = dict[str, Any]

# Where null is the full truth and so no problem is stated: what boards, guests and containers may lack ...
LACKING = {
    "DeviceGetNumaNodeId",
    "DeviceGetGpuMaxPcieLinkGeneration",
    "DeviceGetVirtualizationMode",
    "DeviceGetPerformanceState",
    "DeviceGetUtilizationRates",
    "DeviceGetMigMode",
    "DeviceGetEccMode",
    "DeviceGetPersistenceMode",
    "DeviceGetComputeMode",
    "DeviceGetRemappedRows",
    "DeviceGetTotalEccErrors",
    "DeviceGetRetiredPages",
    "DeviceGetRetiredPagesPendingStatus",
    "DeviceGetNvLinkState",
    "DeviceGetNvLinkRemoteDeviceType",
    "DeviceGetNvLinkRemotePciInfo",
    "DeviceGetGpuFabricInfoV",
    "DeviceGetComputeRunningProcesses",
    "DeviceGetGraphicsRunningProcesses",
    "DeviceGetCpuAffinity",
    "DeviceGetMaxMigDeviceCount",
    "DeviceGetMigDeviceHandleByIndex",
    "SystemGetProcessName",
}
# ... and what has an end that is found by asking beyond it, may be gone by now, or can be asked in an older form.
QUIET = {(function, "NOT_SUPPORTED") for function in LACKING} | {
    ("DeviceGetNvLinkState", "INVALID_ARGUMENT"),
    ("DeviceGetNvLinkRemoteDeviceType", "INVALID_ARGUMENT"),
    ("DeviceGetNvLinkRemotePciInfo", "INVALID_ARGUMENT"),
    ("DeviceGetMigDeviceHandleByIndex", "INVALID_ARGUMENT"),
    ("DeviceGetMigDeviceHandleByIndex", "NOT_FOUND"),
    ("SystemGetProcessName", "NOT_FOUND"),
    ("SystemGetProcessName", "NO_PERMISSION"),
    ("DeviceGetGpuFabricInfoV", "FUNCTION_NOT_FOUND"),
    ("DeviceGetGpuFabricInfoV", "ARGUMENT_VERSION_MISMATCH"),
}
INIT_CODES = {
    "DRIVER_NOT_LOADED": "nvml_driver_not_loaded",
    "LIB_RM_VERSION_MISMATCH": "nvml_version_mismatch",
    "NO_PERMISSION": "nvml_no_permission",
    "LIBRARY_NOT_FOUND": "nvml_library_not_found",
}
CALL_CODES = {
    "GPU_IS_LOST": "gpu_lost",
    "RESET_REQUIRED": "gpu_reset_required",
    "FUNCTION_NOT_FOUND": "nvml_function_missing",
    "NOT_SUPPORTED": "nvml_not_supported",
}


@pytest.fixture(name="table", scope="module")
def _table(once: Once, library: Path) -> list[Case]:
    """The healthy case first."""
    lines = (once("failures", lambda folder: tabulate(library, folder)) / "table.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in lines.splitlines()]


def tabulate(library: Path, folder: Path) -> None:
    file = folder / "machine.nvml"
    done = subprocess.run(
        [sys.executable, failure_table.__file__, str(library), str(file)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "GPUFLEET_NVML_MACHINE": str(file),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (folder / "table.jsonl").write_text(done.stdout, encoding="utf-8")


@pytest.fixture(name="asked")
def _asked(table: list[Case]) -> dict[str, int]:
    """How often each function is asked for on the healthy machine."""
    asked: dict[str, int] = table[0]["asked"]
    return asked


def names(case: Case) -> bool:
    """Whether a problem names the function."""
    return any(f"nvml{case['function']}" in problem["message"] for problem in case["problems"])


def of_one_function(table: list[Case]) -> list[Case]:
    return [case for case in table[1:] if case["function"] != "*" and case["gpu"] is None]


def test_the_table_is_whole(table: list[Case], asked: dict[str, int]) -> None:
    seen = {(case["function"], case["error"]) for case in of_one_function(table)}
    assert seen == {(function, error) for function in asked for error in ERRORS}
    assert len(ERRORS) == 14
    assert len(asked) >= 46
    print(f"{len(table) - 1} cases, {len(asked)} functions, {sum(asked.values())} calls on the healthy machine")
    assert len(table) > 3000


def test_the_healthy_machine_has_all_that_is_asked_for(table: list[Case]) -> None:
    first, second, third = table[0]["healthy"]["gpus"]
    assert (first["fabric"]["health"], first["nvlinks"], len(first["processes"])) == (
        "healthy",
        {"active": 3, "total": 3},
        1,
    )
    assert (len(second["mig_devices"]), third["remapped_rows"]["unit"]) == (1, "page")
    assert [gpu["state"] for gpu in (first, second, third)] == ["ok"] * 3
    assert not [problem for problem in table[0]["healthy"]["problems"] if problem["code"].startswith("nvml")]


def test_nothing_ends_in_an_exception(table: list[Case]) -> None:
    assert [case["traceback"] for case in table[1:] if "traceback" in case] == []


def test_every_gpu_is_in_the_result(table: list[Case]) -> None:
    """Those that the driver lists, or those on the bus where it lists none."""
    assert {case["gpus"] for case in table[1:]} == {3}


def test_a_failure_is_told_unless_null_is_the_full_truth(table: list[Case], asked: dict[str, int]) -> None:
    met = [case for case in of_one_function(table) if case["first"] <= asked[case["function"]]]
    silent = {(case["function"], case["error"]) for case in met if not names(case) and case["function"] != "Init"}
    assert silent == QUIET
    assert len(met) > 1500


def test_a_failure_that_is_never_met_changes_nothing(table: list[Case], asked: dict[str, int]) -> None:
    # nvidia-ml-py asks for processes and pages twice, first for their number.
    unmet = [case for case in of_one_function(table) if case["first"] > 2 * asked[case["function"]]]
    assert [case for case in unmet if case["problems"] or not all(case["whole"]) or not case["links"]] == []
    assert len(unmet) > 100


@pytest.mark.parametrize("error", ERRORS)
def test_a_driver_that_does_not_start(table: list[Case], error: str) -> None:
    (case,) = [case for case in of_one_function(table) if (case["function"], case["error"]) == ("Init", error)][:1]
    assert case["problems"][0]["code"] == INIT_CODES.get(error, "nvml_unusable")
    assert case["driver"] == {"version": None, "nvml_version": "13.595.58.03", "cuda_version": None, "source": "pci"}


def test_codes_tell_the_kinds_of_failure(table: list[Case], asked: dict[str, int]) -> None:
    for case in of_one_function(table):
        if case["function"] == "Init" or case["first"] > asked[case["function"]] or not names(case):
            continue
        code = CALL_CODES.get(case["error"], "nvml_call_failed")
        assert code in {problem["code"] for problem in case["problems"]}, case


def test_a_failing_gpu_leaves_the_others_whole(table: list[Case]) -> None:
    of_one_gpu = [case for case in table[1:] if case["gpu"] == 1]
    assert [case for case in of_one_gpu if not (case["whole"][0] and case["whole"][2])] == []
    assert len(of_one_gpu) > 400


def test_whatever_fails_from_the_kth_call_on_is_told(table: list[Case], asked: dict[str, int]) -> None:
    """From nearly the last call on only quiet errors may be met."""
    from_the_kth = [case for case in table[1:] if case["function"] == "*"]
    assert {case["error"] for case in from_the_kth} == set(ERRORS)
    assert [case for case in from_the_kth if not case["problems"] and case["first"] <= sum(asked.values())] == []


def test_a_crash_at_any_call_is_the_only_failure_and_names_it(
    tmp_path: Path, library: Path, asked: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "machine.nvml"
    monkeypatch.setenv("GPUFLEET_NVML_MACHINE", str(file))
    for function in asked:
        file.write_text(f"{failure_table.MACHINE}[faults]\n{function} = CRASH\n", encoding="utf-8")
        with nvml_process(60) as call:
            call(LOAD, [str(library)])
            call(IMPORT, [])
            reading = read_nvml(call)
        (failure,) = reading.failures
        assert (failure.function, failure.error) == (f"nvml{function}", "crashed")
        uncounted = function.startswith(("Init", "System", "DeviceGetCount")) and function != "SystemGetProcessName"
        assert len(reading.gpus) == (0 if uncounted else 3)
