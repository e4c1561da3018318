# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Attributes that every plugin of the collection states, so that a reader can rely on them."""

    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in check mode and predicts what a real run would report.
  diff_mode:
    description: Returns details on what a change means when run with C(--diff).
  platform:
    description: Target operating systems on which it works.
    support: full
    platforms: linux
"""
