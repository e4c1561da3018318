# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import fields

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import (
    HICACHE,
    pool_facts,
    window_off,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED


@pytest.mark.parametrize("version", [str(version) for version in EXAMINED])
def test_every_examined_release_has_facts(version: str) -> None:
    facts = pool_facts(version)
    assert facts == pool_facts(f"{version}.post1" if "rc" not in version else version)
    # A host pool for what the device does not keep would be a mistake.
    if facts.host_windows or facts.host_states or facts.host_index:
        assert facts.plans_hybrids
    assert facts.draft_index_apart <= facts.counts_draft
    assert facts.counts_draft_with_window <= facts.counts_draft


def test_what_is_fixed_stays_fixed() -> None:
    """Yes-or-no facts change once; a row that goes back and forth would be a typing error."""
    found = [pool_facts(str(version)) for version in EXAMINED]
    for field in fields(found[0]):
        values = [getattr(facts, field.name) for facts in found]
        changes = sum(before != after for before, after in zip(values, values[1:]))
        assert changes <= (1 if isinstance(values[0], bool) else 3), field.name


@pytest.mark.parametrize(
    ("architecture", "version", "causes", "expected"),
    [
        ("GptOssForCausalLM", "0.5.9", {"trtllm_mha"}, "trtllm_mha"),
        ("GptOssForCausalLM", "0.5.9", {"triton"}, None),
        ("GptOssForCausalLM", "0.5.9.post1", {"trtllm_mha"}, "trtllm_mha"),
        ("GptOssForCausalLM", "0.5.10", {"trtllm_mha"}, None),
        ("MiMoV2FlashForCausalLM", "0.5.13", {HICACHE}, HICACHE),
        ("MiMoV2FlashForCausalLM", "0.5.14", {HICACHE}, None),
        ("Step3p5ForCausalLM", "0.5.23", {HICACHE, "fa3"}, HICACHE),
        ("LlamaForCausalLM", "0.5.23", {HICACHE}, None),
    ],
)
def test_what_switches_window_pools_off(
    architecture: str, version: str, causes: set[str], expected: str | None
) -> None:
    assert window_off(architecture, version, frozenset(causes)) == expected
