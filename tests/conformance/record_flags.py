# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask the argument parsers of SGLang's releases for their flags: oracle/flags.json, and the tables made of it.

Run with the Python of an environment that holds the dependencies of a release (a CPU build will do) and with the folder
above ansible_collections on PYTHONPATH. A folder of wheels, each unpacked under src/<release>, is what is read:

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_flags --wheels FOLDER

Each release answers in a process of its own, beside the libraries of this environment. What runs is its own
ServerArgs.add_cli_args, and the class that reads its configuration file, which is asked about every flag by itself.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import inspect
import json
import os
import sys
import warnings
import zipfile
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED
from ansible_collections.gpufleet.sglang.tests.conformance.flag_tables import LIST, NOTHING, VALUE, tables_of
from ansible_collections.gpufleet.sglang.tests.conformance.older_releases import bear_with_newer_libraries

HERE = Path(__file__).resolve().parent
TABLES = HERE.parents[1] / "plugins" / "module_utils" / "sglang"
READ = "sglang/srt/server_args.py"


def merger_of(parser: argparse.ArgumentParser) -> Any:
    """What turns a configuration file into arguments, None in releases without it."""
    for place in ("sglang.srt.utils.server_args_config_parser", "sglang.srt.server_args_config_parser"):
        try:
            kind = importlib.import_module(place).ConfigArgumentMerger
        except ImportError:
            continue
        # Before 0.5.8 it is given a list of switches, which the server always finds empty.
        return kind(parser) if "parser" in inspect.signature(kind).parameters else kind(boolean_actions=[])
    return None


def read_by_file(merger: Any, action: argparse.Action, flag: str) -> bool:
    """Whether the flag alone, in a file, gives what it gives on the command line."""
    takes_none = action.nargs == 0
    given: Any = True if takes_none else ["1"] if action.nargs in ("+", "*") else "1"
    try:
        words = merger._convert_config_to_args({flag: given})
    except ValueError:
        return False
    return bool(words == [f"--{flag}"] if takes_none else words == [f"--{flag}", "1"])


def ask() -> list[dict[str, Any]]:
    """The flags of the release that this process imports."""
    parser = argparse.ArgumentParser()
    importlib.import_module("sglang.srt.server_args").ServerArgs.add_cli_args(parser)
    merger, flags = merger_of(parser), []
    for action in parser._actions:
        kind = NOTHING if action.nargs == 0 else LIST if action.nargs in ("+", "*") else VALUE
        for option in action.option_strings:
            if not option.startswith("--") or option in ("--help", "--config"):
                continue
            flags.append(
                {
                    "flag": option[2:],
                    "field": action.dest,
                    "takes": kind,
                    "stores_constant": type(action).__name__ == "DeprecatedStoreConstAction",
                    "choices": [str(choice) for choice in action.choices] if action.choices is not None else None,
                    "in_file": None if merger is None else read_by_file(merger, action, option[2:]),
                }
            )
    return sorted(flags, key=lambda row: str(row["flag"]))


def ask_in_a_fork(folder: Path, release: str) -> list[dict[str, Any]]:
    """The flags of a release, unpacked under C(folder); this process itself imports none."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        sys.path.insert(0, str(folder / "src" / release))
        with os.fdopen(writing, "w") as pipe:
            json.dump(ask(), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        text = pipe.read()
    os.waitpid(child, 0)
    return list(json.loads(text))


def wheel_of(folder: Path, release: str) -> Path:
    (wheel,) = folder.glob(f"sglang-{release}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        if archive.read(READ) != (folder / "src" / release / READ).read_bytes():
            raise SystemExit(f"src/{release} is not what {wheel.name} holds")
    return wheel


def record(folder: Path) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    kept = bear_with_newer_libraries()
    source, flags = {}, {}
    for release in map(str, EXAMINED):
        wheel = wheel_of(folder, release)
        flags[release] = ask_in_a_fork(folder, release)
        source[release] = {"wheel": wheel.name, "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}
        print(f"{release}: {len(flags[release])} flags")
    del kept
    return {"source": source, "flags": histories(flags)}


def histories(flags: dict[str, list[dict[str, Any]]]) -> dict[str, list[list[Any]]]:
    """By flag: [first release, last release, facts], as long as the facts stay the same."""
    rows: dict[str, list[list[Any]]] = {}
    for release, found in flags.items():
        for facts in found:
            name = facts.pop("flag")
            history = rows.setdefault(name, [])
            before = list(flags)[list(flags).index(release) - 1] if history else None
            if history and history[-1][1] == before and history[-1][2] == facts:
                history[-1][1] = release
            else:
                history.append([release, release, facts])
    return dict(sorted(rows.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description="Record the flags of every release of SGLang")
    parser.add_argument("--wheels", type=Path, required=True)
    asked = parser.parse_args()
    target = HERE / "oracle" / "flags.json"
    recorded = record(asked.wheels)
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in recorded["flags"].items())
    target.write_text(
        f'{{"source": {json.dumps(recorded["source"], indent=0)},\n"flags": {{\n{lines}\n}}}}\n', encoding="utf-8"
    )
    for name, text in tables_of(recorded["flags"]).items():
        (TABLES / name).write_text(text, encoding="utf-8")
    print(f"{target.name}: {len(recorded['flags'])} flags of {len(recorded['source'])} releases")


if __name__ == "__main__":
    main()
