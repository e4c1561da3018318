# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.modules import compiled_architectures_info
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.libraries.elf_files import (
    ALONE,
    code_for,
    elf,
    environment_of,
)


def answer(capsys: pytest.CaptureFixture[str], **options: Any) -> dict[str, Any]:
    with patch_module_args(options), pytest.raises(SystemExit):
        compiled_architectures_info.main()
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_an_environment_is_held_against_each_kind_of_gpu_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kernels = elf({".nv_fatbin": code_for((2, 80, 0), (2, 90, ALONE))})
    folder = environment_of(tmp_path, {"sgl_kernel/common_ops.abi3.so": kernels})
    found = answer(capsys, path=str(folder), compute_capabilities=["9.0", "12.0", "9.0"])
    assert found["changed"] is False
    assert [(gpu["compute_capability"], gpu["served"]) for gpu in found["gpus"]] == [("9.0", True), ("12.0", False)]
    assert [problem["code"] for problem in found["problems"]] == ["device_code_missing"]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"compute_capabilities": ["sm_90"]}, "compute_capability_malformed"),
        ({"path": "/nonexistent"}, "environment_missing"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: dict[str, Any], code: str
) -> None:
    found = answer(capsys, **{"path": str(environment_of(tmp_path, {})), **options})
    assert (found["failed"], found["failure"]["code"]) == (True, code)
