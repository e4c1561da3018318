# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A program that a node lacks."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import NOT_FOUND, answer_of


def test_missing_program_is_an_answer() -> None:
    def run_command(command: list[str], **options: Any) -> tuple[int, str, str]:
        assert options == {"handle_exceptions": False}
        raise FileNotFoundError(2, "No such file or directory", command[0])

    assert answer_of(run_command, ["docker", "ps"]) == (NOT_FOUND, "", "docker: No such file or directory")


def test_answer_is_passed_on() -> None:
    assert answer_of(lambda command, **_options: (3, "out", "err"), ["false"]) == (3, "out", "err")
