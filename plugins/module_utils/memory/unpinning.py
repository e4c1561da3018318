# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How long pinned memory takes to come back. Modules that look after it need no more of a plan."""

from __future__ import annotations

# After SIGKILL, 243 GB stayed pinned for 25.9 s (sgl-project/sglang#32829).
UNPIN_BYTES_PER_SECOND = 243_000_000_000 / 25.9
UNPIN_MARGIN_FACTOR = 2
