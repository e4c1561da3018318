# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with the services of a node: code, severity, meaning, remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "files_absent": ProblemCode(
        "error",
        "A file of the generation that was proven is gone, so that it cannot be kept.",
        "Run the site playbook again; it renders what is missing.",
    ),
    "generation_incomplete": ProblemCode(
        "error",
        "A kept generation lacks a file, so that it cannot be restored.",
        "Run the site playbook with what is to be in force.",
    ),
    "generation_not_a_digest": ProblemCode(
        "error",
        "A generation is named by something that is no digest.",
        "Give the digest that effective_change or the ledger tells.",
    ),
    "nothing_to_go_back_to": ProblemCode(
        "error",
        "No other generation than the one that is to be left has ever been proven on this node, or is still kept.",
        "Run the site playbook with what is to be in force.",
    ),
    "too_few_generations": ProblemCode(
        "error",
        "Fewer than one generation is to be kept.",
        "Keep 1 or more.",
    ),
}
