# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import HiCacheRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.hicache_in_force import Beside
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.transfer import beside_of, resolve_transfer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts

OLD, NEW = version_facts("0.5.9"), version_facts("0.5.23")
LATENT = attention_from_config(
    {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "num_hidden_layers": 61,
        "num_attention_heads": 128,
        "num_key_value_heads": 128,
        "hidden_size": 7168,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "qk_nope_head_dim": 128,
        "v_head_dim": 128,
        "q_lora_rank": 1536,
    }
)


def refusal_of(release: str, hicache: HiCacheRequest, beside: Beside | None = None, latent: bool = False) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        resolve_transfer(version_facts(release), hicache, beside, LATENT if latent else None)
    return refusal.value


@pytest.mark.parametrize(
    ("backend", "layout", "expected"),
    [
        (None, None, ("kernel", "page_first")),
        ("kernel", None, ("kernel", "page_first")),
        ("kernel", "layer_first", ("kernel", "layer_first")),
        ("kernel", "page_head", ("kernel", "page_head")),
        ("direct", None, ("direct", "page_first_direct")),
        ("direct", "layer_first", ("direct", "layer_first")),
        ("direct", "page_first_direct", ("direct", "page_first_direct")),
        (None, "page_first_direct", ("direct", "page_first_direct")),
    ],
)
def test_transfer_in_force_is_what_the_server_resolves(
    backend: str | None, layout: str | None, expected: tuple[str, str]
) -> None:
    assert resolve_transfer(NEW, HiCacheRequest(io_backend=backend, mem_layout=layout)) == expected


def test_a_release_without_a_choice_has_none() -> None:
    assert resolve_transfer(version_facts("0.4.7"), HiCacheRequest()) == (None, None)


@pytest.mark.parametrize(
    ("release", "backend", "layout", "code", "becomes"),
    [
        ("0.5.23", "kernel", "page_first_direct", "hicache_io_backend_rewritten", "direct"),
        ("0.5.3", "kernel", "page_first_direct", "hicache_io_backend_rewritten", "direct"),
        ("0.5.23", "direct", "page_first", "hicache_layout_rewritten", "page_first_direct"),
        ("0.5.10", "direct", "page_first", "hicache_layout_rewritten", "page_first_direct"),
    ],
)
def test_pairs_that_the_server_would_rewrite_are_refused(
    release: str, backend: str, layout: str, code: str, becomes: str
) -> None:
    refusal = refusal_of(release, HiCacheRequest(io_backend=backend, mem_layout=layout))
    assert refusal.code == code
    assert becomes in refusal.message
    assert becomes in refusal.remedy


@pytest.mark.parametrize(
    ("release", "backend", "layout"),
    [
        # Kept as they are before 0.5.10, and no copy knows the pair.
        ("0.5.9", "direct", "page_first"),
        ("0.5.23", "kernel_ascend", "layer_first"),
        ("0.5.23", "kernel", "page_first_kv_split"),
        ("0.5.23", "direct", "page_head"),
    ],
)
def test_pairs_that_the_server_keeps_and_cannot_copy_are_refused(release: str, backend: str, layout: str) -> None:
    refusal = refusal_of(release, HiCacheRequest(io_backend=backend, mem_layout=layout))
    assert refusal.code == "hicache_transfer_unsupported"
    fitting = refusal.evidence["fitting"]
    assert isinstance(fitting, list)
    for pair in fitting:
        io_backend, mem_layout = pair.split(" with ")
        asked = HiCacheRequest(io_backend=io_backend, mem_layout=mem_layout)
        assert resolve_transfer(version_facts(release), asked) == (io_backend, mem_layout)


def test_the_layout_of_heads_is_refused_for_latent_attention() -> None:
    refusal = refusal_of("0.5.23", HiCacheRequest(mem_layout="page_head"), latent=True)
    assert refusal.code == "hicache_transfer_unsupported"
    assert "page_head" not in str(refusal.evidence["fitting"])


def test_fa3_that_is_asked_to_decode_makes_the_kernel_copies_give_way() -> None:
    beside = beside_of(LATENT, {"decode-attention-backend": "fa3"}, None)
    assert resolve_transfer(OLD, HiCacheRequest(), beside) == ("direct", "layer_first")
    refusal = refusal_of("0.5.9", HiCacheRequest(io_backend="kernel"), beside)
    assert refusal.code == "hicache_io_backend_rewritten"
    assert "decode-attention-backend fa3" in refusal.remedy
    # From 0.5.14 on the two go together.
    assert resolve_transfer(version_facts("0.5.14"), HiCacheRequest(io_backend="kernel"), beside)[0] == "kernel"


def test_unknown_choices_name_the_closest() -> None:
    refusal = refusal_of("0.5.23", HiCacheRequest(write_policy="write_thru"))
    assert refusal.code == "choice_unknown"
    assert "the closest is write_through" in refusal.remedy
    # A layout that exists, only not yet in that release.
    assert refusal_of("0.5.3", HiCacheRequest(mem_layout="page_head")).code == "choice_unknown"
