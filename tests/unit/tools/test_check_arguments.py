# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "check-arguments"
PLATFORMS = yaml.safe_load((SCRIPT.parent.parent / "roles" / "probe" / "meta" / "main.yml").read_text(encoding="utf-8"))
COUNT = {"description": "How many.", "type": "int", "default": 2}
NEEDED = {"description": "Needed here.", "type": "str", "required": True}


def role(**options: Any) -> dict[str, Any]:
    specs = {"main": {"options": {"store_count": COUNT, **options}}}
    return {
        "meta/argument_specs.yml": {"argument_specs": specs},
        "meta/main.yml": PLATFORMS,
        "defaults/main.yml": {"store_count": 2},
        "tasks/main.yml": [],
    }


def check(folder: Path, files: dict[str, Any]) -> list[str]:
    (folder / "tools").mkdir()
    shutil.copy(SCRIPT, folder / "tools")
    for name, content in files.items():
        path = folder / "roles" / "store" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, folder / "tools" / "check-arguments"], check=False, capture_output=True, text=True
    )
    assert bool(done.returncode) == bool(done.stdout), done.stderr
    return [line.removeprefix("roles/store: ") for line in done.stdout.splitlines()]


def test_files_that_agree(tmp_path: Path) -> None:
    assert check(tmp_path, role(store_needed=NEEDED)) == []


CASES: dict[str, tuple[dict[str, Any], str]] = {
    "a default without a specification": (
        {**role(), "defaults/main.yml": {"store_count": 2, "store_x": 1}},
        "store_x has a default and no specification",
    ),
    "another value": (
        {**role(), "defaults/main.yml": {"store_count": 3}},
        "store_count defaults to 3, its specification says 2",
    ),
    "optional without a default": (
        role(store_x={"description": "X.", "type": "str"}),
        "store_x is specified as optional and has no default",
    ),
    "another prefix": (role(count={**NEEDED}), "count does not begin with the name of the role"),
    "no description": (role(store_x={"type": "str", "required": True}), "store_x lacks a description or a type"),
    "a list of what": (role(store_x={**NEEDED, "type": "list"}), "store_x is a list of unsaid elements"),
    "no choice": (
        role(store_count={**COUNT, "choices": [1, 3]}),
        "store_count defaults to 2, which is none of its choices",
    ),
    "an entry point without tasks": (
        {
            **role(),
            "meta/argument_specs.yml": {"argument_specs": {"main": {"options": {"store_count": COUNT}}, "b": {}}},
        },
        "tasks/b.yml is missing",
    ),
    "other platforms": (
        {**role(), "meta/main.yml": {"galaxy_info": {"platforms": []}}},
        "meta/main.yml does not name the platforms of all roles, see tools/check-arguments",
    ),
    "no defaults": (
        {"meta/argument_specs.yml": {"argument_specs": {}}, "meta/main.yml": PLATFORMS},
        "defaults/main.yml is missing",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_files_that_do_not(name: str, tmp_path: Path) -> None:
    files, expected = CASES[name]
    assert check(tmp_path, files) == [expected]
