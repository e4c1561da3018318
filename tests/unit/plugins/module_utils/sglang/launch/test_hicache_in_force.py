# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.hicache_in_force import (
    Beside,
    HiCacheFlags,
    hicache_in_force,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts


def in_force(release: str, flags: HiCacheFlags, beside: Beside | None = None) -> tuple[str | None, str | None]:
    found = hicache_in_force(version_facts(release), flags, beside or Beside())
    return found.io_backend, found.mem_layout


@pytest.mark.parametrize(
    ("release", "backend", "expected"),
    [
        ("0.5.6", "kernel_ascend", "direct"),
        ("0.5.7", "kernel_ascend", "kernel_ascend"),
        ("0.5.23", "kernel_ascend", "kernel_ascend"),
        ("0.5.3", "kernel", "direct"),
        ("0.5.7", "kernel", "direct"),
        ("0.5.23", "kernel", "direct"),
    ],
)
def test_page_first_direct_decides_the_io_backend_by_release(release: str, backend: str, expected: str) -> None:
    flags = HiCacheFlags(io_backend=backend, mem_layout="page_first_direct")
    assert in_force(release, flags) == (expected, "page_first_direct")


def test_page_first_under_direct_is_kept_to_0_5_9() -> None:
    flags = HiCacheFlags(io_backend="direct", mem_layout="page_first")
    assert in_force("0.5.9", flags) == ("direct", "page_first")
    assert in_force("0.5.10", flags) == ("direct", "page_first_direct")


@pytest.mark.parametrize(("backend", "layout"), [("direct", "page_first_direct"), ("kernel", "page_first")])
def test_storage_that_cannot_keep_layers_first_gets_pages(backend: str, layout: str) -> None:
    flags = HiCacheFlags(io_backend=backend, mem_layout="layer_first", storage_backend="mooncake")
    assert in_force("0.5.23", flags) == (backend, layout)
    assert in_force("0.5.9", flags) == (backend, layout)
    filed = HiCacheFlags(io_backend=backend, mem_layout="layer_first", storage_backend="file")
    assert in_force("0.5.23", filed) == (backend, "layer_first")


def test_storage_of_ascend_counts_from_0_5_20_on() -> None:
    flags = HiCacheFlags(io_backend="kernel", mem_layout="layer_first", storage_backend="npu_memcache")
    assert in_force("0.5.19", flags)[1] == "layer_first"
    assert in_force("0.5.20", flags)[1] == "page_first"


def test_unified_memory_takes_the_direct_copies_back_from_0_5_23_on() -> None:
    flags = HiCacheFlags(io_backend="direct")
    assert in_force("0.5.23", flags, Beside(unified_memory=True)) == ("kernel", "page_first")
    assert in_force("0.5.22", flags, Beside(unified_memory=True)) == ("direct", "page_first_direct")


@pytest.mark.parametrize(
    ("flags", "ratio", "size_gb", "fraction"),
    [
        (HiCacheFlags(), 2.0, 0, 0.8),
        (HiCacheFlags(ratio=3.0), 3.0, 0, None),
        (HiCacheFlags(size_gb=40), 2.0, 40, None),
        (HiCacheFlags(size_gb=-1), 2.0, -1, 0.8),
        (HiCacheFlags(host_memory_fraction=0.5), 2.0, 0, 0.5),
        (HiCacheFlags(host_memory_fraction=0.5, ratio=3.0), 3.0, 0, None),
        (HiCacheFlags(host_memory_mode="buffer_only", storage_backend="file"), 1.2, 0, 0.8),
    ],
)
def test_a_ratio_or_a_size_switches_the_fraction_off(
    flags: HiCacheFlags, ratio: float, size_gb: int, fraction: float | None
) -> None:
    found = hicache_in_force(version_facts("0.5.23"), flags, Beside())
    assert (found.ratio, found.size_gb, found.host_memory_fraction) == (ratio, size_gb, fraction)


def test_staging_has_no_host_tier_to_write_back_from() -> None:
    flags = HiCacheFlags(host_memory_mode="buffer_only", storage_backend="file", write_policy="write_back")
    assert hicache_in_force(version_facts("0.5.22"), flags, Beside()).write_policy == "write_through"
    with pytest.raises(Refusal, match="write_back"):
        hicache_in_force(version_facts("0.5.21"), flags, Beside())


@pytest.mark.parametrize(
    ("flags", "beside"),
    [
        (HiCacheFlags(host_memory_fraction=1.5), Beside()),
        (HiCacheFlags(host_memory_fraction=0.0), Beside()),
        (HiCacheFlags(host_memory_mode="buffer_only"), Beside()),
        (HiCacheFlags(), Beside(disable_radix_cache=True)),
        (HiCacheFlags(), Beside(lmcache=True)),
        (HiCacheFlags(), Beside(decode_context_parallel_size=2)),
        (HiCacheFlags(), Beside(decode_context_parallel_size=2, latent=True, speculative_algorithm="EAGLE")),
        (HiCacheFlags(), Beside(unified_memory=True, speculative_algorithm="EAGLE3")),
    ],
)
def test_what_the_server_refuses_is_refused_with_its_reason(flags: HiCacheFlags, beside: Beside) -> None:
    with pytest.raises(Refusal) as refusal:
        hicache_in_force(version_facts("0.5.23"), flags, beside)
    assert refusal.value.code == "hicache_refused_by_server"
    assert "SGLang refuses" in refusal.value.message


def test_context_parallel_ranks_share_latents_and_their_own_draft() -> None:
    beside = Beside(decode_context_parallel_size=2, latent=True, speculative_algorithm="DSPARK")
    assert hicache_in_force(version_facts("0.5.23"), HiCacheFlags(), beside).io_backend == "kernel"


@pytest.mark.parametrize(
    ("taken_by", "refused_by", "flags", "beside"),
    [
        ("0.5.20", "0.5.21", HiCacheFlags(), Beside(lmcache=True)),
        ("0.5.21", "0.5.20", HiCacheFlags(), Beside(unified_memory=True)),
        ("0.5.16", "0.5.17", HiCacheFlags(), Beside(decode_context_parallel_size=2)),
        ("0.5.16", "0.5.17", HiCacheFlags(), Beside(decode_context_parallel_size=2, latent=True, lmcache=True)),
        (
            "0.5.18",
            "0.5.17",
            HiCacheFlags(),
            Beside(decode_context_parallel_size=2, latent=True, speculative_algorithm="DSPARK"),
        ),
        (
            "0.5.23",
            "0.5.22",
            HiCacheFlags(storage_backend="file"),
            Beside(decode_context_parallel_size=2, latent=True),
        ),
    ],
)
def test_what_is_refused_beside_hicache_differs_by_release(
    taken_by: str, refused_by: str, flags: HiCacheFlags, beside: Beside
) -> None:
    assert hicache_in_force(version_facts(taken_by), flags, beside).write_policy == "write_through"
    with pytest.raises(Refusal) as refusal:
        hicache_in_force(version_facts(refused_by), flags, beside)
    assert refusal.value.code == "hicache_refused_by_server"


def test_storage_that_only_stages_does_not_go_with_context_parallel_ranks() -> None:
    flags = HiCacheFlags(storage_backend="file", host_memory_mode="buffer_only")
    latent = Beside(latent=True)
    assert hicache_in_force(version_facts("0.5.23"), flags, latent).ratio == 1.2
    with pytest.raises(Refusal, match="storage with --dcp-size"):
        hicache_in_force(version_facts("0.5.23"), flags, Beside(latent=True, decode_context_parallel_size=2))
