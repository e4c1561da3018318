# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask an unmodified SGLang what it makes of HiCache's flags on simulated cards: oracle/launch-<release>.json.

Run with the Python of an environment that holds the release, or a newer one with the older's unpacked wheel and a
transformers of its time before it on PYTHONPATH, and with the folder above ansible_collections on PYTHONPATH:

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_launch --wheel sglang-0.5.23-....whl

What runs is SGLang's own prepare_server_args, and resolve_once where a release has it. Each compute capability is a
process of its own, as SGLang keeps what it has seen of the cards.
"""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import os
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.tests.conformance.launch_cases import CARDS, ON, LaunchCase, cases
from ansible_collections.gpufleet.sglang.tests.conformance.older_releases import bear_with_newer_libraries
from ansible_collections.gpufleet.sglang.tests.conformance.record_defaults import provenance, resolved
from ansible_collections.gpufleet.sglang.tests.conformance.record_oracle import (
    read_as_remote_code_would,
    read_configs,
)
from ansible_collections.gpufleet.sglang.tests.conformance.simulated_gpus import SimulatedCards

HERE = Path(__file__).resolve().parent
COLUMNS = (
    "hicache_io_backend",
    "hicache_mem_layout",
    "page_size",
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "hicache_ratio",
    "hicache_size",
    "hicache_host_memory_fraction",
    "hicache_write_policy",
    "disable_radix_cache",
    "enable_hierarchical_cache",
    "disable_hybrid_swa_memory",
)


def answer(case: LaunchCase, folder: str) -> Any:
    words = ["--model-path", f"{folder}/{case.model}", "--skip-tokenizer-init", "--tp-size", "8", *case.base.split()]
    if "EAGLE" in case.base and not case.model.startswith("deepseek"):
        words += ["--speculative-draft-model-path", f"{folder}/{case.model}"]
    if case.hicache is not None:
        words += [ON, *case.hicache.split()]
    found = resolved(words)
    return [found.get(column) for column in COLUMNS]


def answer_or_refusal(case: LaunchCase, folder: str) -> Any:
    """The answer to one case; what SGLang sets for itself in the environment does not last."""
    before = dict(os.environ)
    try:
        return answer(case, folder)
    except (Exception, SystemExit) as error:  # what SGLang refuses is an answer, too
        return f"{type(error).__name__}: {error}".splitlines()[0][:160]
    finally:
        os.environ.clear()
        os.environ.update(before)


def record(capability: tuple[int, int], target: Path) -> None:
    """The cases of one compute capability, in this process and its forks."""
    warnings.simplefilter("ignore")
    cards = SimulatedCards(capability)
    cards.exchange(81_920, capability)
    kept = bear_with_newer_libraries()
    configs = read_configs()
    importlib.import_module("sglang.srt.server_args")
    # SGLang reads this one itself, as a DeepSeek-V3 before transformers knew it.
    read_as_remote_code_would({name: c for name, c in configs.items() if c["model_type"] != "deepseek_v32"})
    logging.disable(logging.CRITICAL)
    asked = [case for case in dict.fromkeys(cases()) if CARDS[case.card][0] == capability]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted({case.model for case in asked}):
            path = Path(folder) / name
            path.mkdir()
            (path / "config.json").write_text(json.dumps(configs[name]), encoding="utf-8")
        for case in asked:
            cards.exchange(CARDS[case.card][1], capability)
            rows.append([case.card, case.model, case.base, case.hicache, answer_or_refusal(case, folder)])
    target.write_text(json.dumps(rows), encoding="utf-8")
    del kept


def main() -> None:
    parser = argparse.ArgumentParser(description="Record what one release of SGLang makes of HiCache's flags")
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--capability")
    parser.add_argument("--rows", type=Path)
    asked = parser.parse_args()
    if asked.capability is not None:
        major, minor = asked.capability.split(".")
        record((int(major), int(minor)), asked.rows)
        return
    release = asked.wheel.name.split("-")[1]
    with tempfile.TemporaryDirectory() as folder:
        parts = [(card, Path(folder) / f"{card}.json") for card in CARDS]

        def ask(card: str, part: Path) -> None:
            command = [sys.executable, "-m", __spec__.name, "--wheel", str(asked.wheel)]
            capability = ".".join(map(str, CARDS[card][0]))
            subprocess.run([*command, "--capability", capability, "--rows", str(part)], check=True)

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda one: ask(*one), parts))
        rows = [row for _card, part in parts for row in json.loads(part.read_text(encoding="utf-8"))]
    answers = list({json.dumps(row[-1]): None for row in rows})
    lines = ",\n".join(json.dumps([*row[:-1], answers.index(json.dumps(row[-1]))]) for row in rows)
    target = HERE / "oracle" / f"launch-{release}.json"
    source = {"sglang": release, "source": provenance(asked.wheel), "columns": COLUMNS}
    target.write_text(
        json.dumps(source)[:-1] + ',\n"answers": [\n' + ",\n".join(answers) + f'\n],\n"rows": [\n{lines}\n]}}\n',
        encoding="utf-8",
    )
    print(f"{target.name}: {len(rows)} answers, {sum(isinstance(row[-1], str) for row in rows)} refusals")


if __name__ == "__main__":
    main()
