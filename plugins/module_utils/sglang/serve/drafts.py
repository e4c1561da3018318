# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a draft model still guesses well after a hit: its own cache may not have come back with the target's. Pure.

The accepted length is that of SGLang itself (managers/tokenizer_manager.py): tokens of the answer over verifications,
both of which every release since 0.4.7 returns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Check, Generation

NAME = "canary_accept_length"
# Less than this is noise of a few hundred tokens.
LEAST_LOSS = 0.25


def accept_length(answers: Iterable[Generation]) -> float | None:
    """Over all answers together; None where nothing was verified."""
    counted = [one for one in answers if one.verified]
    verified = sum(one.verified or 0 for one in counted)
    return round(sum(one.completion_tokens for one in counted) / verified, 3) if verified else None


def keeps_draft(version: str | None) -> bool:
    """Whether a draft's cache has a host pool; the newest release has one."""
    return version is None or pool_facts(version).host_draft


def judge_draft(
    lengths: Mapping[str, float | None], least_ratio: float, keeps_draft: bool, rank: str | None
) -> tuple[Check, list[Problem]]:
    """C(lengths): cold, warm and hit. C(keeps_draft): this release keeps the draft's cache in its host tier."""
    cold = lengths["cold"]
    later = {name: lengths[name] for name in ("warm", "hit")}
    ratios = {name: one / cold for name, one in later.items() if cold and one is not None}
    lost = {name for name, ratio in ratios.items() if cold and ratio < least_ratio and cold * (1 - ratio) > LEAST_LOSS}
    expected = f"{least_ratio:.0%} of cold or more"
    found = ", ".join(f"{name} {one:.2f}" for name, one in lengths.items() if one is not None) or None
    if not ratios:
        return Check(NAME, None, found, expected, rank=rank), []
    worst = min(ratios, key=lambda name: ratios[name])
    where = {"warm": "on the device", "hit": "in the host tier"}[worst]
    message = (
        f"A cold prompt has {cold or 0.0:.2f} tokens accepted a verification, and after a hit {where} it is "
        f"{later[worst] or 0.0:.2f}, {ratios[worst]:.0%} of that: the draft's own cache is not what it was."
    )
    if lost == {"hit"} and not keeps_draft:
        problem = Problem(
            "draft_not_restored",
            "warning",
            f"{message} This release does not keep it in the host tier.",
            "Take 0.5.11 or newer, or expect slower answers after hits in the host tier.",
        )
        return Check(NAME, None, found, expected, rank=rank), [problem]
    return Check(
        NAME,
        not lost,
        found,
        expected,
        "draft_collapsed",
        message,
        "Look in the log for what became of the draft's host pool; compare with HiCache off, or lower draft_ratio if "
        "it is meant so.",
        rank,
        {**lengths, "ratio": round(ratios[worst], 3), "least_ratio": least_ratio},
    ), []
