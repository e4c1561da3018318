# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host import Sizing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import HiCacheRequest, ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.arguments import (
    check_extra_arguments,
    check_server,
    resolve_arguments,
    resolve_sizing,
    resolve_transfer,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.versions import version_facts

OLD, NEW = version_facts("0.5.9"), version_facts("0.5.23")


def refusal_of(call: Any, *arguments: Any) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        call(*arguments)
    return refusal.value


def test_default_sizing_is_a_ratio_and_from_0_5_21_a_fraction() -> None:
    assert resolve_sizing(OLD, HiCacheRequest()) == Sizing("ratio", ratio=2.0)
    assert resolve_sizing(NEW, HiCacheRequest()) == Sizing("fraction", fraction=0.8)
    assert resolve_sizing(NEW, HiCacheRequest(enabled=False)) == Sizing("disabled")


@pytest.mark.parametrize(
    ("hicache", "code"),
    [
        (HiCacheRequest(ratio=2.0, size_gb=40), "hicache_sizing_ambiguous"),
        (HiCacheRequest(ratio=2.0, host_memory_fraction=0.5), "hicache_sizing_ambiguous"),
        (HiCacheRequest(ratio=0.0), "hicache_ratio_not_positive"),
        (HiCacheRequest(ratio=-1.0), "hicache_ratio_not_positive"),
        (HiCacheRequest(size_gb=0), "hicache_size_not_positive"),
        (HiCacheRequest(size_gb=-1), "hicache_size_not_positive"),
        (HiCacheRequest(host_memory_fraction=1.5), "hicache_fraction_out_of_range"),
        (HiCacheRequest(host_memory_fraction=0.0), "hicache_fraction_out_of_range"),
    ],
)
def test_sizings_that_cannot_be_meant_are_refused(hicache: HiCacheRequest, code: str) -> None:
    assert refusal_of(resolve_sizing, NEW, hicache).code == code


def test_fraction_is_refused_where_the_release_has_none() -> None:
    assert refusal_of(resolve_sizing, OLD, HiCacheRequest(host_memory_fraction=0.8)).code == (
        "hicache_fraction_unsupported"
    )


@pytest.mark.parametrize(
    ("backend", "layout", "expected"),
    [
        (None, None, ("kernel", "page_first")),
        ("kernel", None, ("kernel", "page_first")),
        ("kernel", "layer_first", ("kernel", "layer_first")),
        ("kernel", "page_head", ("kernel", "page_head")),
        ("direct", None, ("direct", "page_first_direct")),
        ("direct", "layer_first", ("direct", "layer_first")),
        ("direct", "page_first_direct", ("direct", "page_first_direct")),
        (None, "page_first_direct", ("direct", "page_first_direct")),
    ],
)
def test_transfer_in_force_is_what_the_server_resolves(
    backend: str | None, layout: str | None, expected: tuple[str, str]
) -> None:
    assert resolve_transfer(NEW, HiCacheRequest(io_backend=backend, mem_layout=layout)) == expected


@pytest.mark.parametrize(
    ("backend", "layout", "code", "becomes"),
    [
        ("kernel", "page_first_direct", "hicache_io_backend_rewritten", "direct"),
        ("direct", "page_first", "hicache_layout_rewritten", "page_first_direct"),
    ],
)
def test_pairs_that_the_server_would_rewrite_are_refused(backend: str, layout: str, code: str, becomes: str) -> None:
    refusal = refusal_of(resolve_transfer, NEW, HiCacheRequest(io_backend=backend, mem_layout=layout))
    assert refusal.code == code
    assert becomes in refusal.message


def test_unknown_choices_name_the_closest() -> None:
    refusal = refusal_of(resolve_transfer, NEW, HiCacheRequest(write_policy="write_thru"))
    assert refusal.code == "choice_unknown"
    assert "the closest is write_through" in refusal.remedy
    # A layout that exists, only not yet in that release.
    early = version_facts("0.5.3")
    assert refusal_of(resolve_transfer, early, HiCacheRequest(mem_layout="page_head")).code == "choice_unknown"


