# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import ModuleType

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.sglang_on_cpu.shim.rehearsal_cpu import attention


def registry(**backends: str) -> ModuleType:
    module = ModuleType("attention_registry")
    vars(module)["ATTENTION_BACKENDS"] = backends
    return module


def test_only_the_backend_that_needs_a_gpu_is_replaced() -> None:
    module = registry(dsa="on a GPU", torch_native="on a CPU", triton="another")
    attention.stand_in(module)
    assert vars(module)["ATTENTION_BACKENDS"] == {"dsa": "on a CPU", "torch_native": "on a CPU", "triton": "another"}


def test_a_release_without_one_of_them_is_not_served_in_silence() -> None:
    with pytest.raises(RuntimeError, match="has no dsa"):
        attention.stand_in(registry(torch_native="on a CPU"))
