# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_division import Division, division_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.draft_host import (
    draft_host_bytes,
    draft_index_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.draft.speculation import resolve_speculation
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import model_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import DEEPSEEK_V3, GLM_5


def drafted(config: dict[str, Any], version: str, algorithm: str | None = "NEXTN") -> Division:
    model = model_facts(
        {
            "architecture": config["architectures"][0],
            "attention": attention_from_config(config).as_dict(),
            "structure": {"num_nextn_layers": 1},
        }
    )
    server = ServerRequest(tensor_parallel_size=8, kv_cache_dtype="fp8_e4m3")
    asked = None if algorithm is None else SpeculativeRequest(algorithm)
    speculation = resolve_speculation(version, model, server, asked)
    return division_of(version_facts(version), model, server, (), True, 64, speculation)


def host_bytes(config: dict[str, Any], version: str, algorithm: str | None = "NEXTN") -> int | None:
    return draft_host_bytes(drafted(config, version, algorithm))


@pytest.mark.parametrize(
    ("config", "version", "size"),
    [
        (DEEPSEEK_V3, "0.5.10", None),
        (DEEPSEEK_V3, "0.5.11", 576),
        (DEEPSEEK_V3, "0.5.23", 576),
        # Plain rows beside a target whose rows have scales and an index, until the draft's are taken as they are.
        (GLM_5, "0.5.17", 576),
        (GLM_5, "0.5.18", 656 + 132),
    ],
)
def test_bytes_of_a_drafted_token_on_the_host(config: dict[str, Any], version: str, size: int | None) -> None:
    assert host_bytes(config, version) == size


def test_nothing_without_a_cache_of_the_draft() -> None:
    assert host_bytes(DEEPSEEK_V3, "0.5.23", None) is None
    assert host_bytes(DEEPSEEK_V3, "0.5.23", "NGRAM") is None
    # Another model's draft, whose facts are not given.
    assert host_bytes(DEEPSEEK_V3, "0.5.23", "EAGLE3") is None


@pytest.mark.parametrize(
    ("config", "version", "size"), [(GLM_5, "0.5.23", 132), (GLM_5, "0.5.17", 0), (DEEPSEEK_V3, "0.5.23", 0)]
)
def test_index_keys_of_a_drafted_token(config: dict[str, Any], version: str, size: int) -> None:
    assert draft_index_bytes(drafted(config, version)) == size
