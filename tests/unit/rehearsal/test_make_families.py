# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import attention_from_config
from ansible_collections.gpufleet.sglang.rehearsal.sglang_on_cpu import make_families

DESCRIPTIONS = Path(make_families.__file__).parent / "families"


@pytest.fixture(name="made", scope="module")
def fixture_made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("families")
    assert make_families.main([str(DESCRIPTIONS), str(folder)]) == 0
    return folder


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_every_family_that_is_planned_has_a_model(made: Path) -> None:
    found = {attention_from_config(read_json(path)).family for path in made.glob("*/config.json")}
    assert found >= {"mha", "gqa", "mqa", "mla", "dsa", "swa", "linear", "linear_mla"}


def test_a_model_has_what_a_folder_needs(made: Path) -> None:
    for folder in made.iterdir():
        names = {path.name for path in folder.iterdir()}
        assert names == {"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"}
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o644}


def test_a_nested_text_model_gets_what_all_have_in_common(made: Path) -> None:
    nested = read_json(made / "llama-4" / "config.json")["text_config"]
    assert nested["vocab_size"] == read_json(made / "qwen3" / "config.json")["vocab_size"]


def test_the_second_run_writes_nothing(made: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert make_families.main([str(DESCRIPTIONS), str(made)]) == 0
    assert capsys.readouterr().out.endswith(" 0 files changed\n")


@pytest.mark.parametrize("text", ["", "config: {}\n", "config: [LlamaForCausalLM]\n"])
def test_what_describes_no_model_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (tmp_path / "broken.yml").write_text(text, encoding="utf-8")
    with pytest.raises(SystemExit):
        make_families.main([str(tmp_path), str(tmp_path / "made")])
    assert "broken.yml has no config with architectures" in capsys.readouterr().err
    assert not (tmp_path / "made").exists()
