# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Commands of a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# What a shell says of a program that it does not find.
NOT_FOUND = 127


def answer_of(run_command: Callable[..., Any], command: list[str]) -> tuple[int, str, str]:
    """What came of a command; a program that cannot be run is for who asked it to judge, and no end of the module.

    C(run_command): that of AnsibleModule, which otherwise ends the module with "Error executing command".
    """
    try:
        answer: tuple[int, str, str] = run_command(command, handle_exceptions=False)
    except OSError as error:
        return NOT_FOUND, "", f"{command[0]}: {error.strerror or error}"
    return answer
