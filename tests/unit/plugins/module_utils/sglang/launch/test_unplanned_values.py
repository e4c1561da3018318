# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed, ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import model_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.unplanned_values import (
    refuse_unplanned_values,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.cases import TINY


def judge(extra: dict[str, Any], observed: Observed | None = None, quantization: str | None = None) -> None:
    model = model_facts({**TINY, "quantization": quantization})
    refuse_unplanned_values(model, ServerRequest(extra_arguments=extra), observed or Observed())


@pytest.mark.parametrize("method", ["fp8", "w8a8_int8", "bitsandbytes", "torchao"])
def test_weights_that_are_quantized_while_they_are_loaded_are_not_guessed(method: str) -> None:
    with pytest.raises(Refusal) as refusal:
        judge({"quantization": method})
    assert refusal.value.code == "extra_argument_unplanned"
    assert f"quantization {method}, and rehearsal-llama is not quantized" in refusal.value.message
    assert refusal.value.evidence == {"flag": "quantization", "value": method}


@pytest.mark.parametrize(
    "observed", [Observed(available_after_load_bytes=70 * 10**9), Observed(kv_pool_bytes=60 * 10**9)]
)
def test_what_a_start_measured_stands_for_them(observed: Observed) -> None:
    judge({"quantization": "fp8"}, observed)


@pytest.mark.parametrize(
    ("extra", "quantization"),
    [({"quantization": "fp8"}, "fp8"), ({"quantization": "awq"}, None), ({"schedule-policy": "lpm"}, None), ({}, None)],
)
def test_what_is_loaded_as_it_lies_in_its_files_is_planned(extra: dict[str, Any], quantization: str | None) -> None:
    judge(extra, None, quantization)
