# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A plan out of plain arguments, as a task or a check of an inventory has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.known_keys import (
    refuse_unknown_facts,
    refuse_unknown_model_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan import plan
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.plan_dict import plan_as_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import plan_request


def plan_of(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """C(arguments) are validated; raises Refusal."""
    refuse_unknown_facts(arguments["model"], arguments["topology"])
    draft = (arguments.get("speculative") or {}).get("model") or {}
    refuse_unknown_model_facts(draft, "speculative.model.")
    return plan_as_dict(plan(plan_request(arguments)))
