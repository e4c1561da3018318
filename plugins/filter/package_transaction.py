# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable
from typing import Any

DOCUMENTATION = r"""
name: package_transaction
version_added: 0.1.0
short_description: What a package manager would do, from what it prints when it only simulates
description:
  - Reads what C(apt-get --simulate) or C(dnf --assumeno) prints in the locale C.
  - Tells which packages would come and go, which of them are parts of the NVIDIA driver, and how much room they need.
options:
  _input:
    description: What C(apt-get --simulate install) or C(dnf --assumeno install) printed.
    type: str
    required: true
  asked:
    description: >-
      What C(apt-get --assume-no install) printed, which tells the room that is needed. Left out, the text is taken for
      one of C(dnf).
    type: str
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: See whether an installation would touch the driver
  ansible.builtin.debug:
    msg: "{{ (simulated.stdout | gpufleet.sglang.package_transaction(asked.stdout)).driver }}"
"""

RETURN = r"""
_value:
  description: >-
    C(installed) and C(removed) packages by name, C(driver), those of them that are parts of the driver, and
    C(needed_bytes), null where nothing was said of it.
  type: dict
"""


def package_transaction(simulated: str, asked: str | None = None) -> dict[str, Any]:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.cuda.transaction import (
        apt_transaction,
        dnf_transaction,
    )

    found = dnf_transaction(simulated) if asked is None else apt_transaction(simulated, asked)
    return {
        "installed": list(found.installed),
        "removed": list(found.removed),
        "driver": found.touches_driver,
        "needed_bytes": found.needed_bytes,
    }


class FilterModule:
    def filters(self) -> dict[str, Callable[..., dict[str, Any]]]:
        return {"package_transaction": package_transaction}
