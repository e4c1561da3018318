# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Why a fleet cannot be rolled as asked: code, severity, meaning, remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "batch_malformed": ProblemCode(
        "error",
        "The size of a batch is neither a number of nodes nor a share of the fleet.",
        "Give rolling_batch and rolling_canary as a number from 1 on, or as a share such as 25%.",
    ),
    "nobody_may_leave": ProblemCode(
        "error",
        "A router needs every worker that it has in service, so that no node can be changed.",
        "Bring back who is out of service, add workers, or lower router_minimum_in_service.",
    ),
    "replica_too_large": ProblemCode(
        "error",
        "The members of a replica change together, and a router cannot let so many go.",
        "Bring back who is out of service, add workers, or lower router_minimum_in_service.",
    ),
    "router_unknown": ProblemCode(
        "error",
        "A router of the fleet does not answer, so that nobody knows who is in service.",
        "See 'systemctl status sglang-router' on that host; run the role gpufleet.sglang.router.",
    ),
}
