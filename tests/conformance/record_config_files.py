# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Give the arguments of plans to the real parsers of SGLang, as a configuration file: oracle/config-files.json.

To be run as record_flags.py is, with the same folder of wheels:

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_config_files --wheels FOLDER

What runs is the release's own reader of the file and its own argument parser, up to the fields that they fill.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.gpufleet.sglang.tests.conformance.file_cases import CASES, RELEASES, emitted
from ansible_collections.gpufleet.sglang.tests.conformance.older_releases import bear_with_newer_libraries
from ansible_collections.gpufleet.sglang.tests.conformance.record_flags import merger_of, wheel_of

HERE = Path(__file__).resolve().parent


def read_back(parser: argparse.ArgumentParser, arguments: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The fields that a file of these arguments gives another value than an empty one does."""
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(arguments, sort_keys=True), encoding="utf-8")
    merger = merger_of(parser)
    found = vars(parser.parse_args(merger.merge_config_with_args(["--config", str(file)])))
    without = vars(parser.parse_args(["--model-path", "none"]))
    given = {action.dest for action in parser._actions for flag in arguments if f"--{flag}" in action.option_strings}
    return {field: value for field, value in sorted(found.items()) if value != without[field] or field in given}


def ask(release: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    with tempfile.TemporaryDirectory() as folder:
        rows = {}
        for name in CASES:
            arguments = emitted(release, name)
            rows[name] = {"arguments": arguments, "fields": read_back(parser, arguments, Path(folder))}
        return rows


def ask_in_a_fork(folder: Path, release: str) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        sys.path.insert(0, str(folder / "src" / release))
        with os.fdopen(writing, "w") as pipe:
            json.dump(ask(release), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return dict(json.loads(text))


def main() -> None:
    parser = argparse.ArgumentParser(description="Record what releases of SGLang read out of configuration files")
    parser.add_argument("--wheels", type=Path, required=True)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    kept = bear_with_newer_libraries()
    records = {}
    for release in RELEASES:
        wheel = wheel_of(asked.wheels, release)
        source = {"wheel": wheel.name, "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}
        records[release] = {"source": source, "cases": ask_in_a_fork(asked.wheels, release)}
        print(f"{release}: {len(records[release]['cases'])} files")
    del kept
    lines = []
    for release, record in records.items():
        cases = ",\n".join(f"{json.dumps(name)}: {json.dumps(case)}" for name, case in record["cases"].items())
        lines.append(f'"{release}": {{"source": {json.dumps(record["source"])}, "cases": {{\n{cases}\n}}}}')
    (HERE / "oracle" / "config-files.json").write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
