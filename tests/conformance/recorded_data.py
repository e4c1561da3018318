# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Where recordings of real machines and servers lie: beside the repository. None is part of the project."""

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
# The only skip of all tests. It hides nothing but the absence of the whole folder: where a part of it is missing, what
# needs that part fails.
needs_recorded_data = pytest.mark.skipif(not DATA.is_dir(), reason="no recordings beside the repository")
