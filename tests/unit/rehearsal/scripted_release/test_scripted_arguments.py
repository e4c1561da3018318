# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.arguments import prepare

CONFIG = """\
# Ansible managed
device: cpu
enable-hierarchical-cache: true
enable-metrics: true
hicache-ratio: 8.0
host: 127.0.0.1
max-total-tokens: 4096
model-path: /srv/models/rehearsal-llama
page-size: 16
port: 30000
trust-remote-code: false
tp-size: 2
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "duo.yaml"
    path.write_text(CONFIG, encoding="utf-8")
    return str(path)


def test_the_file_gives_the_arguments(config: str) -> None:
    found = prepare(["--config", config], admin_key=True)
    assert (found.tp_size, found.page_size, found.hicache_ratio, found.max_total_tokens) == (2, 16, 8.0, 4096)
    assert (found.enable_hierarchical_cache, found.enable_metrics, found.trust_remote_code) == (True, True, False)
    assert (found.api_key, found.admin_api_key, found.hicache_size) == (None, None, 0)


def test_what_the_release_resolves_itself(config: str) -> None:
    found = prepare(["--config", config], admin_key=True)
    assert found.served_model_name == "/srv/models/rehearsal-llama"
    assert found.hicache_write_policy == "write_through"


def test_the_command_line_outranks_the_file(config: str) -> None:
    found = prepare(["--port", "1", "--config", config, "--served-model-name", "other"], admin_key=True)
    assert (found.port, found.served_model_name, found.host) == (1, "other", "127.0.0.1")


@pytest.mark.parametrize(
    "words", [["--no-such-flag", "1"], ["--device", "tpu"], ["--page-size", "many"], ["--hicache-io-backend", "best"]]
)
def test_what_argparse_refuses_ends_the_start(
    config: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        prepare(["--config", config, *words], admin_key=True)
    assert "launch_server.py: error: " in capsys.readouterr().err


def test_an_unknown_name_in_the_file_is_refused_too(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(config).write_text(f"{CONFIG}no-such-flag: 1\n", encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        prepare(["--config", config], admin_key=True)
    assert "unrecognized arguments: --no-such-flag 1" in capsys.readouterr().err


def test_the_key_for_administration_begins_with_0_5_8(config: str) -> None:
    assert prepare(["--config", config, "--admin-api-key", "x"], admin_key=True).admin_api_key == "x"
    with pytest.raises(SystemExit, match="2"):
        prepare(["--config", config, "--admin-api-key", "x"], admin_key=False)


@pytest.mark.parametrize("words", [["--config"], ["--config", "a.yaml", "--config", "b.yaml"]])
def test_one_file_is_expected(words: list[str]) -> None:
    with pytest.raises(ValueError, match="one --config"):
        prepare(words, admin_key=True)
