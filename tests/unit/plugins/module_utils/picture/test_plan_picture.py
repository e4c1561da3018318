# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.bars import (
    NAMES,
    Bar,
    device_bars,
    node_bars,
    whole_bars,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.plan_picture import plan_picture
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.scale import BAR_WIDTH, BAR_X, WIDTH
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.style import FILLS, PALE, PATTERNS, paint
from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.svg import text_width
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.fleet.fleets import (
    CPU_PLAN,
    KIMI_PLAN,
    OFF_PLAN,
    OVER_PLAN,
    fleet,
)

SVG = "{http://www.w3.org/2000/svg}"
ROUNDING = 0.0011


def parsed(**plans: dict[str, Any] | None) -> ElementTree.Element:
    return ElementTree.fromstring(plan_picture(fleet(**plans)))


def drawn_bars(root: ElementTree.Element) -> list[list[ElementTree.Element]]:
    """The segments of each bar, in the order of the bars; a hatch over what is short is none."""
    return [
        [rect for rect in group.findall(f"{SVG}rect") if rect.get("class") != "short"]
        for group in root.findall(f"{SVG}g")
    ]


def lengths(rects: list[ElementTree.Element]) -> list[tuple[float, float]]:
    return [(float(rect.get("x") or "nan"), float(rect.get("width") or "nan")) for rect in rects]


def expected(strip: Bar, largest_bytes: int) -> list[tuple[float, float]]:
    """Where each segment begins and how long it is, when the longest bar fills the width."""
    found, at = [], 0
    for segment in strip.segments:
        found.append((BAR_X + at * BAR_WIDTH / largest_bytes, segment.size_bytes * BAR_WIDTH / largest_bytes))
        at += segment.size_bytes
    return found


def largest(bars: Iterable[Bar]) -> int:
    return max(max(strip.size_bytes, strip.limit_bytes or 0) for strip in bars)


@pytest.mark.parametrize(
    "plans",
    [
        {"kimi": KIMI_PLAN},
        {"over": OVER_PLAN},
        {"off": OFF_PLAN},
        {"cpu": CPU_PLAN},
        {"kimi": KIMI_PLAN, "over": OVER_PLAN, "cpu": CPU_PLAN},
    ],
    ids="-".join,
)
def test_every_length_is_its_bytes_over_one_scale(plans: dict[str, dict[str, Any]]) -> None:
    drawn = drawn_bars(parsed(**plans))
    groups = [[bars_of(plan) for plan in plans.values()] for bars_of in (device_bars, node_bars, whole_bars)]
    scales = [max((largest(bars) for bars in group if bars), default=1) for group in groups]
    wanted = [expected(strip, scale) for panel in zip(*groups) for bars, scale in zip(panel, scales) for strip in bars]
    assert len(drawn) == len(wanted) > 0
    for rects, places in zip(drawn, wanted):
        assert len(rects) == len(places)
        for found, place in zip(lengths(rects), places):
            assert found == pytest.approx(place, abs=ROUNDING)
    assert max(x + width for rects in drawn for x, width in lengths(rects)) <= BAR_X + BAR_WIDTH + ROUNDING


def test_segments_have_the_paint_of_their_kind() -> None:
    [first, *_others] = drawn_bars(parsed(kimi=KIMI_PLAN))
    kinds = [segment.kind for segment in device_bars(KIMI_PLAN)[0].segments]
    assert [rect.get("fill") or rect.get("class") for rect in first] == [
        next(iter(paint(kind).values())) for kind in kinds
    ]


def test_what_is_short_is_hatched_from_the_limit_on() -> None:
    root = parsed(over=OVER_PLAN)
    [whole] = whole_bars(OVER_PLAN)
    assert whole.limit_bytes is not None
    [*_nodes, short] = [rect for rect in root.iter(f"{SVG}rect") if rect.get("class") == "short"]
    [(x, width)] = lengths([short])
    scale = BAR_WIDTH / whole.size_bytes
    assert x == pytest.approx(BAR_X + whole.limit_bytes * scale, abs=ROUNDING)
    assert width == pytest.approx(whole.short_bytes * scale, abs=ROUNDING)
    assert "141.3 GB short" in texts(root)
    assert not [rect for rect in parsed(kimi=KIMI_PLAN).iter(f"{SVG}rect") if rect.get("class") == "short"]


