# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an operator should know of a draft: what is not counted of it, and what it takes that no budget keeps."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.cells.cell_size import DRAFT
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.device.device import DevicePlan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import Observed
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_gib
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem


def draft_problems(device: DevicePlan, observed: Observed, hicache: bool) -> list[Problem]:
    speculation = device.division.speculation
    if speculation is None:
        return []
    if not speculation.known:
        return _unknown(device, observed, hicache)
    beside = _beside_the_budget(device)
    # What was seen to stay idle was seen with the draft.
    if not beside or device.reserved_bytes is None or device.headroom_bytes is not None:
        return []
    room = device.reserved_bytes - beside
    if room >= device.reserved_bytes / 2:
        return []
    return [
        Problem(
            "draft_in_reserve",
            "warning",
            f"The draft takes {format_gib(beside)} of a GPU beside the KV budget, out of the "
            f"{format_gib(device.reserved_bytes)} that mem_fraction_static leaves free for activations and graphs.",
            "Lower server.mem_fraction_static, or give observed.idle_bytes_per_gpu of a start with the draft.",
        )
    ]


def _beside_the_budget(device: DevicePlan) -> int:
    """Bytes of the draft that nothing keeps room for: all of it, or what its rows take above those that are counted."""
    pool = next((pool.allocated_bytes for pool in device.pools if pool.kind == DRAFT), 0)
    beside = pool
    if device.division.facts.counts_draft:
        # The budget takes the draft's layers for layers of the target.
        beside = min(pool, max(0, sum(each.allocated_bytes for each in device.pools) - (device.budget_bytes or 0)))
    speculation = device.division.speculation
    if speculation is not None and not speculation.counts_draft_weights:
        beside += device.draft_bytes or 0
    return beside


def _unknown(device: DevicePlan, observed: Observed, hicache: bool) -> list[Problem]:
    """What a start with the draft has not told: an observed budget was what the draft left, idle memory as well."""
    missing = []
    if observed.kv_pool_bytes is None or observed.idle_bytes_per_gpu is None:
        missing += ["its weights", "its KV cache"]
    if hicache and device.division.facts.host_draft:
        missing.append("its host pool")
    if not missing:
        return []
    what = " and ".join([", ".join(missing[:-1]), missing[-1]] if len(missing) > 1 else missing)
    verb = "is" if len(missing) == 1 else "are"
    return [
        Problem(
            "draft_not_planned",
            "warning",
            f"A speculative draft model is asked for and its facts are not given; {what} {verb} not counted.",
            "Give speculative.model, which model_info reads"
            + (
                ", or observed.kv_pool_bytes and observed.idle_bytes_per_gpu of a start with the draft"
                if len(missing) > 1
                else ""
            )
            + (", and leave room on the host." if "its host pool" in missing else "."),
        )
    ]
