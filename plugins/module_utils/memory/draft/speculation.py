# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Speculative decoding as a server would run it: who drafts, how far ahead, and what of it a budget counts.

The tables by release are in sglang/releases/speculation_versions.py; the bytes of the draft's cache are counted in
cell_size.py, its weights in device_weights.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import Draft
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.speculation_versions import (
    DEFAULT_NGRAM_DRAFT_TOKENS,
    EAGLE,
    EAGLE3,
    NEXTN,
    NGRAM,
    STANDALONE,
    UNPLANNED_ALGORITHMS,
    counted_own_layers,
    default_lengths,
    own_draft_layers,
    speculation_facts,
)

# Of one request and step; no release drafts further by itself than 12 tokens.
MOST_DRAFT_TOKENS = 1024


@dataclass(frozen=True)
class Speculation:
    """C(draft) is None where no layers draft (NGRAM), or where the draft is not C(known).

    C(own_layers) of the target draft, or else C(model) does.
    """

    algorithm: str
    steps: int
    top_k: int
    draft_tokens: int
    draft: Draft | None
    own_layers: int
    model: ModelFacts | None
    known: bool
    counts_draft_weights: bool
    explanation: tuple[str, ...]

    @property
    def tokens_a_request(self) -> int:
        """Tokens that drafting and verifying one request take beside its own, in releases that add them."""
        return self.steps * self.top_k + self.draft_tokens


def resolve_speculation(
    version: str, target: ModelFacts, server: ServerRequest, asked: SpeculativeRequest | None
) -> Speculation | None:
    """What is in force, or a Refusal of what the release does not know or the plan does not count."""
    if asked is None:
        return None
    facts = speculation_facts(version)
    algorithm = asked.algorithm.upper()
    planned = [name for name in facts.algorithms if name not in UNPLANNED_ALGORITHMS]
    unplanned = [name for name in facts.algorithms if name in UNPLANNED_ALGORITHMS]
    if algorithm not in facts.algorithms:
        raise Refusal(
            "choice_unknown",
            f"speculative.algorithm is '{asked.algorithm}', which SGLang {version} does not know.",
            f"Expected one of {', '.join(planned)}."
            + (f" SGLang {version} also knows {' and '.join(unplanned)}, which are not planned." if unplanned else ""),
            {"option": "speculative.algorithm", "value": asked.algorithm, "choices": planned},
        )
    if algorithm in UNPLANNED_ALGORITHMS:
        raise Refusal(
            "speculative_unplanned",
            f"speculative.algorithm {algorithm} is not planned: {UNPLANNED_ALGORITHMS[algorithm]}.",
            f"Planned are {', '.join(planned)}.",
            {"algorithm": algorithm},
        )
    if target.attention.compressed is not None:
        raise Refusal(
            "speculative_unplanned",
            f"Speculative decoding gives the states of {target.architecture} larger rings and its drafts a window "
            "pool, which are not counted.",
            "Leave speculative out.",
            {"architecture": target.architecture},
        )
    _check_layout(algorithm, server)
    steps, top_k, tokens, how = _lengths(version, target, algorithm, asked)
    lines = [f"{algorithm} drafts {steps} steps of {top_k} and verifies {tokens} tokens a request{how}"]
    # NEXTN is another name for EAGLE.
    in_force = EAGLE if algorithm == NEXTN else algorithm
    draft, own, known = None, 0, True
    if algorithm != NGRAM:
        if asked.model is not None:
            draft = _draft_of_model(version, in_force, asked.model)
        else:
            own = _own_layers(version, target, in_force, asked)
            if own:
                counted = counted_own_layers(
                    version, target.architecture, target.nextn_layers, _same_path(target, asked)
                )
                draft = Draft(own, counted=counted or 0)
            else:
                known = False
    return Speculation(
        in_force,
        steps,
        top_k,
        tokens,
        draft,
        own,
        asked.model,
        known,
        facts.counts_draft_weights,
        tuple(lines),
    )


def _check_layout(algorithm: str, server: ServerRequest) -> None:
    if server.pipeline_parallel_size > 1:
        raise Refusal(
            "speculative_with_pipeline",
            f"speculative.algorithm is {algorithm} and server.pipeline_parallel_size "
            f"{server.pipeline_parallel_size}: SGLang does not serve speculative decoding over pipeline stages.",
            "Set pipeline_parallel_size to 1, or leave speculative out.",
            {"pipeline_parallel_size": server.pipeline_parallel_size},
        )
    if server.attention_data_parallel_size > 1 and algorithm in (STANDALONE, NGRAM):
        raise Refusal(
            "speculative_with_attention_dp",
            f"speculative.algorithm is {algorithm} and server.attention_data_parallel_size "
            f"{server.attention_data_parallel_size}, which SGLang refuses together.",
            "Set attention_data_parallel_size to 1, or take EAGLE, EAGLE3 or NEXTN.",
            {"algorithm": algorithm},
        )