@pytest.mark.parametrize(
    ("server", "code"),
    [
        (ServerRequest(kv_cache_dtype="fp8"), "choice_unknown"),
        (ServerRequest(tensor_parallel_size=0), "value_not_positive"),
        (ServerRequest(max_total_tokens=-5), "value_not_positive"),
        (ServerRequest(pipeline_parallel_size=2), "pipeline_parallel_unplanned"),
        (ServerRequest(device="cpu", gpus=(0,)), "gpus_on_cpu"),
    ],
)
def test_servers_that_cannot_be_planned_are_refused(server: ServerRequest, code: str) -> None:
    assert refusal_of(check_server, NEW, server).code == code


def test_release_without_config_file_is_refused() -> None:
    assert refusal_of(check_server, version_facts("0.5.2"), ServerRequest()).code == "config_file_unsupported"


@pytest.mark.parametrize(
    ("flag", "code"),
    [
        ("mem_fraction_static", "extra_argument_owned"),
        ("--hicache-ratio", "extra_argument_owned"),
        ("tensor-parallel-size", "extra_argument_owned"),
        ("api-key", "secret_in_arguments"),
        ("max-total-tok", "extra_argument_shortened"),
        ("hicache-rat", "extra_argument_shortened"),
        ("foo bar", "extra_argument_malformed"),
        ("a;b", "extra_argument_malformed"),
        ("enable-dp-attention", "extra_argument_unplanned"),
        ("hicache-storage-backend", "extra_argument_unplanned"),
        ("disable-radix-cache", "extra_argument_excludes_hicache"),
        ("cuda-graph-max-bs", "extra_argument_absent"),
    ],
)
def test_extra_flags_that_undermine_the_plan_are_refused(flag: str, code: str) -> None:
    refusal = refusal_of(check_extra_arguments, NEW, ServerRequest(extra_arguments={flag: 1}), True)
    assert refusal.code == code
    assert flag in refusal.message


def test_extra_flags_that_are_half_seen_are_warned_of() -> None:
    server = ServerRequest(extra_arguments={"speculative-algorithm": "EAGLE3", "schedule-policy": "lpm"})
    assert [problem.code for problem in check_extra_arguments(NEW, server, True)] == ["draft_not_planned"]


@pytest.mark.parametrize(
    ("hicache", "flag", "value"),
    [
        (HiCacheRequest(ratio=4.0), "hicache-ratio", 4.0),
        (HiCacheRequest(size_gb=40), "hicache-size", 40),
        (HiCacheRequest(host_memory_fraction=0.5), "hicache-host-memory-fraction", 0.5),
        (HiCacheRequest(), "hicache-host-memory-fraction", 0.8),
    ],
)
def test_exactly_one_sizing_flag_is_emitted(hicache: HiCacheRequest, flag: str, value: float) -> None:
    arguments = resolve_arguments(
        ServerRequest(), hicache, resolve_sizing(NEW, hicache), resolve_transfer(NEW, hicache), None
    )
    sizing = {"hicache-ratio", "hicache-size", "hicache-host-memory-fraction"}
    assert {name: arguments[name] for name in sizing & set(arguments)} == {flag: value}
    assert arguments["enable-hierarchical-cache"] is True


def test_arguments_hold_what_was_asked_for_and_nothing_else() -> None:
    server = ServerRequest(
        device="cpu",
        tensor_parallel_size=2,
        max_total_tokens=40000,
        host="127.0.0.1",
        port=30000,
        served_model_name="rehearsal",
        extra_arguments={"--schedule_policy": "lpm"},
    )
    hicache = HiCacheRequest(ratio=4.0, io_backend="direct", mem_layout="layer_first")
    assert resolve_arguments(
        server, hicache, resolve_sizing(NEW, hicache), resolve_transfer(NEW, hicache), "/srv/models/tiny"
    ) == {
        "model-path": "/srv/models/tiny",
        "served-model-name": "rehearsal",
        "host": "127.0.0.1",
        "port": 30000,
        "device": "cpu",
        "tp-size": 2,
        "max-total-tokens": 40000,
        "enable-metrics": True,
        "enable-hierarchical-cache": True,
        "hicache-ratio": 4.0,
        "hicache-io-backend": "direct",
        "hicache-mem-layout": "layer_first",
        "schedule-policy": "lpm",
    }


def test_no_hicache_flag_where_it_is_off() -> None:
    hicache = HiCacheRequest(enabled=False, ratio=4.0, io_backend="direct")
    arguments = resolve_arguments(ServerRequest(), hicache, resolve_sizing(NEW, hicache), (None, None), None)
    assert not [flag for flag in arguments if "hicache" in flag or "hierarchical" in flag]
