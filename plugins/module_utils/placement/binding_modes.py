# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the host memory of a rank can be bound to a NUMA node, in the words of plans. Whoever reads one needs no more."""

from __future__ import annotations

STRICT, PREFERRED, INTERLEAVE, NONE = "strict", "preferred", "interleave", "none"
