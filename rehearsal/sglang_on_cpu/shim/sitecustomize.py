# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put this folder on PYTHONPATH of an SGLang service: an unmodified SGLang 0.5.23 then serves on a CPU, with HiCache.

Python imports this file at the start of every process, so the ranks that SGLang spawns get it too. Nothing heavy is
imported here: each stand-in waits for the module that it concerns. See rehearsal_cpu/__init__.py for what is stood in.
"""

from __future__ import annotations

import rehearsal_cpu

rehearsal_cpu.install()
