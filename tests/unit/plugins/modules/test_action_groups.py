# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""C(module_defaults) of the group gpufleet.sglang.all reach every module."""

from __future__ import annotations

from pathlib import Path

import yaml

from ansible_collections.gpufleet.sglang.plugins import modules

FOLDER = Path(next(iter(modules.__path__)))


def test_every_module_is_in_the_group() -> None:
    runtime = yaml.safe_load((FOLDER.parents[1] / "meta" / "runtime.yml").read_text(encoding="utf-8"))
    there = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "__init__")
    assert len(there) > 30
    assert runtime["action_groups"]["all"] == there
