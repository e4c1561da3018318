# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The table of pipeline stages against the wheels, as record_pipeline.py read them into oracle/pipeline.json."""

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architectures import ARCHITECTURES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pipeline_versions import (
    pipeline_since,
    runs_over_stages,
    stage_keeps_all_layers,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED, parse_version
from ansible_collections.gpufleet.sglang.tests.conformance.record_pipeline import ALL, NONE, OWN, Models, parsed

RECORD: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parent / "oracle" / "pipeline.json").read_text(encoding="utf-8")
)
RELEASES = [row["sglang"] for row in RECORD["releases"]]


def recorded(name: str, release: str) -> str | None:
    kinds = [kind for since, kind in RECORD["classes"][name] if parse_version(since) <= parse_version(release)]
    return str(kinds[-1]) if kinds else None


def test_every_release_was_read() -> None:
    assert [str(version) for version in EXAMINED] == RELEASES
    assert all(len(row["sha256"]) == 64 for row in RECORD["releases"])
    assert set(ARCHITECTURES) <= set(RECORD["classes"])


@pytest.mark.parametrize("release", RELEASES)
def test_how_every_class_runs(release: str) -> None:
    served = {name: kind for name in ARCHITECTURES if (kind := recorded(name, release)) is not None}
    assert len(served) > 60
    for name, kind in served.items():
        ours = NONE
        if runs_over_stages(release, name):
            ours = ALL if stage_keeps_all_layers(release, name) else OWN
        assert ours == kind, name


def test_no_class_loses_its_stages_again() -> None:
    # The table has only beginnings, so it could not say so.
    for name in ARCHITECTURES:
        kinds = [kind for _since, kind in RECORD["classes"][name]]
        assert NONE not in kinds[1:], name


@pytest.mark.parametrize(
    ("name", "since", "whole"),
    [
        ("LlamaForCausalLM", "0.4.7", set()),
        ("Mistral3ForConditionalGeneration", "0.5.6", {"0.5.6", "0.5.9", "0.5.23"}),
        ("Qwen3_5MoeForConditionalGeneration", "0.5.9", {"0.5.9"}),
        ("Gemma3ForConditionalGeneration", None, set()),
    ],
)
def test_some_of_them_by_name(name: str, since: str | None, whole: set[str]) -> None:
    assert pipeline_since(name) == since
    assert {release for release in ("0.5.6", "0.5.9", "0.5.23") if stage_keeps_all_layers(release, name)} == whole


INNER = """
class Inner(Module):
    def forward(self, input_ids, pp_proxy_tensors=None): ...
class Whole(Inner):
    EXTRA = 1
class Own(Inner):
    @property
    def start_layer(self): ...
class Set(Inner):
    def __init__(self):
        self.layers, self.start_layer, self.end_layer = make()
class Reader(Inner):
    def load_weights(self):
        return self.start_layer
class Plain(Inner):
    def forward(self, input_ids): ...
"""
OUTER = """
from sglang.srt.models.inner import Own as Base
from sglang.srt.models.inner import Whole
class Derived(Base): ...
class Wrapper:
    def __init__(self):
        self.inner = Whole()
    def __getattr__(self, name):
        return getattr(self.inner, name)
class Own(Module):
    def forward(self, input_ids): ...
"""


@pytest.mark.parametrize(
    ("module", "name", "kind"),
    [
        ("inner", "Whole", ALL),
        ("inner", "Own", OWN),
        ("inner", "Set", OWN),
        ("inner", "Reader", ALL),
        ("inner", "Plain", NONE),
        ("outer", "Derived", OWN),
        ("outer", "Wrapper", ALL),
        # Of two classes of one name, that of the file is meant.
        ("outer", "Own", NONE),
    ],
)
def test_what_a_class_is_read_as(module: str, name: str, kind: str) -> None:
    assert Models({"inner": parsed(INNER), "outer": parsed(OUTER)}).kind(module, name) == kind
