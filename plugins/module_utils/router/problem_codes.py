# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong between a router and its workers: code, severity, meaning, remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "members_unreadable": ProblemCode(
        "error",
        "The file that says who is in service behind the router is not there or holds something else.",
        "Run the role gpufleet.sglang.router on this host; it writes the file.",
    ),
    "router_key_refused": ProblemCode(
        "error",
        "The router does not take the key that its own files name.",
        "Run the role gpufleet.sglang.router on this host; it restarts a router that was started with another key.",
    ),
    "router_silent": ProblemCode(
        "error",
        "The router does not answer, or not as a router does.",
        "See 'systemctl status sglang-router' and its journal on this host.",
    ),
    "too_few_in_service": ProblemCode(
        "error",
        "A worker that leaves would leave fewer in service than have to stay.",
        "Wait for others to come back, take fewer at a time, or lower router_minimum_in_service.",
    ),
    "worker_not_declared": ProblemCode(
        "error",
        "A worker is named that is no member of this router.",
        "Add its host to the inventory's router_workers_group, or its URL to router_workers, and run the role "
        "gpufleet.sglang.router.",
    ),
    "worker_not_in_service": ProblemCode(
        "error",
        "A worker was put back, and the router does not have it as healthy.",
        "See whether the router's host reaches that address, whether the server asks for another key than "
        "router_worker_api_key, and the router's journal.",
    ),
    "worker_not_removed": ProblemCode(
        "error",
        "The router was told to let a worker go and still has it.",
        "See the router's journal; restarting it also lets the worker go, as it comes back with its members alone.",
    ),
    "worker_url_malformed": ProblemCode(
        "error",
        "The address of a worker is none.",
        "Expected http://HOST:PORT or https://HOST:PORT, with nothing behind it.",
    ),
}
