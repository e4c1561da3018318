# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How each release tells that it is ready and serves, and where cached tokens came from, as data.

Read in every wheel from 0.4.7 to 0.5.23; the file behind each table is named beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import (
    NEWEST,
    Version,
    parse_version,
    value_at,
)

# entrypoints/http_server.py health_generate: every release has it, always generates, and needs no key. It looks once a
# second whether anything came from the detokenizer, and gives up after SGLANG_HEALTH_CHECK_TIMEOUT.
GENERATING_HEALTH = "/health_generate"
# Where that is not to be had: a proxy that passes only this on.
PLAIN_HEALTH = "/health"
HEALTH_TIMEOUT_SECONDS = 20.0

# What an answer of 200 to it means.
_HEALTH_MEANS: tuple[tuple[str, str], ...] = (
    # A time since boot is compared with one since 1970 (perf_counter and time), so one answer ever is enough.
    ("0.4.7", "it has answered something since it started"),
    ("0.4.10", "some answer to anybody left the server while it was asked"),
)
# The path that answers 200 once the server's own warm-up is over, and not before, and whether it makes the server
# generate. To 0.4.10 /health is 200 from the first moment, and only the other one asks the ranks. From 0.5.0rc2 on both
# are 503 until the warm-up is over, and generate then; SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION=false turns that off
# for /health from 0.5.6 on. /ready (is_ready of managers/tokenizer_manager.py) tells the same and generates nothing.
_PROOF: tuple[tuple[str, tuple[str, bool]], ...] = (
    ("0.4.7", (GENERATING_HEALTH, True)),
    ("0.5.0rc2", (PLAIN_HEALTH, True)),
    ("0.5.20", ("/ready", False)),
)
# Answered without any generation as soon as the HTTP server runs.
_MODEL_INFO = (("0.4.7", "/get_model_info"), ("0.5.6", "/model_info"))

# managers/tokenizer_manager.py meta_info["cached_tokens_details"]; left out where nothing was cached.
_TELLS_SOURCE = (("0.4.7", False), ("0.5.9", True))
# metrics/collector.py, later observability/metrics_collector.py: tokens that came back from the host.
LOAD_BACK_COUNTER = "sglang:load_back_tokens_total"
_LOAD_BACK_COUNTER: tuple[tuple[str, str | None], ...] = (("0.4.7", None), ("0.5.6", LOAD_BACK_COUNTER))

# managers/io_struct.py GenerateReqInput: the data parallel rank that a request is to go to. The new name is known from
# 0.5.10 on; the old one is gone from 0.5.15 to 0.5.17 and deprecated since.
_RANK_FIELD = (("0.4.7", "data_parallel_rank"), ("0.5.10", "routed_dp_rank"))

# entrypoints/http_server.py get_load (a single number before 0.5.3), entrypoints/v1_loads.py. Both ask the schedulers.
_LOADS: tuple[tuple[str, str | None], ...] = (("0.4.7", None), ("0.5.3", "/get_load"), ("0.5.8", "/v1/loads"))

# mem_cache/hiradix_cache.py write_through_threshold, later mem_cache/unified_cache/: so often has a prompt to be seen
# before write_through_selective stores it. One request is seen once or twice.
_SELECTIVE_HITS = (("0.4.7", 3), ("0.5.2", 2))
# The same files: fewer tokens than these are computed again rather than loaded back. Two caches have 256.
LOAD_BACK_TOKENS = 10


@dataclass(frozen=True)
class Readiness:
    """C(path) answers 200 once the server's own warm-up is over, and not before.

    C(generates): it then makes the server generate a token, which takes a second and more, and marks the server as
    unhealthy where that fails. C(answers): a path that is answered, without any generation, as soon as the HTTP server
    runs, which is once every rank has loaded and pinned; the warm-up comes after that. It may want the server's key.
    """

    path: str
    generates: bool
    answers: str


def readiness_of(text: str) -> Readiness:
    """Of a release by name; the newest that was read stands for any later one."""
    version = parse_version(text)
    path, generates = value_at(_PROOF, version)
    return Readiness(path, generates, value_at(_MODEL_INFO, version))


@dataclass(frozen=True)
class ServingFacts:
    """Of one release; the newest that was read stands for any later one."""

    health_means: str
    tells_source: bool
    load_back_counter: str | None
    rank_field: str
    loads: str | None
    selective_hits: int


def serving_facts(version: Version) -> ServingFacts:
    return ServingFacts(
        health_means=value_at(_HEALTH_MEANS, version),
        tells_source=value_at(_TELLS_SOURCE, version),
        load_back_counter=value_at(_LOAD_BACK_COUNTER, version),
        rank_field=value_at(_RANK_FIELD, version),
        loads=value_at(_LOADS, version),
        selective_hits=value_at(_SELECTIVE_HITS, version),
    )


def serving_facts_of(text: str | None) -> ServingFacts:
    """By name; the newest where none is given."""
    return serving_facts(NEWEST if text is None else parse_version(text))
