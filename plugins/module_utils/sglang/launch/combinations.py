# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Combinations with HiCache that a server starts and that are known to go wrong, or to do less than one expects."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    HiCacheRequest,
    ServerRequest,
    SpeculativeRequest,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.hicache_versions import hicache_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

NGRAM = "NGRAM"


def combination_problems(
    facts: VersionFacts,
    attention: Attention,
    server: ServerRequest,
    hicache: HiCacheRequest,
    io_backend: str | None,
    page_size: int,
    speculative: SpeculativeRequest | None,
) -> list[Problem]:
    """Warnings; a combination that is certain to hang is refused."""
    if not hicache.enabled:
        return []
    groups = server.attention_data_parallel_size
    if groups > 1 and not hicache_facts(facts.version).syncs_attention_groups:
        # sgl-project/sglang#7158, mended by #7159.
        raise Refusal(
            "hicache_attention_dp_hangs",
            f"server.attention_data_parallel_size is {groups}, and HiCache of SGLang {facts.version} waits for ranks "
            "of other attention groups that have no request: the server hangs.",
            "Take SGLang 0.4.8 or newer, set it to 1, or set hicache.enabled to false.",
            {"attention_data_parallel_size": groups},
        )
    return [
        *_draft_problems(facts, speculative),
        *_copy_problems(facts, attention, server, hicache, io_backend, page_size),
    ]


def _draft_problems(facts: VersionFacts, speculative: SpeculativeRequest | None) -> list[Problem]:
    if speculative is None:
        return []
    if speculative.algorithm.upper() == NGRAM:
        # sgl-project/sglang#12477.
        return [
            Problem(
                "hicache_with_ngram",
                "warning",
                f"speculative.algorithm NGRAM was reported to fail with HiCache, whatever the io backend; SGLang "
                f"{facts.version} does not refuse the two.",
                "Let serving_check prove the server before it serves, or leave speculative out.",
            )
        ]
    if pool_facts(str(facts.version)).host_draft:
        return []
    # sgl-project/sglang#17338, #31600.
    return [
        Problem(
            "draft_not_in_host_tier",
            "warning",
            f"HiCache of SGLang {facts.version} does not keep the draft's cache: after a hit in host memory the draft "
            "lacks the prompt, fewer of its tokens are accepted, and the hit can be slower than a miss.",
            "Take a release that keeps it, or compare the accepted lengths of a cold prompt and of a hit.",
        )
    ]


def _copy_problems(
    facts: VersionFacts,
    attention: Attention,
    server: ServerRequest,
    hicache: HiCacheRequest,
    io_backend: str | None,
    page_size: int,
) -> list[Problem]:
    found = []
    if io_backend == "direct" and page_size == 1 and server.device == "cuda":
        # sgl-project/sglang#5372, and the warning in server_args.py of 0.5.5 to 0.5.13.
        found.append(
            Problem(
                "hicache_direct_small_pages",
                "warning",
                "hicache.io_backend direct copies page by page, and device.page_size is 1 token: many small copies, "
                "and buffers for them in GPU memory.",
                "Set server.page_size to 64, or hicache.io_backend to kernel.",
            )
        )
    if attention.state is not None:
        # sgl-project/sglang#39830.
        found.append(
            Problem(
                "hicache_states_restored",
                "warning",
                "Host hits of a model with states were reported to answer with another text than a cold prompt "
                "(gated delta networks, SGLang of September 2026).",
                "Keep the canary of serving_check on: it compares the two.",
            )
        )
    if (hicache.write_policy or facts.default_write_policy) == "write_through_selective":
        found.append(
            Problem(
                "hicache_selective_write",
                "info",
                "hicache.write_policy write_through_selective copies a prompt to the host when it is met for the "
                "second time: the host tier stays empty under prompts that are met once.",
                "Set write_through where every prompt is to be kept.",
            )
        )
    if facts.host_allocation == "registered_private":
        # sgl-project/sglang#26301; the return code is looked at from 0.5.13 on (mem_cache/memory_pool_host.py).
        found.append(
            Problem(
                "hicache_registration_unchecked",
                "warning",
                f"SGLang {facts.version} does not look at what cudaHostRegister returns: a host pool that could not be "
                "pinned shows only in slow copies or stale data.",
                "Take SGLang 0.5.13 or newer, or compare the pinned bytes of the start with the plan.",
            )
        )
    return found
