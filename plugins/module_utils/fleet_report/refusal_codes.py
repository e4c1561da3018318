# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a report refuses to be made of."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "report_facts_malformed": ProblemCode(
        "error",
        "What a report shall be drawn from is not what one was read into.",
        "Give what the report playbook has written with report_json.",
    ),
    "report_facts_of_another_schema": ProblemCode(
        "error",
        "The saved facts were written by another release of the collection, in another form.",
        "Read the nodes again with this release, or draw the page with that one.",
    ),
}
