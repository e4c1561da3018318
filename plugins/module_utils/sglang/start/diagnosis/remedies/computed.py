# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which remedy is computed for which code; every other says what the catalogue says. Pure."""

from __future__ import annotations

from collections.abc import Callable

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies import (
    arguments,
    device_memory,
    host_memory,
    named,
    processes,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.remedies.case import (
    Case,
    Finding,
    plain,
)

COMPUTED: dict[str, Callable[[Case], Finding]] = {
    "host_memory_guard": host_memory.guard,
    "host_pool_smaller_than_device": host_memory.smaller_than_device,
    "registration_failed": host_memory.registration,
    "host_memory_exhausted": host_memory.exhausted,
    "oom_killer": host_memory.oom_killer,
    "bus_error": host_memory.bus_error,
    "kv_pool_too_small": device_memory.kv_pool_too_small,
    "gpu_out_of_memory": device_memory.gpu_out_of_memory,
    "gpu_memory_unbalanced": device_memory.unbalanced,
    "flag_unknown": arguments.flag_unknown,
    "flag_ambiguous": arguments.flag_ambiguous,
    "flag_value_invalid": arguments.flag_value_invalid,
    "flag_missing": arguments.flag_missing,
    "bad_argument": arguments.rejected,
    "port_in_use": named.port_in_use,
    "driver_too_old": named.driver_too_old,
    "context_too_long": named.context_too_long,
    "shared_memory_full": named.shared_memory_full,
    "gpu_error": named.gpu_error,
    "numactl_denied": named.numactl_denied,
    "ranks_timed_out": named.ranks_timed_out,
    "missing_library": named.library_missing,
    "disk_full": named.disk_full,
    "scheduler_died": processes.died,
    "scheduler_exception": processes.exception,
    "exception": processes.exception,
}


def finding_of(case: Case) -> Finding:
    return COMPUTED.get(case.code, plain)(case)
