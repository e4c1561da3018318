# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The folder that a machine's files are read below: / for this machine, another for a recorded or mounted one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import one_line
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

# As much of a path as a sentence can show.
_SHOWN = 256


def is_this_machine(root: Path) -> bool:
    """Whether the root is / in whatever spelling. Unlike Path.resolve this raises nothing for what cannot be read."""
    return os.path.realpath(root) == "/"


def checked_root(value: str, holds: str) -> Path:
    """The option C(root) as a folder that can be entered; C(holds) says for the refusal what it should hold."""
    shown = one_line(value, _SHOWN)
    absolute = f"Name the folder that holds the machine's {holds}, from / on; / is this machine."
    if not value.startswith("/"):
        what = f"root is {shown}, which is no absolute path." if shown else "root is empty."
        raise Refusal("root_not_absolute", what, absolute)
    denied = Refusal(
        "root_unreadable",
        f"root is {shown}, which the user of this task may not enter.",
        "Run the task with become, or give its user access to the folder.",
    )
    try:
        folder = stat.S_ISDIR(Path(value).stat().st_mode)
    except PermissionError:
        raise denied from None
    # Among others: a name that is too long, links in a circle, a NUL.
    except (OSError, ValueError):
        folder = False
    if not folder:
        raise Refusal("root_missing", f"root is {shown}, which is no folder here.", absolute)
    if not os.access(value, os.X_OK):
        raise denied
    return Path(value)
