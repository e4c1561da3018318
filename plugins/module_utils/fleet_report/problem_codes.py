# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with a node that a report is made of: code, severity, meaning, remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "node_unreachable": ProblemCode(
        "error",
        "The controller does not reach the node; what is on it may serve all the same.",
        "Log in from the controller (`ansible NODE -m ansible.builtin.ping`), then make the report again.",
    ),
    "node_unread": ProblemCode(
        "error",
        "The node was reached, and what reads it failed.",
        "Mend what the message names, then make the report again.",
    ),
    "rank_gone": ProblemCode(
        "error",
        "The unit runs, and a process of its ranks is gone.",
        "Restart the unit; if it comes again, write an incident (playbook incident) and look at its journal.",
    ),
    "start_not_proven": ProblemCode(
        "warning",
        "The instance runs a start that nobody has proven: it was restarted by hand, by systemd or by a reboot.",
        "Run the site playbook, which follows and proves it without a restart where nothing differs.",
    ),
    "unit_absent": ProblemCode(
        "error",
        "Something is reserved for the instance and it has no unit, as after a run that was interrupted.",
        "Run the site playbook again.",
    ),
    "unit_file_changed": ProblemCode(
        "warning",
        "A unit file was changed, and systemd has not read it since.",
        "Run the site playbook; what was changed by hand belongs into its variables.",
    ),
    "unit_restarted": ProblemCode(
        "warning",
        "systemd has restarted the unit by itself, after the server died.",
        "Look at the journal of the start before (`journalctl -u UNIT`), or write an incident (playbook incident).",
    ),
    "unit_stopped": ProblemCode(
        "warning",
        "The unit was stopped and does not run.",
        "Run the site playbook if it shall serve.",
    ),
    "went_back": ProblemCode(
        "warning",
        "What was declared failed, and what was proven before serves.",
        "Declare something else, or set sglang_retry_failed to try the same again.",
    ),
}
