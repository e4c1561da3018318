# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIA cards that are not there, as far as SGLang asks about them before it loads a model."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import torch

_SMI = """#!/bin/sh
read size capability < "$(dirname "$0")/card"
case "$*" in *compute_cap*) echo "$capability" ;; *) echo "$size" ;; esac
"""


class SimulatedCards:
    """Alike cards, which can be exchanged for others; there is nothing to compute with."""

    def __init__(self, capability: tuple[int, int]) -> None:
        self.capability = capability
        self.size_mib = 0
        self._folder = Path(tempfile.mkdtemp(prefix="simulated-cards-"))
        program = self._folder / "nvidia-smi"
        program.write_text(_SMI, encoding="utf-8")
        program.chmod(0o755)
        os.environ["PATH"] = f"{self._folder}{os.pathsep}{os.environ['PATH']}"
        self._answer()

    def exchange(self, size_mib: int, capability: tuple[int, int]) -> None:
        self.size_mib, self.capability = size_mib, capability
        major, minor = capability
        (self._folder / "card").write_text(f"{size_mib} {major}.{minor}\n", encoding="utf-8")

    def _properties(self, *_which: Any, **_more: Any) -> Any:
        facts = {
            "name": "NVIDIA simulated",
            "major": self.capability[0],
            "minor": self.capability[1],
            "total_memory": self.size_mib << 20,
            "multi_processor_count": 128,
            "is_integrated": False,
            "gcnArchName": "",
            "warp_size": 32,
        }
        return type("Properties", (), facts)()

    def _answer(self) -> None:
        def size(*_which: Any, **_more: Any) -> tuple[int, int]:
            return self.size_mib << 20, self.size_mib << 20

        answers: dict[str, Any] = {
            "is_available": lambda: True,
            "device_count": lambda: 64,
            "current_device": lambda: 0,
            "is_initialized": lambda: False,
            "get_device_capability": lambda *_which, **_more: self.capability,
            "get_device_name": lambda *_which, **_more: "NVIDIA simulated",
            "get_device_properties": self._properties,
            "mem_get_info": size,
            "set_device": lambda *_which, **_more: None,
            "empty_cache": lambda: None,
            "synchronize": lambda *_which, **_more: None,
        }
        for name, answer in answers.items():
            setattr(torch.cuda, name, answer)
        vars(torch.version)["cuda"] = "13.0"
