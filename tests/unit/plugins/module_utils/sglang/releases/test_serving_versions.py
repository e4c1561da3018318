# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import (
    LOAD_BACK_COUNTER,
    serving_facts_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED


@pytest.mark.parametrize(
    ("version", "plain", "source", "counter", "field", "loads", "hits"),
    [
        ("0.4.7", False, False, None, "data_parallel_rank", None, 3),
        ("0.5.2", True, False, None, "data_parallel_rank", None, 2),
        ("0.5.6", True, False, LOAD_BACK_COUNTER, "data_parallel_rank", "/get_load", 2),
        ("0.5.9", True, True, LOAD_BACK_COUNTER, "data_parallel_rank", "/v1/loads", 2),
        ("0.5.10", True, True, LOAD_BACK_COUNTER, "routed_dp_rank", "/v1/loads", 2),
        ("0.5.23", True, True, LOAD_BACK_COUNTER, "routed_dp_rank", "/v1/loads", 2),
    ],
)
def test_what_a_release_can_be_asked(
    version: str, plain: bool, source: bool, counter: str | None, field: str, loads: str | None, hits: int
) -> None:
    facts = serving_facts_of(version)
    assert (facts.plain_health_generates, facts.tells_source, facts.load_back_counter) == (plain, source, counter)
    assert (facts.rank_field, facts.loads, facts.selective_hits) == (field, loads, hits)


def test_a_release_that_was_not_read_is_as_the_newest() -> None:
    assert serving_facts_of("0.9.0") == serving_facts_of(str(EXAMINED[-1])) == serving_facts_of(None)
