# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.tools.role_page import Role, example_mistakes, page

OPTIONS: dict[str, Any] = {
    "store_folder": {"description": "Where it lies.", "type": "path", "default": "/srv"},
    "store_sources": {
        "description": ["From where.", "The first that has it, see O(store_folder)."],
        "type": "list",
        "elements": "dict",
        "required": True,
        "options": {
            "url": {"description": "Its address.", "type": "str", "required": True},
            "kind": {"description": "What it is.", "type": "str", "choices": ["hub", "a|b"], "default": "hub"},
        },
    },
    "store_key": {"description": "None when null.", "type": "str"},
    "store_name": {"description": "A name.", "type": "str", "default": ""},
    "store_off": {"description": "Whether it is off.", "type": "bool", "default": False},
}
ROLE = Role(
    "store",
    {
        "main": {
            "short_description": "Keeps models",
            "description": ["One O(store_folder).", "Two."],
            "options": OPTIONS,
        },
        "verify": {"short_description": "Verifies alone.", "options": OPTIONS},
        "clean": {"short_description": "Removes", "options": {"store_key": OPTIONS["store_key"]}},
        "tell": {"short_description": "Tells"},
    },
    {"min_ansible_version": "2.19", "platforms": [{"name": "EL", "versions": ["9"]}]},
    "---\n# Why.\n- name: Play\n",
)


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| `")]


def section(name: str) -> str:
    return page(ROLE).split(f"## {name}\n")[1].split("\n## ")[0].split("\n---\n")[0].strip()


def test_the_page_begins_with_what_the_role_is_for() -> None:
    assert page(ROLE).startswith("# gpufleet.sglang.store\n\nKeeps models.\n\nOne `store_folder`.\n\nTwo.\n\n## Req")


def test_requirements_name_platforms_as_people_do() -> None:
    assert section("Requirements").endswith("- RHEL, Rocky Linux and AlmaLinux 9")
    debian = [{"name": "Debian", "versions": ["bookworm", "trixie"]}]
    assert "- Debian 12, 13\n" in page(replace(ROLE, metadata={**ROLE.metadata, "platforms": debian}))


def test_the_example_is_the_playbook_with_its_comments() -> None:
    assert section("Example") == "```yaml\n# Why.\n- name: Play\n```"


def test_each_variable_is_a_row_required_ones_first_and_keys_after_their_dictionary() -> None:
    assert rows(section("Variables")) == [
        "| `store_sources` | list of dict | **required** | From where.<br>The first that has it, see `store_folder`. |",
        "| `store_sources[].url` | str | **required** | Its address. |",
        "| `store_sources[].kind` | str | `hub` | What it is.<br>One of `hub`, `a\\|b`. |",
        "| `store_folder` | path | `/srv` | Where it lies. |",
        "| `store_key` | str |  | None when null. |",
        '| `store_name` | str | `""` | A name. |',
        "| `store_off` | bool | `false` | Whether it is off. |",
    ]


def test_an_entry_point_tells_how_it_is_called_and_its_own_variables() -> None:
    assert "tasks_from: verify" in section("Entry point `verify`")
    assert section("Entry point `verify`").endswith("It takes the variables above.")
    assert rows(section("Entry point `clean`")) == ["| `store_key` | str |  | None when null. |"]
    assert section("Entry point `tell`").endswith("None.")


def test_an_example_gives_what_is_required_and_nothing_unknown() -> None:
    assert example_mistakes(ROLE, {"store_sources": [], "store_key": "x"}) == []
    assert example_mistakes(ROLE, {"store_kee": "x"}) == [
        "store_kee is no variable of the role",
        "store_sources is required and missing",
    ]
