# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    HiCacheRequest,
    ServerRequest,
    SpeculativeRequest,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.combinations import combination_problems
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "head_dim": 128,
}
HEADS = attention_from_config(CONFIG)


def codes(release: str, **changed: Any) -> list[str]:
    asked: dict[str, Any] = {
        "attention": HEADS,
        "server": ServerRequest(),
        "hicache": HiCacheRequest(ratio=2.0),
        "io_backend": "kernel",
        "page_size": 64,
        "speculative": None,
        **changed,
    }
    return [problem.code for problem in combination_problems(version_facts(release), **asked)]


def test_nothing_is_said_of_what_is_known_to_work() -> None:
    assert codes("0.5.23") == []
    assert codes("0.5.23", speculative=SpeculativeRequest("EAGLE3")) == []
    assert codes("0.5.23", server=ServerRequest(attention_data_parallel_size=8, tensor_parallel_size=8)) == []


@pytest.mark.parametrize(
    ("release", "changed", "code"),
    [
        ("0.5.23", {"speculative": SpeculativeRequest("ngram")}, "hicache_with_ngram"),
        ("0.5.10", {"speculative": SpeculativeRequest("EAGLE")}, "draft_not_in_host_tier"),
        ("0.5.23", {"io_backend": "direct", "page_size": 1}, "hicache_direct_small_pages"),
        ("0.5.23", {"hicache": HiCacheRequest(write_policy="write_through_selective")}, "hicache_selective_write"),
        ("0.5.12", {}, "hicache_registration_unchecked"),
    ],
)
def test_combinations_that_are_known_to_go_wrong_are_warned_of(
    release: str, changed: dict[str, Any], code: str
) -> None:
    assert code in codes(release, **changed)
    assert codes(release, **{**changed, "hicache": HiCacheRequest(enabled=False)}) == []


def test_small_pages_are_of_no_concern_to_a_cpu() -> None:
    assert codes("0.5.23", io_backend="direct", page_size=1, server=ServerRequest(device="cpu")) == []


def test_attention_groups_that_would_hang_are_refused() -> None:
    server = ServerRequest(tensor_parallel_size=8, attention_data_parallel_size=8)
    with pytest.raises(Refusal) as refusal:
        codes("0.4.7", server=server)
    assert refusal.value.code == "hicache_attention_dp_hangs"
    assert "0.4.8" in refusal.value.remedy
    assert "hicache_attention_dp_hangs" not in codes("0.4.8", server=server)
