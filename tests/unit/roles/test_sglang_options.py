# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an instance is asked for is every variable of the role, its own entry first."""

from __future__ import annotations

from pathlib import Path

import yaml

ROLE = Path(__file__).resolve().parents[3] / "roles" / "sglang"
# Of the node, or of one run.
NOT_OF_AN_INSTANCE = {"sglang_instance", "sglang_instances", "sglang_instances_absent", "sglang_rollback_reason"}


def test_every_variable_of_the_role_can_be_said_for_one_instance() -> None:
    specs = yaml.safe_load((ROLE / "meta" / "argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    options = {name: option for entry in specs.values() for name, option in entry["options"].items()}
    asked = yaml.safe_load((ROLE / "vars" / "main" / "options.yml").read_text(encoding="utf-8"))["__sglang_asked"]
    expected = {
        name.removeprefix("sglang_"): "{{ __sglang_entry."
        + f"{name.removeprefix('sglang_')} | default({name})"
        # What a command line says is text, and "false" is a true text.
        + (" | bool" if isinstance(option.get("default"), bool) else "")
        + " }}"
        for name, option in options.items()
        if name not in NOT_OF_AN_INSTANCE
    }
    assert asked == expected


def test_the_rehearsal_has_the_uv_that_the_role_takes_by_itself() -> None:
    defaults = yaml.safe_load((ROLE / "defaults" / "main.yml").read_text(encoding="utf-8"))
    there = (ROLE.parents[1] / "rehearsal" / "wheelhouse" / "installer.txt").read_text(encoding="utf-8")
    assert f"uv=={defaults['sglang_uv_version']}" in there.split()
