# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of replicas of several nodes, and of servers that only prefill or decode, as an argument specification
has them: known to the check of an inventory."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.replica.arrange import (
    DEFAULT_BOOTSTRAP_PORT,
    DEFAULT_MEETING_PORT,
    MODES,
    WHOLE,
)

OPTIONS: dict[str, dict[str, Any]] = {
    # All hosts that name the same replica are its nodes, in the order of the inventory.
    "sglang_replica": {"type": "str"},
    # Subnet of the address that a node meets the others over.
    "sglang_subnet": {"type": "str"},
    # Port of the first node that the ranks meet at.
    "sglang_dist_init_port": {"type": "int", "default": DEFAULT_MEETING_PORT},
    "sglang_disaggregation_mode": {"type": "str", "choices": list(MODES), "default": WHOLE},
    # Port that a server that prefills tells its partners where to fetch from.
    "sglang_disaggregation_bootstrap_port": {"type": "int", "default": DEFAULT_BOOTSTRAP_PORT},
    "sglang_disaggregation_transfer_backend": {"type": "str"},
    "sglang_disaggregation_ib_device": {"type": "str"},
}
