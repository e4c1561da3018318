# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What no machine can be described or surveyed with: code, severity, meaning, remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "board_ambiguous": ProblemCode(
        "error",
        "The name fits several boards of the catalogue.",
        "Take one of the names that the message lists.",
    ),
    "board_missing": ProblemCode(
        "error",
        "A machine on paper has no board.",
        "Name a board of the catalogue, such as NVIDIA H200.",
    ),
    "board_not_planned": ProblemCode(
        "error",
        "The board is known and cannot be planned for, for the reason in the message.",
        "Take another board.",
    ),
    "board_unknown": ProblemCode(
        "error",
        "The name is no board of the catalogue.",
        "Take the closest that the message names, or state the GPUs as a topology.",
    ),
    "nvlink_not_had": ProblemCode(
        "error",
        "The boards do not have NVLink between every pair of GPUs.",
        "Leave nvlink out, or state the links as a topology.",
    ),
    "root_missing": ProblemCode(
        "error",
        "The root that facts are to be read below is no folder on this machine.",
        "Name the folder that holds the machine's files.",
    ),
    "root_not_absolute": ProblemCode(
        "error",
        "The root that facts are to be read below is no absolute path.",
        "Name the folder from / on.",
    ),
    "root_unreadable": ProblemCode(
        "error",
        "The user of the task may not enter the root that facts are to be read below.",
        "Run the task with become, or give its user access to the folder.",
    ),
    "timeout_out_of_range": ProblemCode(
        "error",
        "nvml_timeout_seconds is not above 0 and up to 86400 seconds.",
        "Give a number of seconds within that range.",
    ),
}
