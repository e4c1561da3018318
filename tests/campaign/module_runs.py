# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Runs a module in this process, on a folder that stands in for a machine."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from types import ModuleType
from typing import Any

from ansible.module_utils.testing import patch_module_args


def run_module(module: ModuleType, root: Path, **options: Any) -> dict[str, Any]:
    """What it returned; anything but an end that the module chose comes through."""
    out = io.StringIO()
    given = patch_module_args({"root": str(root), **options})
    with contextlib.redirect_stdout(out), given, contextlib.suppress(SystemExit):
        module.main()
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer
