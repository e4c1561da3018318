# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A command whose output is read line by line and may be cut short, where C(run_command) would collect all of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def stream_command(
    run_command: Callable[..., tuple[int, str, str]], command: list[str], take: Callable[[str], bool]
) -> tuple[int, str]:
    """Feeds the command's lines to C(take) until it returns False; (return code or 0 if cut short, stderr).

    C(run_command) is that of AnsibleModule. It hands over the process before it collects what is left of its output.
    """
    cut_short = False

    def drain(child: Any) -> None:
        nonlocal cut_short
        for line in child.stdout:
            if not take(line.decode("utf-8", "replace")):
                cut_short = True
                child.kill()
                return

    code, _rest, errors = run_command(command, before_communicate_callback=drain)
    return (0, "") if cut_short else (code, errors)