def test_nothing_is_written_on_what_is_short() -> None:
    root = parsed(over=OVER_PLAN)
    groups = [group for group in root.findall(f"{SVG}g") if group.find(f"{SVG}rect[@class='short']") is not None]
    assert len(groups) == 3
    for group in groups:
        [limit] = [line for line in group.findall(f"{SVG}line") if line.get("class") == "limit"]
        labels = [text for text in group.findall(f"{SVG}text") if text.get("text-anchor") == "middle"]
        assert labels
        for label in labels:
            end = float(label.get("x") or 0) + text_width(label.text or "", 11) / 2
            assert end < float(limit.get("x1") or 0)
    assert not any(text.startswith("Too narrow for a figure: KV") for text in texts(root))


def test_tokens_of_stages_and_groups_are_not_those_of_a_gpu() -> None:
    stage = {**KIMI_PLAN["device"]["stages"][0]}
    staged = {**KIMI_PLAN, "device": {**KIMI_PLAN["device"], "stages": [stage, stage]}}
    shown = " ".join(texts(parsed(pp=staged)))
    assert "159,277 tokens over 2 pipeline stages, each with its layers of every token" in shown
    assert "tokens a GPU" not in shown
    grouped = {**KIMI_PLAN, "device": {**KIMI_PLAN["device"], "token_groups": 8}}
    assert "159,277 tokens in each of 8 groups of attention data parallelism" in " ".join(texts(parsed(dp=grouped)))


def test_the_reserve_is_told_by_purpose() -> None:
    reserve = {"total_bytes": 15 * GIB, "activations_bytes": 12 * GIB, "graphs_bytes": 3 * GIB, "rest_bytes": 5}
    device = {**KIMI_PLAN["device"], "reserve": reserve, "reserved_bytes": 14 * GIB}
    shown = texts(parsed(one={**KIMI_PLAN, "device": device}))
    assert "SGLang itself would keep 15.0 GiB of a whole card: activations 12.0 GiB, graphs 3.0 GiB" in shown
    shown = texts(parsed(one={**KIMI_PLAN, "device": {**device, "mem_fraction_source": "default"}}))
    told = "Reserve of 14.0 GiB a GPU, reckoned as activations 12.0 GiB, graphs 3.0 GiB (15.0 GiB of a whole card)"
    assert told in shown


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_the_picture_says_what_it_shows() -> None:
    root = parsed(**{"kimi-01": KIMI_PLAN})
    shown = texts(root)
    assert "Memory plan of kimi-01" in shown
    assert "Kimi-K2.5 (MLA), SGLang 0.5.9, 8 x RTX PRO 6000 Server, TP8, 159,277 tokens a GPU, " in " ".join(shown)
    assert "358.17 GB pinned by 8 ranks" in " ".join(shown)
    left = "37.8 GB left of 396.0 GB available (10.7 GB of it reserve and 27.1 GB free)"
    assert left in " ".join(shown)
    assert {"27.1 GB free", "free 27.1 GB"} & set(shown)
    assert "Too narrow for a figure: reserve 5.4 GB" in shown
    assert [label for label in shown if re.fullmatch(r"GPU \d|NUMA node \d|whole host", label)] == [
        *(f"GPU {index}" for index in range(8)),
        "NUMA node 0",
        "NUMA node 1",
        "whole host",
    ]
    assert {"80 GiB", "300 GB", "weights 63.7 GiB", "10.4 GiB", "13.5 GB free", "of 95.6 GiB"} <= set(shown)


def test_it_can_be_read_aloud() -> None:
    root = parsed(**{"kimi-01": KIMI_PLAN})
    assert (root.get("role"), root.get("aria-labelledby")) == ("img", "title desc")
    named = {element.get("id"): element.text for element in root if element.get("id") in ("title", "desc")}
    assert named["title"] == "Memory plan of kimi-01"
    assert "159,277 tokens a GPU" in str(named["desc"])
    for group in root.findall(f"{SVG}g"):
        title = group.find(f"{SVG}title")
        assert title is not None and title.text
    spoken = [title.text or "" for title in root.iter(f"{SVG}title")]
    assert any(
        line.startswith("NUMA node 0 (ranks 0 to 3): KV cache 179.08 GB, reserve 5.37 GB, free 13.55 GB")
        for line in spoken
    )


def test_the_legend_names_what_is_drawn_and_nothing_else() -> None:
    shown = texts(parsed(kimi=KIMI_PLAN))
    for kind in ("weights", "kv", "rest", "idle", "free"):
        assert NAMES[kind] in shown
    for kind in ("mamba", "swa", "held", "unused", "driver"):
        assert NAMES[kind] not in shown