def _lengths(version: str, target: ModelFacts, algorithm: str, asked: SpeculativeRequest) -> tuple[int, int, int, str]:
    """(steps, top k, draft tokens, how they came about)."""
    given = {
        "num_steps": asked.num_steps,
        "eagle_topk": asked.eagle_topk,
        "num_draft_tokens": asked.num_draft_tokens,
    }
    for name, value in given.items():
        if value is not None and value < 1:
            raise Refusal(
                "value_not_positive",
                f"speculative.{name} is {value}.",
                "Expected a whole number above 0.",
                {"option": f"speculative.{name}", "value": value},
            )
        if value is not None and value > MOST_DRAFT_TOKENS:
            raise Refusal(
                "speculative_lengths_unreal",
                f"speculative.{name} is {value}: a request would draft more than any context is worth at every step.",
                f"Expected {MOST_DRAFT_TOKENS} or less.",
                {"option": f"speculative.{name}", "value": value},
            )
    if algorithm == NGRAM:
        drafted = asked.num_draft_tokens or DEFAULT_NGRAM_DRAFT_TOKENS
        return asked.num_steps or drafted, asked.eagle_topk or 1, drafted, ""
    if all(value is None for value in given.values()):
        return (*default_lengths(version, target.architecture, algorithm), ", as the release chooses")
    steps, top_k, tokens = given.values()
    missing = [name for name, value in given.items() if value is None]
    if top_k == 1 and missing == ["num_draft_tokens"]:
        missing = []
    if missing:
        raise Refusal(
            "speculative_incomplete",
            f"speculative gives some of its lengths and leaves out {' and '.join(missing)}: SGLang takes all of them "
            "or none.",
            "Give num_steps, eagle_topk and num_draft_tokens, or none of them.",
            {"missing": missing},
        )
    return _checked_lengths(version, steps or 1, top_k or 1, tokens)


def _checked_lengths(version: str, steps: int, top_k: int, tokens: int | None) -> tuple[int, int, int, str]:
    if top_k == 1:
        # A chain verifies its steps and the token before them, whatever was asked for.
        if tokens not in (None, steps + 1):
            raise Refusal(
                "speculative_lengths_rewritten",
                f"speculative.num_draft_tokens is {tokens}, and SGLang {version} makes {steps + 1} of it: with "
                f"eagle_topk 1 it verifies the {steps} steps and the token before them.",
                f"Set speculative.num_draft_tokens to {steps + 1}, or leave it out.",
                {"num_draft_tokens": tokens, "in_force": steps + 1},
            )
        return steps, top_k, steps + 1, ""
    # The tree has top_k children of the root, and top_k of each of the top_k that every later step goes on from.
    most = 1 + top_k + (steps - 1) * top_k * top_k
    if tokens is not None and tokens > most:
        raise Refusal(
            "speculative_lengths_unreal",
            f"speculative.num_draft_tokens is {tokens}, and {steps} steps of {top_k} draft no more than {most} tokens.",
            f"Expected {most} or less.",
            {"num_draft_tokens": tokens, "most": most},
        )
    return steps, top_k, tokens or 1, ""


def check_draft_path(target: ModelFacts, asked: SpeculativeRequest | None) -> None:
    """Refuse a draft that no argument of the server would name."""
    if asked is None or asked.algorithm.upper() not in (EAGLE, EAGLE3, NEXTN, STANDALONE):
        return
    if asked.model_path is not None or (asked.model is not None and asked.model.path is not None):
        return
    if asked.model is None and asked.algorithm.upper() not in (EAGLE3, STANDALONE):
        return
    raise Refusal(
        "speculative_model_missing",
        f"speculative.algorithm {asked.algorithm.upper()} drafts for {target.name} with another model, and the path of "
        "none is given.",
        "Set speculative.model_path, or give speculative.model with its path.",
        {"algorithm": asked.algorithm},
    )


def _draft_of_model(version: str, algorithm: str, model: ModelFacts) -> Draft:
    """A draft model's layers; one that is the target's own checkpoint again drafts with its last layers."""
    own = own_draft_layers(version, model.architecture, model.nextn_layers)
    if algorithm == EAGLE and own:
        return Draft(own, attention=model.attention)
    attention = model.attention
    if attention.window is not None or attention.state is not None:
        raise Refusal(
            "speculative_unplanned",
            f"The draft {model.name} has {'window' if attention.window is not None else 'state'} layers, whose pools "
            "in a draft are not counted.",
            "Take a draft whose layers all keep every token, or plan from an observed start.",
            {"draft": model.name},
        )
    return Draft(attention.num_layers, attention=attention)


def _own_layers(version: str, target: ModelFacts, algorithm: str, asked: SpeculativeRequest) -> int:
    """Layers of the target that draft; 0 where another model does, whose facts were not given."""
    if algorithm in (EAGLE3, STANDALONE) or (asked.model_path is not None and not _same_path(target, asked)):
        return 0
    own = own_draft_layers(version, target.architecture, target.nextn_layers)
    if own is None:
        raise Refusal(
            "speculative_model_missing",
            f"SGLang {version} drafts with another model for {target.architecture}, and none is given.",
            "Set speculative.model_path, and give its facts under speculative.model.",
            {"architecture": target.architecture},
        )
    if own == 0:
        raise Refusal(
            "speculative_layers_unknown",
            f"How many layers of {target.name} draft is not known, or there are none.",
            "Give model.structure.num_nextn_layers (num_nextn_predict_layers of config.json), or a draft model.",
            {"architecture": target.architecture},
        )
    if target.attention.window is not None:
        raise Refusal(
            "speculative_unplanned",
            f"The layers with which {target.architecture} drafts keep windows, whose pools in a draft are not counted.",
            "Give a draft model whose layers keep every token, or leave speculative out.",
            {"architecture": target.architecture},
        )
    return own


def _same_path(target: ModelFacts, asked: SpeculativeRequest) -> bool:
    return asked.model_path is not None and asked.model_path == target.path
