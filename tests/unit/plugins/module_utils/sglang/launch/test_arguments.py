# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.host.host import Sizing
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import (
    HiCacheRequest,
    ServerRequest,
    SpeculativeRequest,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.arguments import (
    check_server,
    release_problems,
    resolve_arguments,
    resolve_sizing,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.transfer import resolve_transfer
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts

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
    ("server", "code"),
    [
        (ServerRequest(kv_cache_dtype="fp8"), "choice_unknown"),
        (ServerRequest(tensor_parallel_size=0), "value_not_positive"),
        (ServerRequest(max_total_tokens=-5), "value_not_positive"),
        (ServerRequest(device="cpu", gpus=(0,)), "gpus_on_cpu"),
    ],
)
def test_servers_that_cannot_be_planned_are_refused(server: ServerRequest, code: str) -> None:
    assert refusal_of(check_server, NEW, server).code == code


def test_release_without_config_file_can_only_be_planned() -> None:
    assert [problem.code for problem in release_problems(version_facts("0.5.2"))] == ["config_file_unsupported"]
    assert release_problems(version_facts("0.5.3")) == []


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
        NEW, ServerRequest(), hicache, resolve_sizing(NEW, hicache), resolve_transfer(NEW, hicache), None
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
        extra_arguments={"schedule-policy": "lpm"},
    )
    hicache = HiCacheRequest(ratio=4.0, io_backend="direct", mem_layout="layer_first")
    assert resolve_arguments(
        NEW,
        server,
        hicache,
        resolve_sizing(NEW, hicache),
        resolve_transfer(NEW, hicache),
        "/srv/models/tiny",
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
    arguments = resolve_arguments(NEW, ServerRequest(), hicache, resolve_sizing(NEW, hicache), (None, None), None)
    assert not [flag for flag in arguments if "hicache" in flag or "hierarchical" in flag]


def parallel(release: str, **sizes: Any) -> dict[str, Any]:
    facts = version_facts(release)
    server = ServerRequest(tensor_parallel_size=8, enable_metrics=False, **sizes)
    found = resolve_arguments(facts, server, HiCacheRequest(enabled=False), Sizing("disabled"), (None, None), None)
    assert found.pop("device") == "cuda"
    assert found.pop("tp-size") == 8
    return found


def test_layouts_are_given_in_the_words_of_the_release() -> None:
    assert parallel("0.5.23") == {}
    assert parallel("0.5.23", pipeline_parallel_size=2) == {"pp-size": 2}
    assert parallel("0.5.23", attention_data_parallel_size=4) == {"attn-dp-size": 4}
    assert parallel("0.5.22", attention_data_parallel_size=4) == {"attn-dp-size": 4}
    assert parallel("0.5.21", attention_data_parallel_size=4) == {"enable-dp-attention": True, "dp-size": 4}
    assert parallel("0.5.23", expert_parallel_size=8) == {"ep-size": 8}
    assert parallel("0.5.2", expert_parallel_size=8) == {"ep-size": 8, "enable-ep-moe": True}
    assert parallel("0.5.23", max_running_requests=64) == {"max-running-requests": 64}


def test_speculation_is_given_with_what_was_asked_for() -> None:
    def given(speculative: SpeculativeRequest) -> dict[str, Any]:
        server = ServerRequest(enable_metrics=False)
        found = resolve_arguments(
            NEW, server, HiCacheRequest(enabled=False), Sizing("disabled"), (None, None), None, speculative
        )
        return {flag: value for flag, value in found.items() if flag.startswith("speculative")}

    assert given(SpeculativeRequest("nextn")) == {"speculative-algorithm": "NEXTN"}
    asked = SpeculativeRequest("EAGLE3", model_path="/srv/draft", num_steps=3, eagle_topk=1, num_draft_tokens=4)
    assert given(asked) == {
        "speculative-algorithm": "EAGLE3",
        "speculative-draft-model-path": "/srv/draft",
        "speculative-num-steps": 3,
        "speculative-eagle-topk": 1,
        "speculative-num-draft-tokens": 4,
    }
