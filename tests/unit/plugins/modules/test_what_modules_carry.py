# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What goes to a node with a module. In every run the controller reads and packs it, and the node compiles it anew."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.modules import node_settings

MODULES = Path(node_settings.__file__).parent
PLUGINS = MODULES.parent
PREFIX = "ansible_collections.gpufleet.sglang.plugins."
# Sizing is the controller's work: what these need of it is a word or a number, which lies in a file of its own.
PLANNING = ("memory/request.py", "memory/measured/", "model/architectures.py", "placement/place.py")
READS_MODELS = {"model_info", "node_info"}


@cache
def imported_by(file: Path) -> frozenset[Path]:
    return frozenset(_imports(ast.parse(file.read_text(encoding="utf-8"))))


def _imports(tree: ast.AST) -> Iterator[Path]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PREFIX):
            for name in (node.module, *(f"{node.module}.{alias.name}" for alias in node.names)):
                path = PLUGINS.joinpath(*str(name).removeprefix(PREFIX).split(".")).with_suffix(".py")
                if path.exists():
                    yield path


def carried(file: Path) -> set[Path]:
    """All files of this collection that are packed with it, as ansible-core finds them: wherever an import stands."""
    found, waiting = {file}, [file]
    while waiting:
        new = imported_by(waiting.pop()) - found
        found |= new
        waiting += new
    return found


@pytest.mark.parametrize("name", sorted({path.stem for path in MODULES.glob("*.py")} - READS_MODELS))
def test_no_module_carries_the_planner_to_a_node(name: str) -> None:
    names = {
        path.relative_to(PLUGINS / "module_utils").as_posix()
        for path in carried(MODULES / f"{name}.py")
        if path.parent != MODULES
    }
    assert [one for one in sorted(names) if one.startswith(PLANNING)] == []


def test_what_is_looked_for_is_there() -> None:
    """Or the test above would say nothing of files that have moved."""
    assert [one for one in PLANNING if not (PLUGINS / "module_utils" / one).exists()] == []
    names = {path.relative_to(PLUGINS).as_posix() for path in carried(MODULES / "model_info.py")}
    assert "module_utils/model/architectures.py" in names
