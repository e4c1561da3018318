# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""The table of model classes against the wheels: which release serves which, and what SGLang itself makes of them.

oracle/model-classes.json is read out of the wheels by record_classes.py, oracle/families-*.json by record_oracle.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architectures import (
    ARCHITECTURES,
    COMPRESSED,
    DRAFTS,
    GENERIC_PREFIX,
    INDEX_SINCE,
    LATENT,
    MAY_HAVE_INDEX,
    MULTIMODAL,
    SPARSE,
    STATE,
    UNPLANNED,
    WINDOW,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED, parse_version

ORACLE = Path(__file__).resolve().parent / "oracle"


def load(name: str) -> dict[str, Any]:
    return dict(json.loads((ORACLE / name).read_text(encoding="utf-8")))


CLASSES = load("model-classes.json")
RECORDS = {path.stem.split("-", 1)[1]: load(path.name)["classes"] for path in sorted(ORACLE.glob("families-*.json"))}
DECIDED: dict[str, dict[str, Any]] = RECORDS["0.5.23"]
# Their states are kept by classes that their files inherit from or wrap.
STATES_BY_INHERITANCE = {
    "NemotronH_Nano_VL_V2",
    "BailingMoeV2_5ForCausalLM",
    "BailingMoeV3ForCausalLM",
    "Lfm2VlForConditionalGeneration",
    "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForCausalLM",
}


def test_every_release_was_read() -> None:
    assert [row["sglang"] for row in CLASSES["releases"]] == [str(version) for version in EXAMINED]
    assert all(len(row["sha256"]) == 64 for row in CLASSES["releases"])


def test_first_release_of_every_class() -> None:
    since: dict[str, str] = {}
    for row in CLASSES["releases"]:
        for name in row["added"]:
            since.setdefault(name, row["sglang"])
    assert {name: row.since for name, row in ARCHITECTURES.items()} == {name: since[name] for name in ARCHITECTURES}
    # No class of any release is left out silently: planned, refused with its reason, a draft, or generic.
    listed = {*ARCHITECTURES, *UNPLANNED, *DRAFTS}
    assert {name for name in since if name not in listed and not name.startswith(GENERIC_PREFIX)} == set()
    assert not set(ARCHITECTURES) & (set(UNPLANNED) | DRAFTS)


def test_classes_that_ended_are_not_planned() -> None:
    ended = {name for row in CLASSES["releases"] for name in row["removed"]}
    assert ended == {"VILAForConditionalGeneration"}
    assert not ended & set(ARCHITECTURES)


@pytest.mark.parametrize(
    ("release", "name"),
    [(release, name) for release, classes in RECORDS.items() for name in classes if name in ARCHITECTURES],
)
def test_kind_is_what_sglang_decides(release: str, name: str) -> None:
    row, kind = RECORDS[release][name], ARCHITECTURES[name].kind
    latent = row["attention"] == "MLA"
    if kind == STATE:
        assert name in CLASSES["states"] or name in STATES_BY_INHERITANCE
        assert latent == name.startswith(("KimiLinear", "BailingMoeV"))
    else:
        assert name not in CLASSES["states"]
        assert latent == (kind == LATENT)
    assert row["window"] == (kind in (WINDOW, COMPRESSED))
    assert row["sparse"] == (kind == SPARSE)
    without_index = name in INDEX_SINCE and parse_version(release) < parse_version(INDEX_SINCE[name])
    assert row["index"] == (name in MAY_HAVE_INDEX and not without_index)
    assert row["multimodal"] == (name in MULTIMODAL)


def test_nearly_all_classes_were_asked() -> None:
    """A class whose file cannot be imported without a GPU is missing from the registry, and named here."""
    assert set(ARCHITECTURES) - set(DECIDED) == UNASKED


# MiDashengLM wants torchaudio.
UNASKED = {"MiDashengLMModel"}
