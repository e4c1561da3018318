# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask an unmodified SGLang what it resolves its own defaults to on cards that are simulated, and write the answers to
oracle/defaults-<release>.json.

Run with the Python of an environment that holds the release (a CPU build will do) and with the folder above
ansible_collections on PYTHONPATH:

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_defaults --wheel sglang-0.5.23-....whl

What runs is SGLang's own command line: prepare_server_args, and resolve_once where a release has it. Its caches know
one generation of cards a process, so each is a process of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import subprocess
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.tests.conformance.defaults_cases import (
    CARDS,
    MODELS,
    DefaultsCase,
    cases,
    read_config,
)
from ansible_collections.gpufleet.sglang.tests.conformance.older_releases import bear_with_newer_libraries
from ansible_collections.gpufleet.sglang.tests.conformance.record_oracle import read_as_remote_code_would
from ansible_collections.gpufleet.sglang.tests.conformance.simulated_gpus import SimulatedCards

_READER = "sglang.srt.utils.hf_transformers_utils"
HERE = Path(__file__).resolve().parent
ANSWERS = (
    "mem_fraction_static",
    "chunked_prefill_size",
    "page_size",
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "kv_cache_dtype",
)


def provenance(wheel: Path) -> dict[str, str]:
    """The wheel's name and sum, when the imported server_args.py is its own, and what reads the configurations."""
    found = importlib.util.find_spec("sglang")
    package = Path((found.origin if found is not None else None) or "").parent
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.namelist():
            resolves = member == "sglang/srt/server_args.py" or member.startswith("sglang/srt/arg_groups/")
            if not resolves or not member.endswith(".py"):
                continue
            if archive.read(member) != (package.parent / member).read_bytes():
                raise SystemExit(f"{package.parent / member} is not the file of {wheel.name}")
    return {
        "wheel": wheel.name,
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "transformers": importlib.metadata.version("transformers"),
    }


def resolved(arguments: list[str]) -> Mapping[str, Any]:
    module = importlib.import_module("sglang.srt.server_args")
    asked = module.prepare_server_args(arguments)
    if hasattr(asked, "resolve_once"):
        asked.resolve_once()
        return dict(asked.resolved_dict())
    fields = {field.name: getattr(asked, field.name) for field in dataclasses.fields(asked)}
    # Releases that stash what they resolve and publish it later.
    if hasattr(asked, "_resolved_overrides"):
        view = importlib.import_module("sglang.srt.arg_groups.overrides").resolved_view(asked)
        fields |= {name: getattr(view, name) for name in fields}
    return fields


def answer(case: DefaultsCase, folder: str) -> dict[str, Any]:
    if case.environment is not None:
        name, _equals, value = case.environment.partition("=")
        os.environ[name] = value
    arguments = ["--model-path", f"{folder}/{case.model}", "--skip-tokenizer-init", *case.arguments]
    if case.algorithm in ("EAGLE", "EAGLE3", "STANDALONE") and not case.model.startswith("deepseek"):
        arguments += ["--speculative-draft-model-path", f"{folder}/{case.model}"]
    found = resolved(arguments)
    kept = {name: found[name] for name in ANSWERS if found.get(name) is not None}
    graphs = found.get("cuda_graph_config")
    if graphs is None:
        kept["decode_graph"] = found.get("cuda_graph_max_bs")
        prefill = found.get("piecewise_cuda_graph_tokens")
        enabled = found.get("enable_piecewise_cuda_graph") or not found.get("disable_piecewise_cuda_graph", True)
        kept["prefill_graphs"] = len(prefill) if enabled and prefill else 0
        kept["prefill_backend"] = "tc_piecewise" if enabled else "disabled"
        kept["prefill_graph"] = found.get("piecewise_cuda_graph_max_tokens")
    else:
        graphs = graphs if isinstance(graphs, Mapping) else dataclasses.asdict(graphs)
        decode, prefill = graphs["decode"], graphs["prefill"]
        kept["decode_graph"] = decode["max_bs"]
        kept["prefill_backend"] = str(getattr(prefill["backend"], "value", prefill["backend"]))
        kept["prefill_graphs"] = 0 if kept["prefill_backend"] == "disabled" else len(prefill["bs"] or ())
        kept["prefill_graph"] = prefill["max_bs"]
    return kept