def test_both_colour_schemes_and_nothing_from_outside() -> None:
    picture = plan_picture(fleet(kimi=KIMI_PLAN))
    assert "prefers-color-scheme:dark" in picture
    assert "<script" not in picture and "href" not in picture and "@import" not in picture
    assert re.findall(r"https?://[^\"' ]+", picture) == ["http://www.w3.org/2000/svg"]
    assert {f"url(#{name})" for name in re.findall(r"url\(#(\w+)\)", picture)} <= {
        f"url(#{name})" for name in re.findall(r'id="(\w+)"', picture)
    }


def test_kinds_differ_without_colour() -> None:
    """What is not solid is told by its pattern, and no kind has two ways to be painted."""
    assert not set(FILLS) & set(PATTERNS) and not set(PALE) & (set(FILLS) | set(PATTERNS))
    assert set(NAMES) <= {*FILLS, *PATTERNS, *PALE}


def test_names_are_text() -> None:
    evil = '"><script>alert(1)</script>&\x1b[2J'
    plan = {**KIMI_PLAN, "model": {"name": evil, "family": "mla"}}
    root = parsed(**{evil: plan, "bad<b>": None})
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>alert(1)</script>&" in text for text in texts(root))
    assert any("bad<b>" in text for text in texts(root))


def test_nodes_alike_are_drawn_once_and_refused_ones_are_named() -> None:
    many: dict[str, Any] = {f"gpu-{number:03}": KIMI_PLAN for number in range(1, 101)}
    root = parsed(**many, over=OVER_PLAN, bad=None)
    shown = texts(root)
    assert len(root.findall(f"{SVG}g")) == 2 * 11
    assert "100 nodes alike: gpu-001 to gpu-100" in shown
    assert "bad, refused: host_memory_short" in shown
    assert "Ratio 8.0 is too much. Set hicache.ratio to 4.3 or less." in shown
    assert "102 nodes: 101 planned, 1 refused" in shown


def test_a_fleet_of_refused_nodes_has_a_picture_too() -> None:
    root = parsed(bad=None)
    assert "bad, refused: host_memory_short" in texts(root)
    assert not root.findall(f"{SVG}g")


@pytest.mark.parametrize(("gpus", "nodes"), [(1, 1), (16, 8), (8, 4)])
def test_texts_stay_within_the_picture(gpus: int, nodes: int) -> None:
    plan = resized(gpus, nodes)
    root = parsed(node=plan)
    height = float(root.get("height") or 0)
    assert len(root.findall(f"{SVG}g")) == gpus + nodes + 1
    for rect in root.iter(f"{SVG}rect"):
        x, width = float(rect.get("x") or 0), float(rect.get("width") or 0)
        assert x >= 0 and x + width <= WIDTH
    for text in root.iter(f"{SVG}text"):
        assert 0 < float(text.get("y") or 0) < height
        assert 0 < float(text.get("x") or 0) < WIDTH


def resized(gpus: int, nodes: int) -> dict[str, Any]:
    """The founding plan on so many GPUs and nodes, each rank as before."""
    ranks = range(gpus)
    homes = {rank: rank * nodes // gpus for rank in ranks}
    host = KIMI_PLAN["host"]
    rank_bytes = host["bytes_per_rank"]
    by_node = {node: [rank for rank in ranks if homes[rank] == node] for node in range(nodes)}
    available = gpus * 50_000_000_000
    return {
        **KIMI_PLAN,
        "machine": {
            **KIMI_PLAN["machine"],
            "gpus": [{**KIMI_PLAN["machine"]["gpus"][0], "count": gpus}],
            "numa_nodes": list(range(nodes)),
        },
        "placement": [{"rank": rank, "gpu": rank, "numa_node": homes[rank]} for rank in ranks],
        "host": {
            **host,
            "ranks": gpus,
            "bytes_total": gpus * rank_bytes,
            "available_bytes": available,
            "left_bytes": available - gpus * rank_bytes,
            "numa": [
                {
                    "node": node,
                    "ranks": held,
                    "pinned_bytes": len(held) * rank_bytes,
                    "available_bytes": available // nodes,
                    "left_bytes": available // nodes - len(held) * rank_bytes,
                }
                for node, held in by_node.items()
            ],
        },
    }
