# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is held of each release's health, routes and counters against the wheels, from 0.4.7 to 0.5.23."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import (
    GENERATING_HEALTH,
    LOAD_BACK_TOKENS,
    PLAIN_HEALTH,
    readiness_of,
    serving_facts_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.identity import MODEL_INFO, SERVER_INFO
from ansible_collections.gpufleet.sglang.tests.conformance.record_serving import ANSWERS

RELEASES: list[dict[str, Any]] = json.loads(ANSWERS.read_text(encoding="utf-8"))


def status(release: dict[str, Any], path: str, heard: str, starting: bool = False, draining: bool = False) -> int:
    (found,) = (
        row["status"]
        for row in release["health"]
        if (row["path"], row["heard"], row["starting"], row["draining"]) == (path, heard, starting, draining)
    )
    return int(found)


def test_every_release_was_asked() -> None:
    assert [release["sglang_version"] for release in RELEASES] == [str(version) for version in EXAMINED]
    assert all(len(release["health"]) == 18 for release in RELEASES)


@pytest.mark.parametrize("release", RELEASES, ids=[release["sglang_version"] for release in RELEASES])
def test_what_health_means(release: dict[str, Any]) -> None:
    facts = serving_facts_of(release["sglang_version"])
    # Before that only the generating one tells whether the server is ready.
    plain_generates = readiness_of(release["sglang_version"]).path != GENERATING_HEALTH
    # The plain one: 200 for nothing, or as the other one.
    plain = [status(release, PLAIN_HEALTH, heard) for heard in ("never", "before", "meanwhile")]
    assert plain == ([503, 503, 200] if plain_generates else [200, 200, 200])
    # The one that is asked: somebody's answer is enough everywhere, an old one in some.
    assert status(release, GENERATING_HEALTH, "never") == 503
    assert status(release, GENERATING_HEALTH, "meanwhile") == 200
    stale = status(release, GENERATING_HEALTH, "before") == 200
    assert stale == ("since it started" in facts.health_means)
    if plain_generates:
        for path in (PLAIN_HEALTH, GENERATING_HEALTH):
            assert status(release, path, "meanwhile", starting=True) == 503
            assert status(release, path, "meanwhile", draining=True) == 503


@pytest.mark.parametrize("release", RELEASES, ids=[release["sglang_version"] for release in RELEASES])
def test_what_a_check_asks_for_is_there(release: dict[str, Any]) -> None:
    facts = serving_facts_of(release["sglang_version"])
    ready = readiness_of(release["sglang_version"])
    routes = release["routes"]
    assert {PLAIN_HEALTH, GENERATING_HEALTH, ready.path, ready.answers} <= set(routes)
    assert (ready.path == "/ready") == ("/ready" in routes)
    for paths in (SERVER_INFO, MODEL_INFO):
        assert set(paths) & set(routes)
    assert facts.loads in (None, "/v1/loads" if "/v1/loads" in routes else "/get_load")
    assert facts.rank_field in release["rank_fields"]
    assert facts.tells_source == release["tells_source"]
    assert (facts.load_back_counter is not None) == release["counts_load_back"]
    assert release["tells_verifications"]
    assert release["selective_hits"] == [facts.selective_hits]
    assert min(release["load_back_tokens"]) == LOAD_BACK_TOKENS
