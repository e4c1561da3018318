# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Lines that tell why a start failed, as rows of the grammar.

C(kind): failure (a line of the catalogue, C(label) is its code), exception (the last line of a traceback) or
consequence (the cause stands elsewhere). The kind of an exception is part of a line, so failures are searched for in
it, without an anchor.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import GB
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import FAILURES
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.rows import Row, row

FAILURE_ROWS: tuple[Row, ...] = (
    *(
        row("failure", pattern.regex, failure.stage, failure.code, GB, pattern.since, pattern.until)
        for failure in FAILURES
        for pattern in failure.patterns
    ),
    # An exception reached the top of a scheduler; the cause follows as a traceback in the same record or process.
    row("consequence", r"Scheduler hit an exception: ", None, "scheduler_exception"),
    row("consequence", r"Received sigquit from a child process|SIGQUIT received\.", None, "sigquit"),
    row("consequence", r"SIGTERM received\.", None, "sigterm"),
    # The last line of a traceback.
    row(
        "exception",
        r"^(?P<label>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit))(?:: (?P<reason>.*))?$",
    ),
)
