# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The capacity playbook as a person runs it, on paper alone."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.catalogue import CATALOGUE
from ansible_collections.gpufleet.sglang.tests.integration.plays import ROOT, Play

PLAYBOOK = "gpufleet.sglang.capacity"
GUIDE = ROOT / "docs" / "capacity.md"
MODEL = {
    "name": "Qwen3-32B",
    "architecture": "Qwen3ForCausalLM",
    "attention": {"num_layers": 64, "num_attention_heads": 64, "num_kv_heads": 8, "head_dim": 128},
    "weights": {"total_bytes": 65_524_246_528},
}


def play(*arguments: str, **variables: object) -> str:
    outcome = Play("-e", json.dumps(variables), *arguments, playbook=PLAYBOOK, inventory="example").finish()
    assert outcome.status == 0, outcome.output
    assert "[WARNING]" not in outcome.output, outcome.output
    assert outcome.changed == 0
    return outcome.output


def test_which_boards_a_model_needs_without_any_host() -> None:
    output = play(
        capacity_sglang_version="0.5.23",
        capacity_models=[MODEL],
        capacity_context_tokens=32_768,
        capacity_concurrent_requests=16,
        capacity_boards=["NVIDIA H100 80GB HBM3", "NVIDIA L40S"],
        capacity_host_memory_available_bytes=500 * 10**9,
    )
    assert "16 x 32,768 tokens on localhost" in output
    assert "fits  4 x H100 80GB HBM3" in output
    assert "fits  8 x L40S" in output
    assert "Best: 4 x H100 80GB HBM3, tp 4: " in output


def test_what_fits_on_a_machine_of_the_inventory() -> None:
    output = play(capacity_hosts="sglang_paper", capacity_context_tokens=32_768, capacity_concurrent_requests=4)
    assert "4 x 32,768 tokens on kimi-01" in output
    assert "fits  8 x RTX PRO 6000 Blackwell Server Edition" in output


def test_the_founding_box_has_the_tokens_of_its_plan() -> None:
    """What was measured holds for its own layout, and its assumptions are said of no other."""
    output = play(capacity_hosts="sglang_paper", capacity_context_tokens=32_768, capacity_concurrent_requests=4)
    rows = [line for line in output.splitlines() if line.strip().startswith("fits")]
    [observed] = [row for row in rows if "observed" in row]
    assert re.search(r"tp 8, observed +10\.4 GiB .* 159,277 ", observed)
    assert sum("159,277" in row for row in rows) == 1
    assert "tp 8, attention dp 8" in rows[0]
    assert "observed KV budget" not in output


def test_measurements_are_no_part_of_another_question() -> None:
    output = play(capacity_hosts="sglang_paper", capacity_context_tokens=1000, capacity_sglang_version="0.5.10")
    assert "fits" in output
    assert "observed " not in output.replace("observed.", "")


def blocks(language: str) -> list[str]:
    """The fenced blocks of the guide in one language."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text(encoding="utf-8"), re.M | re.S)
    return found


def figures(shown: str) -> list[str]:
    """The table, the best option and the nearest miss: the paragraphs that hold figures."""
    lines = [line.strip() for line in shown.strip().splitlines() if not line.startswith("──")]
    paragraphs = "\n".join(lines).split("\n\n")
    return [part for part in paragraphs if not part.startswith(("Assumed: ", "Not planned: "))]


def test_the_guide_shows_what_its_commands_print(tmp_path: Path) -> None:
    question = tmp_path / "question.yml"
    [_machine, asked] = blocks("yaml")
    question.write_text(asked, encoding="utf-8")
    commands, answers = blocks("console"), blocks("text")
    assert len(commands) == len(answers) == 2
    for command, answer in zip(commands, answers):
        words = [word.replace("question.yml", str(question)) for word in shlex.split(command.replace("\\\n", " "))]
        assert words[:4] == ["ansible-playbook", PLAYBOOK, "-i", "inventories/example"]
        outcome = Play(*words[4:], playbook=PLAYBOOK, inventory="example").finish()
        assert outcome.status == 0, outcome.output
        shown = re.search(r"^── .*?\n─+$", outcome.output, re.M | re.S)
        assert shown is not None, outcome.output
        assert figures(answer) == figures(shown.group())


def test_the_guide_counts_the_boards() -> None:
    known = sum(board.cuda_memory_bytes is not None for board in CATALOGUE)
    text = " ".join(GUIDE.read_text(encoding="utf-8").split())
    assert f"knows {len(CATALOGUE)} boards by the name" in text
    assert f"and for {known} of them what CUDA sees" in text


def test_a_typing_error_ends_with_the_closest_name() -> None:
    outcome = Play(
        "-e",
        json.dumps(
            {"capacity_context_tokens": 1000, "capacity_server": {"page_sise": 64}, "capacity_hosts": "kimi-01"}
        ),
        playbook=PLAYBOOK,
        inventory="example",
    ).finish()
    assert outcome.status != 0
    assert "server.page_sise is not known. The closest is server.page_size." in " ".join(outcome.output.split())
