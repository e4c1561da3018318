# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How much has to be sent to drive a prompt out of the device pool and not out of the host pool. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import LOAD_BACK_TOKENS

# A prompt of a model with drafts is answered at length, as few verifications tell nothing.
ANSWER_TOKENS = 8
DRAFT_ANSWER_TOKENS = 64
DRAFT_PROMPTS = 4
# Prompts that drive the canary out: long, so that few are needed, and far from what one batch can hold.
LONGEST_CHURN_PROMPT = 4096
# Two prompts share their first tokens by chance when pages are small; so many cached tokens prove nothing.
CHANCE_TOKENS = 16


@dataclass(frozen=True)
class CanaryLimits:
    """How far the canary may go. None: computed from the device pool. C(busy_requests): of others, at most.

    C(draft_ratio): the accepted length after a hit has to be so much of that before at least; 0 for any.
    """

    prompt_tokens: int = 512
    churn_max_tokens: int | None = None
    churn_max_requests: int = 2000
    churn_max_seconds: float = 600.0
    busy_requests: int = 4
    draft_ratio: float = 0.7


@dataclass(frozen=True)
class Pools:
    """Sizes of one data parallel rank's caches, as far as they are known."""

    device_tokens: int
    host_tokens: int | None = None
    page_size: int | None = None
    context_tokens: int | None = None


@dataclass(frozen=True)
class ChurnPlan:
    """Unique prompts that together are sure to fill the device pool, so that the least recently used one leaves it.

    C(canary_tokens): length of each of the C(canaries) prompts. C(first_tokens): one pool full, C(max_tokens): when to
    give up. C(impossible): why it cannot prove anything, None if it can.
    """

    canary_tokens: int
    canaries: int
    answer_tokens: int
    prompt_tokens: int
    first_tokens: int
    max_tokens: int
    max_requests: int
    impossible: str | None = None

    @property
    def least_hit(self) -> int:
        """So many tokens have to come back, or chance may have had a hand in it."""
        return min(CHANCE_TOKENS, self.canary_tokens // 4)


def canary_length(pools: Pools, asked: int, answer_tokens: int = ANSWER_TOKENS) -> int:
    """Whole pages are cached, so two of them at least; small beside the pool, and within what the server takes."""
    length = max(asked, 2 * (pools.page_size or 1) + 1)
    length = min(length, max(1, pools.device_tokens // 4))
    return _within(length, pools, answer_tokens)


def _within(length: int, pools: Pools, answer_tokens: int) -> int:
    return length if pools.context_tokens is None else min(length, max(1, pools.context_tokens - 2 * answer_tokens))


def plan_churn(pools: Pools, limits: CanaryLimits, with_draft: bool = False) -> ChurnPlan:
    """The first round is one pool full; a second one follows if need be, as far as the host pool keeps the canary."""
    answer = DRAFT_ANSWER_TOKENS if with_draft else ANSWER_TOKENS
    length = canary_length(pools, limits.prompt_tokens, answer)
    canaries = max(1, min(DRAFT_PROMPTS if with_draft else 1, pools.device_tokens // (4 * length)))
    longest = _within(min(LONGEST_CHURN_PROMPT, max(1, pools.device_tokens // 4)), pools, answer)
    first = max(1, pools.device_tokens - length * canaries) + longest
    most = 3 * pools.device_tokens
    kept = None
    if pools.host_tokens is not None:
        # With write_through the host pool takes all that is sent, and its least recently used prompt leaves it first.
        kept = pools.host_tokens - canaries * (length + answer) - longest
        most = min(most, kept)
    if limits.churn_max_tokens is not None:
        most = min(most, limits.churn_max_tokens)
    return ChurnPlan(
        canary_tokens=length,
        canaries=canaries,
        answer_tokens=answer,
        prompt_tokens=longest,
        first_tokens=first,
        max_tokens=max(0, most),
        max_requests=limits.churn_max_requests,
        impossible=_impossible(pools, length, first, kept),
    )


def _impossible(pools: Pools, length: int, first: int, kept: int | None) -> str | None:
    page = pools.page_size or 1
    if (length - 1) // page * page <= LOAD_BACK_TOKENS:
        return (
            f"a prompt may have {length} tokens here, which is no whole page of {page} tokens or too little to be "
            f"loaded back (more than {LOAD_BACK_TOKENS} tokens are)"
        )
    if kept is not None and kept < first:
        return (
            f"{first} tokens have to be sent to drive a prompt out of the device pool of {pools.device_tokens}, and "
            f"the host pool of {pools.host_tokens} would lose it meanwhile"
        )
    return None
