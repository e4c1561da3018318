# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The catalogue of what ends a start, by code.

One file for each subject; here they are put together. The grammar makes rows of the patterns (lines/failure_rows.py),
the watch reads which lines end a start, the diagnosis words and computes (remedies/).
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.arguments import (
    ARGUMENTS,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.device_memory import (
    DEVICE_MEMORY,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.failure import (
    CAUSE,
    STANDINGS,
    Failure,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.gpu_stack import (
    GPU_STACK,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.host_memory import (
    HOST_MEMORY,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.model_files import (
    MODEL_FILES,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.network import NETWORK
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.processes import (
    PROCESSES,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.unit_results import (
    EXEC_STATUSES,
    OTHER_STATUS,
    RESULTS,
    START_LIMIT,
    UNIT,
)

# Of two patterns that match one line the earlier counts: what names a cause stands before what only says that one is.
FAILURES: tuple[Failure, ...] = (
    *HOST_MEMORY,
    *DEVICE_MEMORY,
    *MODEL_FILES,
    *NETWORK,
    *GPU_STACK,
    *ARGUMENTS,
    *PROCESSES,
    START_LIMIT,
)
CATALOGUE: dict[str, Failure] = {
    failure.code: failure for failure in (*FAILURES, *EXEC_STATUSES.values(), OTHER_STATUS, *RESULTS.values(), *UNIT)
}

# Lines after which the server cannot come up any more.
FATAL = frozenset(failure.code for failure in FAILURES if failure.fatal)
# Lines that name what is wrong: nothing better is to be waited for.
CAUSES = frozenset(failure.code for failure in FAILURES if failure.standing == CAUSE)
_STANDING = {code: STANDINGS.index(failure.standing) for code, failure in CATALOGUE.items()}


def standing_of(code: str | None) -> int:
    """How much a line of this code says, 0 for a cause; more than any for a code that is not in the catalogue."""
    return _STANDING.get(code or "", len(STANDINGS))