def answer_or_refusal(case: DefaultsCase, folder: str) -> dict[str, Any]:
    """The answer to one case; what SGLang sets for itself in the environment does not last."""
    before = dict(os.environ)
    try:
        return answer(case, folder)
    except (Exception, SystemExit) as error:  # what SGLang refuses is an answer, too
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0][:120]}
    finally:
        os.environ.clear()
        os.environ.update(before)


def key_of(row: Mapping[str, Any]) -> str:
    return json.dumps({name: value for name, value in row.items() if name != "answer"}, sort_keys=True)


def at_hand(target: Path, wheel: Path) -> dict[str, dict[str, Any]]:
    """The rows of an earlier run with the same wheel, by what was asked."""
    record = json.loads(target.read_text(encoding="utf-8")) if target.exists() else {}
    if record.get("source", {}).get("sha256") != hashlib.sha256(wheel.read_bytes()).hexdigest():
        return {}
    return {key_of(row): row for row in record["rows"]}


def of_generation(major: int, known: Mapping[str, Any]) -> list[DefaultsCase]:
    """The cases on one generation of cards that are not answered yet."""
    return [case for case in cases() if CARDS[case.card][1][0] == major and key_of(case.asked()) not in known]


def record(capability: tuple[int, int], target: Path, known: Mapping[str, Any]) -> None:
    """The cases of one generation of cards, in this process."""
    warnings.simplefilter("ignore")
    kept = bear_with_newer_libraries()
    cards = SimulatedCards(capability)
    cards.exchange(81_920, capability)
    configs = {name: read_config(name) for name in MODELS}
    importlib.import_module("sglang.srt.server_args")
    # Where releases before utils became a package have it.
    with contextlib.suppress(ImportError):
        sys.modules[_READER] = importlib.import_module("sglang.srt.hf_transformers_utils")
    # SGLang reads this one itself, as a DeepSeek-V3 before transformers knew it.
    read_as_remote_code_would({name: c for name, c in configs.items() if c["model_type"] != "deepseek_v32"})
    logging.disable(logging.CRITICAL)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, config in configs.items():
            path = Path(folder) / name
            path.mkdir()
            (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        for case in of_generation(capability[0], known):
            cards.exchange(*CARDS[case.card])
            rows.append({**case.asked(), "answer": answer_or_refusal(case, folder)})
    target.write_text(json.dumps(rows), encoding="utf-8")
    del kept


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the defaults of one release of SGLang")
    parser.add_argument("--wheel", type=Path, required=True)
    parser.add_argument("--missing", action="store_true", help="ask only what an earlier run did not")
    parser.add_argument("--capability")
    parser.add_argument("--rows", type=Path)
    asked = parser.parse_args()
    release = asked.wheel.name.split("-")[1]
    target = HERE / "oracle" / f"defaults-{release}.json"
    known = at_hand(target, asked.wheel) if asked.missing else {}
    if asked.capability is not None:
        major, minor = asked.capability.split(".")
        record((int(major), int(minor)), asked.rows, known)
        return
    source = provenance(asked.wheel)
    for capability in sorted({(major, 0) for _size, (major, _minor) in CARDS.values()}):
        if not of_generation(capability[0], known):
            continue
        with tempfile.NamedTemporaryFile(suffix=".json") as part:
            subprocess.run(
                [
                    *(sys.executable, "-m", __spec__.name, "--wheel", str(asked.wheel)),
                    *("--capability", ".".join(map(str, capability)), "--rows", part.name),
                    *(("--missing",) if asked.missing else ()),
                ],
                check=True,
            )
            known |= {key_of(row): row for row in json.loads(Path(part.name).read_text(encoding="utf-8"))}
    rows = [known[key_of(case.asked())] for case in cases()]
    lines = ",\n".join(json.dumps(row) for row in rows)
    target.write_text(
        f'{{"sglang": "{release}",\n"source": {json.dumps(source)},\n"rows": [\n{lines}\n]}}\n', encoding="utf-8"
    )
    failed = [row for row in rows if "error" in row["answer"]]
    print(f"{target.name}: {len(rows)} answers, {len(failed)} refusals")


if __name__ == "__main__":
    main()
