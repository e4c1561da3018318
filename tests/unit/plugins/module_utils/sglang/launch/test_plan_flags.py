# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import ast
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch import plan_flags
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.beside_flags import BESIDE_FLAGS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.flags import (
    known_flags,
    lifetimes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.harmless_flags import HARMLESS_FLAGS
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import NEWEST

PLUGINS = Path(plan_flags.__file__).resolve().parents[3]
CLASSES = {
    "owned": frozenset(plan_flags.OWNED_FLAGS),
    "counted": plan_flags.COUNTED_FLAGS,
    "unplanned": frozenset(plan_flags.UNPLANNED_FLAGS),
    "beside": frozenset(BESIDE_FLAGS),
    "excludes hicache": frozenset(plan_flags.EXCLUDES_HICACHE),
    "secret": plan_flags.SECRET_FLAGS,
    "harmless": HARMLESS_FLAGS,
}


def words_of_the_code() -> set[str]:
    """Every literal of the code that could read a flag: not the tables of flags themselves."""
    words: set[str] = set()
    for path in PLUGINS.rglob("*.py"):
        if path.stem in ("plan_flags", "beside_flags", "flag_lifetimes", "flag_choices", "flags"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        words |= {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
    return words


def test_every_flag_of_the_newest_release_is_in_one_class() -> None:
    flags = known_flags(NEWEST, beginning="")
    assert len(flags) > 500
    found = {flag: [name for name, members in CLASSES.items() if flag in members] for flag in flags}
    assert {flag: names for flag, names in found.items() if len(names) != 1} == {}


def test_no_flag_of_an_older_release_is_in_two_classes() -> None:
    names = [flag for members in CLASSES.values() for flag in members]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_what_is_harmless_exists() -> None:
    assert sorted(flag for flag in HARMLESS_FLAGS if not lifetimes(flag)) == []


def test_what_is_counted_is_read_by_the_plan() -> None:
    words = words_of_the_code()
    assert sorted(flag for flag in plan_flags.COUNTED_FLAGS if not lifetimes(flag) or flag not in words) == []
