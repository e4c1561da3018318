# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The stand-in release pins what SGLang's own code answered that it would, for the families that it plays.

The answers are those of test_cell_sizes.py, which holds the planner against them.
"""

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.arguments import CACHE_TYPES
from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.pools import (
    HEADS,
    LATENT,
    bytes_per_token,
    device_tokens,
    host_tokens,
    model_of,
)
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import version_of
from ansible_collections.gpufleet.sglang.tests.conformance.cell_cases import (
    BUDGET_BYTES,
    HOST_RATIO,
    HOST_SIZE_GB,
    PAGE_SIZE,
    POOL_PAGES,
    Case,
)
from ansible_collections.gpufleet.sglang.tests.conformance.test_cell_sizes import ANSWERED, CONFIGS, case_of, named


def is_played(case: Case) -> bool:
    """Tensor parallelism alone, and no draft."""
    return (
        CONFIGS[case.model]["architectures"][0] in (*HEADS, *LATENT)
        and case.kv_cache_dtype in CACHE_TYPES
        and (case.pipeline_parallel, case.attention_data_parallel, case.draft_layers) == (1, 1, 0)
    )


PLAYED = [(release, row) for release, row in ANSWERED if is_played(case_of(row))]


def test_both_kinds_are_among_the_records_of_every_release() -> None:
    for kind in (HEADS, LATENT):
        of_kind = {release for release, row in PLAYED if CONFIGS[row["model"]]["architectures"][0] in kind}
        assert of_kind == {release for release, _row in ANSWERED}


@pytest.mark.parametrize(("release", "row"), PLAYED, ids=named)
def test_bytes_of_a_token_and_tokens_of_the_pools(release: str, row: dict[str, Any]) -> None:
    case, answer = case_of(row), row["answer"]
    model = model_of(CONFIGS[case.model])
    ours = bytes_per_token(model, case.tensor_parallel, cache_dtype=case.kv_cache_dtype)
    assert ours == answer["budget"]
    if "rows" in answer:
        assert answer["rows"] == {"kv": ours}
    # A cap counts where it is less than what the budget holds.
    assert answer["tokens"] == device_tokens(min(case.cap or BUDGET_BYTES, BUDGET_BYTES // ours), PAGE_SIZE)
    if "host" in answer:
        tokens = POOL_PAGES * PAGE_SIZE
        by_ratio = host_tokens(version_of(release), tokens, PAGE_SIZE, ours, ratio=HOST_RATIO, size_gb=0)
        by_size = host_tokens(version_of(release), tokens, PAGE_SIZE, ours, ratio=None, size_gb=HOST_SIZE_GB)
        assert answer["host"] == {"ratio": {"kv": [by_ratio, ours]}, "size": {"kv": [by_size, ours]}}
