# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The defaults of the planner against those that SGLang's own argument resolver gave on simulated cards.

The answers are in oracle/defaults-*.json, recorded from the wheels by record_defaults.py; the questions are in
defaults_cases.py, the models' facts in configs/. Nothing is left out: a row is compared, or SGLang refused it, or the
model is not served by the release, or the planner refuses it for a fact that config.json does not have.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.attention_backend import (
    attention_backend_default,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.fraction_default import fraction_default
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.prefill_graphs import DISABLED
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import (
    ModelFacts,
    attention_from_config,
    model_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architectures import ARCHITECTURES
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.vision import vision_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.backend_versions import backend_rules
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version
from ansible_collections.gpufleet.sglang.tests.conformance.defaults_cases import (
    CARDS,
    MODELS,
    DefaultsCase,
    cases,
    read_config,
)

HERE = Path(__file__).resolve().parent
RECORDS = sorted((HERE / "oracle").glob("defaults-*.json"))
# Its configuration here has no vision_config, so that its tower is not known.
WITHOUT_TOWER = "gemma-4-e4b"


def facts_of(name: str) -> ModelFacts:
    config = read_config(name)
    architecture = config["architectures"][0]
    vision = vision_from_config(architecture, config)
    return model_facts(
        {
            "architecture": architecture,
            "path": f"/models/{name}",
            "attention": attention_from_config(config).as_dict(),
            "vision": None if vision is None else vision.as_dict(),
        }
    )


FACTS = {name: facts_of(name) for name in MODELS}


def case_of(row: dict[str, Any]) -> DefaultsCase:
    return DefaultsCase(**{key: value for key, value in row.items() if key != "answer"})


def flags_of(words: str) -> dict[str, Any]:
    """The flags of a command line; those without a value are switches."""
    found: dict[str, Any] = {}
    flag = ""
    for word in words.split():
        if word.startswith("--"):
            flag = word[2:]
        found[flag] = True if word.startswith("--") else word
    return found


def server_of(case: DefaultsCase) -> ServerRequest:
    given = flags_of(case.flags or "")
    chunk = given.pop("chunked-prefill-size", case.chunk)
    return ServerRequest(
        attention_backend=given.pop("attention-backend", None),
        extra_arguments=given,
        environment=dict([case.environment.split("=")]) if case.environment else {},
        tensor_parallel_size=case.tp,
        pipeline_parallel_size=case.pp,
        attention_data_parallel_size=case.dp,
        expert_parallel_size=case.ep,
        chunked_prefill_size=None if chunk is None else int(chunk),
        max_running_requests=case.running,
        max_total_tokens=case.tokens,
        context_length=case.context,
        kv_cache_dtype=case.cache or "auto",
        page_size=case.page,
    )


def drafts_of(case: DefaultsCase) -> SpeculativeRequest | None:
    if case.algorithm is None or case.algorithm == "NGRAM":
        return None if case.algorithm is None else SpeculativeRequest("NGRAM")
    branches = case.topk or 1
    return SpeculativeRequest(case.algorithm, num_steps=3, eagle_topk=branches, num_draft_tokens=4 * branches)


def ours(release: str, case: DefaultsCase, told: dict[str, Any]) -> dict[str, Any]:
    """What the collection computes, under the names of the answer that SGLang gave; what that leaves out is left."""
    model, server, drafts = FACTS[case.model], server_of(case), drafts_of(case)
    card, capability = CARDS[case.card]
    copies = "kernel" if case.hicache else None
    default = fraction_default(release, model, server, card, capability, drafts, copies)
    attending = attention_backend_default(release, model, server, capability, drafts, copies, card)
    found: dict[str, Any] = {
        "mem_fraction_static": default.fraction,
        "chunked_prefill_size": default.chunk,
        "decode_graph": default.decode_graph,
        "prefill_backend": default.prefill.backend,
        "page_size": attending.page_size,
        "kv_cache_dtype": attending.kv_cache_dtype,
    }
    # Where nothing is captured, SGLang has counts that nothing follows from.
    if default.prefill.backend != DISABLED:
        found |= {"prefill_graphs": default.prefill.count, "prefill_graph": default.prefill.tokens}
    # Releases before 0.5.5 choose when they load the model, so that only what a model class sets is in the answer.
    if told.get("attention_backend") is not None:
        found |= {"attention_backend": attending.backend, "prefill": attending.prefill}
        # What decodes beside HiCache is then chosen, too.
        if backend_rules(release).resolved_with_arguments or not case.hicache:
            found["decode"] = attending.decode
    return found


def theirs(answer: dict[str, Any], names: set[str]) -> dict[str, Any]:
    backend = answer.get("attention_backend")
    told = {
        **answer,
        "prefill": answer.get("prefill_attention_backend") or backend,
        "decode": answer.get("decode_attention_backend") or backend,
    }
    return {name: told.get(name) for name in names}


@pytest.mark.parametrize("record", RECORDS, ids=[path.stem for path in RECORDS])
def test_every_answer_of_the_real_resolver(record: Path) -> None:
    content = json.loads(record.read_text(encoding="utf-8"))
    release, wrong, fate = content["sglang"], [], Counter[str]()
    assert len(content["source"]["sha256"]) == 64
    assert content["source"]["transformers"]
    # A record that is older than the questions would hide some of them.
    assert Counter(case_of(row) for row in content["rows"]) == Counter(cases())
    for row in content["rows"]:
        case = case_of(row)
        since = ARCHITECTURES[FACTS[case.model].architecture].since
        if parse_version(release) < parse_version(since):
            fate["not served"] += 1
            continue
        if "error" in row["answer"]:
            fate["refused by SGLang"] += 1
            continue
        try:
            found = ours(release, case, row["answer"])
        except Refusal as refusal:
            assert (refusal.code, case.model) == ("mem_fraction_static_unknown", WITHOUT_TOWER)
            fate["tower not known"] += 1
            continue
        fate["compared"] += 1
        expected = theirs(row["answer"], set(found))
        if found != expected:
            wrong.append((case.asked(), {name: (expected[name], found[name]) for name in found} if found else {}))
    print(f"SGLang {release}: {dict(fate)}")
    assert wrong == []
    assert fate["compared"] >= 180
    assert fate["refused by SGLang"] <= 30
    assert fate.total() == len(content["rows"])


def test_answers_are_at_hand() -> None:
    releases = {json.loads(path.read_text(encoding="utf-8"))["sglang"] for path in RECORDS}
    # Releases in which one of these functions changed, and both ends.
    changing = {
        "0.4.7",
        "0.5.2",
        "0.5.3",
        "0.5.9",
        "0.5.10",
        "0.5.12",
        "0.5.14",
        "0.5.16",
        "0.5.18",
        "0.5.20",
        "0.5.21",
    }
    assert changing | {"0.5.23"} <= releases
