# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import (
    LOAD_BACK_COUNTER,
    readiness_of,
    serving_facts_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED


@pytest.mark.parametrize(
    ("version", "source", "counter", "field", "loads", "hits"),
    [
        ("0.4.7", False, None, "data_parallel_rank", None, 3),
        ("0.5.2", False, None, "data_parallel_rank", None, 2),
        ("0.5.6", False, LOAD_BACK_COUNTER, "data_parallel_rank", "/get_load", 2),
        ("0.5.9", True, LOAD_BACK_COUNTER, "data_parallel_rank", "/v1/loads", 2),
        ("0.5.10", True, LOAD_BACK_COUNTER, "routed_dp_rank", "/v1/loads", 2),
        ("0.5.23", True, LOAD_BACK_COUNTER, "routed_dp_rank", "/v1/loads", 2),
    ],
)
def test_what_a_release_can_be_asked(
    version: str, source: bool, counter: str | None, field: str, loads: str | None, hits: int
) -> None:
    facts = serving_facts_of(version)
    assert (facts.tells_source, facts.load_back_counter) == (source, counter)
    assert (facts.rank_field, facts.loads, facts.selective_hits) == (field, loads, hits)


def test_a_release_that_was_not_read_is_as_the_newest() -> None:
    assert serving_facts_of("0.9.0") == serving_facts_of(str(EXAMINED[-1])) == serving_facts_of(None)


@pytest.mark.parametrize(
    ("version", "path", "generates", "answers"),
    [
        ("0.4.7", "/health_generate", True, "/get_model_info"),
        ("0.4.10", "/health_generate", True, "/get_model_info"),
        ("0.5.0rc2", "/health", True, "/get_model_info"),
        ("0.5.5", "/health", True, "/get_model_info"),
        ("0.5.6", "/health", True, "/model_info"),
        ("0.5.19", "/health", True, "/model_info"),
        ("0.5.20", "/ready", False, "/model_info"),
        ("0.9.0", "/ready", False, "/model_info"),
    ],
)
def test_how_a_release_proves_that_it_is_ready(version: str, path: str, generates: bool, answers: str) -> None:
    found = readiness_of(version)
    assert (found.path, found.generates, found.answers) == (path, generates, answers)
