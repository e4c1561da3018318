# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with watching and asking a server: code, severity, meaning, remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "journal_unreadable": ProblemCode(
        "warning",
        "journalctl failed, so that only bytes and readiness of the start can be watched.",
        "Run as root or as a member of systemd-journal.",
    ),
    "out_of_range": ProblemCode(
        "error",
        "A number of an option is outside of its range.",
        "Give a number within the range that the message names.",
    ),
    "systemctl_failed": ProblemCode(
        "error",
        "systemctl could not show the unit.",
        "Run the module on a node with systemd, and look at the error in the message.",
    ),
    "url_malformed": ProblemCode(
        "error",
        "The URL of a server is not of the form http://HOST:PORT.",
        "Give it in that form.",
    ),
    "wait_too_long": ProblemCode(
        "error",
        "wait_seconds is more than one call may wait, or below 0.",
        "Give a number within the range that the message names; call again for more.",
    ),
}
