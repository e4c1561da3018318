# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts of a unit that systemd itself has forgotten, by what it said of them in the journal."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.journal import (
    invocation_matches,
    starts_command,
    starts_in,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.events import LogEvent
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.collector import Collector
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.journal_log import JournalLog
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.kernel_log import KernelLog
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node
from ansible_collections.gpufleet.sglang.plugins.module_utils.systemd import UnitStatus

# What may name why a start ended. That it was ready once is of no interest, and never counts for another start.
_TELLING = ("failure", "exception", "consequence")


def _starts(node: Node, unit: UnitStatus) -> tuple[str, ...]:
    """Those since the boot that systemd spoke of, the newest first."""
    if unit.load_state == "not-found":
        return ()
    code, output, _errors = node.run(starts_command(unit.name))
    return starts_in(output) if code == 0 else ()


def last_start(node: Node, unit: UnitStatus) -> str | None:
    """The newest start of a unit that has ended.

    systemd forgets all about a unit that ended well, SIGKILL included where it counts as success, if nothing else
    refers to it; its journal does not.
    """
    return next(iter(_starts(node, unit)), None)


def failures_before(node: Node, unit: UnitStatus, version: str) -> list[LogEvent]:
    """What the start before the present one said of its end, where systemd restarted the unit by itself."""
    if not unit.n_restarts or unit.invocation_id is None:
        return []
    before = next((one for one in _starts(node, unit) if one != unit.invocation_id), None)
    if before is None:
        return []
    found = Collector(version, 0)
    matches = invocation_matches(before)
    JournalLog(node, found, KernelLog(), matches, None, None, namespace=unit.log_namespace).finish(surely=True)
    return [event for event in found.events if event.kind in _TELLING]
