# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Variables of earlier releases of the collection, and what replaces each: a row for every one that was ever renamed or
removed, so that an inventory that was written for an earlier release is told what to write instead."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import Removal

# Name -> what became of it. None has been removed or renamed yet.
REMOVED: dict[str, Removal] = {}
