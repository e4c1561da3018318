# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""What is predicted of HiCache's settings against what SGLang itself made of them: oracle/launch-<release>.json, every
row and every column, and a recording beside the repository where it is at hand."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.pool_request import (
    attention_in_force,
    pool_request,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.fraction.attention_backend import (
    attention_backend_default,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import choices_of, has_flag
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.hicache_in_force import (
    Beside,
    HiCacheFlags,
    hicache_in_force,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import (
    VersionFacts,
    version_facts,
)
from ansible_collections.gpufleet.sglang.tests.conformance.launch_cases import CARDS
from ansible_collections.gpufleet.sglang.tests.conformance.recorded_data import DATA, needs_recorded_data

HERE = Path(__file__).resolve().parent
ORACLE = HERE / "oracle"
# Before and after every change of the rules in hicache_versions.py that a released server answers for here.
RELEASES = ("0.5.9", "0.5.14", "0.5.23")


def read(words: list[str]) -> dict[str, Any]:
    """Flags and their values; a flag without one is True."""
    found: dict[str, Any] = {}
    for word, following in zip(words, [*words[1:], "--"]):
        if word.startswith("--"):
            found[word[2:]] = True if following.startswith("--") else following
    return found


def flags_of(given: dict[str, Any]) -> HiCacheFlags:
    def number(name: str, kind: Any) -> Any:
        return None if name not in given else kind(given[name])

    return HiCacheFlags(
        io_backend=given.get("hicache-io-backend"),
        mem_layout=given.get("hicache-mem-layout"),
        ratio=number("hicache-ratio", float),
        size_gb=number("hicache-size", int),
        host_memory_fraction=number("hicache-host-memory-fraction", float),
        write_policy=given.get("hicache-write-policy"),
        storage_backend=given.get("hicache-storage-backend"),
        host_memory_mode=given.get("hicache-host-memory-mode", "cache"),
    )


def beside_of(given: dict[str, Any], latent: bool) -> Beside:
    return Beside(
        decode_attention_backend=given.get("decode-attention-backend"),
        latent=latent,
        speculative_algorithm=given.get("speculative-algorithm"),
        decode_context_parallel_size=int(given.get("dcp-size", 1)),
        disable_radix_cache="disable-radix-cache" in given,
        lmcache="enable-lmcache" in given,
        unified_memory="enable-unified-memory" in given,
    )


def model_of(config: dict[str, Any], name: str) -> ModelFacts:
    return ModelFacts(
        name=name,
        architecture=config["architectures"][0],
        attention=attention_from_config(config),
        dtype="bfloat16",
        quantization=None,
        kv_cache_quantized=False,
        weights_bytes=None,
        max_position_embeddings=None,
        path=None,
    )


def understood(facts: VersionFacts, flag: str, value: Any) -> bool:
    """Whether the release's parser takes a flag and its value."""
    choices = choices_of(flag, facts.version)
    return has_flag(flag, facts.version) and (choices is None or str(value) in choices)


def predicted(release: str, model: ModelFacts, card: str, given: dict[str, Any]) -> dict[str, Any] | None:
    """Every column that is recorded, or None where a refusal of the server is predicted."""
    facts = version_facts(release)
    if not all(understood(facts, flag, value) for flag, value in given.items()):
        return None
    try:
        found = hicache_in_force(facts, flags_of(given), beside_of(given, model.attention.latent))
    except Refusal:
        return None
    algorithm = given.get("speculative-algorithm")
    server = ServerRequest(
        tensor_parallel_size=8,
        page_size=int(given["page-size"]) if "page-size" in given else None,
        attention_backend=given.get("attention-backend"),
        extra_arguments={
            name: given[name] for name in ("decode-attention-backend", "disable-radix-cache") if name in given
        },
    )
    draft = None
    if algorithm is not None:
        topk = given.get("speculative-eagle-topk")
        draft = SpeculativeRequest(algorithm, eagle_topk=int(topk) if topk else None)
    capability, card_mib = CARDS[card]
    defaults = attention_backend_default(release, model, server, capability, draft, found.io_backend, card_mib)
    _attention, whole_windows_by = attention_in_force(
        model.architecture,
        model.attention,
        release,
        pool_request({}),
        defaults.backend,
        hicache=True,
        blackwell=capability[0] == 10,
    )
    return {
        "disable_hybrid_swa_memory": whole_windows_by is not None,
        "hicache_io_backend": found.io_backend,
        "hicache_mem_layout": found.mem_layout,
        "hicache_ratio": found.ratio,
        "hicache_size": found.size_gb,
        "hicache_host_memory_fraction": found.host_memory_fraction,
        "hicache_write_policy": found.write_policy,
        "disable_radix_cache": False,
        "page_size": defaults.page_size,
        "attention_backend": defaults.backend,
        "prefill_attention_backend": None if defaults.prefill == defaults.backend else defaults.prefill,
        "decode_attention_backend": (
            defaults.decode if "decode-attention-backend" in given or defaults.decode != defaults.backend else None
        ),
    }


def config_of(name: str) -> dict[str, Any]:
    text = (HERE / "configs" / f"{name}.yml").read_text(encoding="utf-8")
    return dict(yaml.safe_load(text)["config"])


def test_every_recorded_release_is_compared() -> None:
    assert {path.stem for path in ORACLE.glob("launch-*.json")} == {f"launch-{release}" for release in RELEASES}


@needs_recorded_data
def test_every_row_of_the_recorded_normalisation_is_predicted() -> None:
    rows = json.loads((DATA / "sglang" / "hicache-normalisation-0.5.23.json").read_text(encoding="utf-8"))
    model = model_of(config_of("llama-3.3-70b"), "llama3-70b")
    wrong: list[Any] = []
    refused = 0
    for row in rows:
        found = predicted("0.5.23", model, "h200", read(row["args"]))
        if "error" in row:
            refused += 1
            if found is not None:
                wrong.append((row["args"], row["error"], found))
            continue
        recorded = {name: value for name, value in row.items() if name not in ("args", "log")}
        if found is None or {name: found[name] for name in recorded} != recorded:
            wrong.append((row["args"], recorded, found))
    assert wrong == []
    assert (len(rows), refused) == (62, 4)


def mismatches(recorded: dict[str, Any]) -> tuple[list[Any], int]:
    """Rows with another answer than is predicted, and how many were compared."""
    release, columns = recorded["sglang"], recorded["columns"]
    models = {name: model_of(config_of(name), name) for name in {row[1] for row in recorded["rows"]}}
    off = {
        (card, model, base): recorded["answers"][index]
        for card, model, base, hicache, index in recorded["rows"]
        if hicache is None
    }
    wrong: list[Any] = []
    compared = 0
    for card, model, base, hicache, index in recorded["rows"]:
        answer = recorded["answers"][index]
        # What this release does not start without HiCache says nothing of HiCache.
        if hicache is None or isinstance(off[card, model, base], str):
            continue
        compared += 1
        found = predicted(release, models[model], card, read([*base.split(), *hicache.split()]))
        if isinstance(answer, str):
            if found is not None:
                wrong.append((card, model, base, hicache, answer))
            continue
        if found is None:
            wrong.append((card, model, base, hicache, "a refusal is predicted"))
            continue
        wanted = dict(zip(columns, answer))
        assert wanted.pop("enable_hierarchical_cache") is True
        differs = {name: (value, found[name]) for name, value in wanted.items() if found[name] != value}
        if differs:
            wrong.append((card, model, base, hicache, differs))
    return wrong, compared


@pytest.mark.parametrize("release", RELEASES)
def test_every_answer_of_the_servers_own_resolver_is_predicted(release: str) -> None:
    recorded = json.loads((ORACLE / f"launch-{release}.json").read_text(encoding="utf-8"))
    assert recorded["sglang"] == release
    wrong, compared = mismatches(recorded)
    assert wrong == []
    assert compared > 300


def test_an_answer_that_differs_is_found() -> None:
    recorded = json.loads((ORACLE / "launch-0.5.23.json").read_text(encoding="utf-8"))
    for index, answer in enumerate(recorded["answers"]):
        if not isinstance(answer, str) and answer[recorded["columns"].index("enable_hierarchical_cache")]:
            for column, name in enumerate(recorded["columns"]):
                if name == "enable_hierarchical_cache":
                    continue
                answers = [list(one) if isinstance(one, list) else one for one in recorded["answers"]]
                answers[index][column] = "another"
                rows = [row for row in recorded["rows"] if row[-1] == index or row[3] is None]
                wrong, _compared = mismatches({**recorded, "answers": answers, "rows": rows})
                assert any(name in differs for *_row, differs in wrong)
            return
    raise AssertionError("no answer has HiCache")
