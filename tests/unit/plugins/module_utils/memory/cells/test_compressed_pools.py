# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.compressed_pools import (
    CompressedRequest,
    compressed_of_tokens,
    counted_bytes,
    divide_compressed,
    layers_of,
    row_bytes,
    token_bytes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device_pools import DevicePools
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.compressed_versions import (
    compressed_facts,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.compressed_models import SMALL_V4

ATTENTION = attention_from_config(SMALL_V4)
COMPRESSED = ATTENTION.compressed
assert COMPRESSED is not None
ALL = range(9)
GIB = 1 << 30


def divided(
    release: str, budget: int = 8 * GIB, cap: int | None = None, stages: tuple[range, ...] = (ALL,), **asked: float
) -> DevicePools:
    assert COMPRESSED is not None
    request = CompressedRequest(int(asked.get("requests", 256)), asked.get("ratio"))
    return divide_compressed(COMPRESSED, stages, compressed_facts(release), request, 512, budget, cap)[0]


def test_a_row_has_its_part_of_what_fills_a_page() -> None:
    assert row_bytes(256) == row_bytes(64) == 585
    assert row_bytes(2) == 864


def test_layers_are_those_of_the_stage() -> None:
    assert COMPRESSED is not None
    every, last = layers_of(COMPRESSED, ALL), layers_of(COMPRESSED, range(6, 9))
    assert (every.layers, every.of_4, every.of_128) == (9, 4, 3)
    assert (last.layers, last.of_4, last.of_128) == (3, 2, 1)
    # (585 + 132) x 4 / 4 and 864 x 3 / 128, rounded up.
    assert token_bytes(COMPRESSED, every) == 717 + 21


def test_pools_of_tokens_follow_pages() -> None:
    assert COMPRESSED is not None
    found, lines = compressed_of_tokens(
        COMPRESSED, [ALL], compressed_facts("0.5.23"), CompressedRequest(3), 512, 256 * 40 + 255
    )
    slots = {pool.kind: (pool.slots, pool.padding) for pool in found.pools}
    # 40 pages of tokens, four of the window, and four requests with one more.
    assert found.tokens == 10_240
    assert slots == {
        "swa": (1024, 256),
        "c4": (2560, 64 * 4),
        "c4_indexer": (2560, 64 * 4),
        "c128": (80, 256),
        "c4_state": (32, 12),
        "c4_indexer_state": (32, 12),
        "c128_state": (512, 256),
    }
    assert lines[0].endswith("= 10,240")


def test_states_belong_to_requests_from_0_5_15_on() -> None:
    by_window, by_request = divided("0.5.14"), divided("0.5.15")
    assert by_window.slots("c128_state") == by_window.slots("swa")
    assert by_request.slots("c128_state") == 257 * 128
    # States of ratio 128 for every window page took what is tokens now.
    assert by_request.tokens > by_window.tokens
    assert divided("0.5.15", requests=64).tokens > by_request.tokens


def test_0_5_12_counts_the_layer_that_drafts() -> None:
    assert COMPRESSED is not None
    asked = CompressedRequest(256)
    before, after = (
        counted_bytes(COMPRESSED, ALL, compressed_facts(release), asked, 512) for release in ("0.5.12", "0.5.13")
    )
    assert before - after == pytest.approx(0.1 * 584)


@pytest.mark.parametrize(("release", "taken"), [("0.5.19", 0.1), ("0.5.20", 0.8)])
def test_a_share_of_0_8_was_taken_for_none(release: str, taken: float) -> None:
    found = divided(release, ratio=0.8)
    assert found.slots("swa") == int(found.tokens * taken) // 256 * 256


def test_the_stage_with_the_fewest_tokens_decides() -> None:
    stages = (range(3), range(3, 6), range(6, 9))
    alone = [divided("0.5.23", stages=(stage,)).tokens for stage in stages]
    together = divided("0.5.23", stages=stages)
    assert together.tokens == min(alone) < max(alone)
    assert [len(part) for part in together.stages] == [5, 7, 7]


def test_a_cap_keeps_what_was_profiled() -> None:
    free, capped = divided("0.5.23"), divided("0.5.23", cap=100_000)
    assert (capped.tokens, capped.profiled) == (99_840, free.tokens)
    assert divided("0.5.23", cap=free.tokens + 256).tokens == free.tokens


def test_a_budget_below_the_states_gives_no_tokens() -> None:
    assert divided("0.5.23", budget=1 << 20).tokens == 0
    assert divided("0.5.23", budget=1 << 20).pools == ()


@pytest.mark.parametrize(("release", "refused"), [("0.5.19", False), ("0.5.20", True)])
def test_a_window_pool_below_one_request_is_refused(release: str, refused: bool) -> None:
    if not refused:
        assert divided(release, cap=2048).slots("swa") == 0
        return
    with pytest.raises(Refusal) as refusal:
        divided(release, cap=2048)
    assert refusal.value.code == "window_pool_too_small"
