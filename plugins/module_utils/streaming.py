# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A command whose output is read line by line and may be cut short, where C(run_command) would collect all of it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

END_SECONDS = 30.0


def stream_command(command: list[str], take: Callable[[str], bool]) -> tuple[int, str]:
    """Feeds the command's lines to C(take) until it returns False; (return code or 0 if cut short, stderr)."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace"
    ) as child:
        stopped = False
        if child.stdout is not None:
            for line in child.stdout:
                if not take(line):
                    stopped = True
                    break
        if stopped:
            child.kill()
            child.wait(END_SECONDS)
            return 0, ""
        errors = child.stderr.read() if child.stderr is not None else ""
        return child.wait(END_SECONDS), errors
