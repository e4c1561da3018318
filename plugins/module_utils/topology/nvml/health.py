# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the driver says of a GPU's memory errors and of what was done about them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.machine import EccErrors, Gpu, RemappedRows
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology.nvml.calls import (
    LACKING,
    Ask,
    counted,
    flag,
    required,
    whole,
)

# NVML's nvmlMemoryErrorType_t and nvmlEccCounterType_t.
CORRECTED, UNCORRECTED = 0, 1
VOLATILE, AGGREGATE = 0, 1
# NVML's nvmlPageRetirementCause_t.
SINGLE_BIT, DOUBLE_BIT = 0, 1
_COUNT = whole(0, 2**63, unknown=(2**64 - 1,))


def _rows(value: Any) -> RemappedRows:
    corrected, uncorrected, pending, failure = value
    limit = 2**31
    return RemappedRows(required(corrected, 0, limit), required(uncorrected, 0, limit), flag(pending), flag(failure))


def _read_errors(ask: Ask, handle: Any, gpu: int) -> EccErrors | None:
    def count(kind: int, since: int) -> int | None:
        return ask(_COUNT, "nvmlDeviceGetTotalEccErrors", handle, kind, since, gpu=gpu, quiet=LACKING)

    errors = EccErrors(
        corrected_volatile=count(CORRECTED, VOLATILE),
        uncorrected_volatile=count(UNCORRECTED, VOLATILE),
        corrected_aggregate=count(CORRECTED, AGGREGATE),
        uncorrected_aggregate=count(UNCORRECTED, AGGREGATE),
    )
    return None if errors == EccErrors() else errors


def _read_retired_pages(ask: Ask, handle: Any, gpu: int) -> RemappedRows | None:
    """Boards before Ampere take whole pages out of use, until none are left to take; they know no failure."""

    def pages(cause: int) -> int | None:
        return ask(counted, "nvmlDeviceGetRetiredPages", handle, cause, gpu=gpu, quiet=LACKING)

    single, double = pages(SINGLE_BIT), pages(DOUBLE_BIT)
    pending = ask(flag, "nvmlDeviceGetRetiredPagesPendingStatus", handle, gpu=gpu, quiet=LACKING)
    if single is None or double is None or pending is None:
        return None
    return RemappedRows(single, double, pending, failure=False, unit="page")


def read_health(ask: Ask, handle: Any, gpu: Gpu) -> Gpu:
    """C(gpu) with its errors. Without ECC there is nothing to count."""
    rows = ask(_rows, "nvmlDeviceGetRemappedRows", handle, gpu=gpu.index, quiet=LACKING)
    if rows is None and gpu.architecture in (None, "maxwell", "pascal", "volta", "turing"):
        rows = _read_retired_pages(ask, handle, gpu.index)
    errors = _read_errors(ask, handle, gpu.index) if gpu.ecc and gpu.ecc.enabled else None
    return replace(gpu, ecc_errors=errors, remapped_rows=rows)
