# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts, model_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention_config import attention_from_config
from ansible_collections.gpufleet.sglang.plugins.module_utils.plain import plain
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.start_refusals import (
    refuse_what_ends_a_start,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.memory.attentions import (
    GPT_OSS,
    LLAMA_8B,
    MIMO,
    QWEN3_NEXT,
)

KERNEL, DIRECT = ("kernel", "page_first"), ("direct", "page_first_direct")

# What a start of a model with states takes on a CPU.
UNBUFFERED = {"mamba-radix-cache-strategy": "no_buffer", "disable-overlap-schedule": True}


def model_of(config: dict[str, Any]) -> ModelFacts:
    return model_facts({"architecture": config["architectures"][0], "attention": plain(attention_from_config(config))})


def check(
    release: str,
    config: dict[str, Any],
    server: ServerRequest | None = None,
    transfer: tuple[str | None, str | None] = DIRECT,
) -> None:
    refuse_what_ends_a_start(version_facts(release), model_of(config), server or ServerRequest(), transfer)


def refusal_of(
    release: str,
    config: dict[str, Any],
    server: ServerRequest | None = None,
    transfer: tuple[str | None, str | None] = DIRECT,
) -> Refusal:
    with pytest.raises(Refusal) as refusal:
        check(release, config, server, transfer)
    return refusal.value


@pytest.mark.parametrize("config", [QWEN3_NEXT, MIMO], ids=["states", "widths"])
@pytest.mark.parametrize("io_backend", ["kernel", "direct"])
def test_layer_first_is_refused_with_the_layout_that_starts(config: dict[str, Any], io_backend: str) -> None:
    for release in ("0.5.14", "0.5.16", "0.5.23"):
        refusal = refusal_of(release, config, transfer=(io_backend, "layer_first"))
        assert refusal.code == "hicache_layout_unsupported"
        fitting = refusal.evidence["fitting"]
        assert isinstance(fitting, list)
        for layout in fitting:
            check(release, config, transfer=(io_backend, layout))
        assert any(f"Set hicache.mem_layout to {layout}" in refusal.remedy for layout in fitting)
    # What the check begins with is nothing to plans without HiCache, to other models, or to releases before.
    check("0.5.23", config, transfer=(None, None))
    check("0.5.23", LLAMA_8B, transfer=(io_backend, "layer_first"))
    check("0.5.13", config, transfer=(io_backend, "layer_first"))


def test_states_took_one_layout_in_0_5_14_and_0_5_15() -> None:
    for release in ("0.5.14", "0.5.15"):
        refusal = refusal_of(release, QWEN3_NEXT, transfer=KERNEL)
        assert "page_first_direct, and hicache.io_backend to direct" in refusal.remedy
        check(release, QWEN3_NEXT, transfer=DIRECT)
        check(release, MIMO, transfer=KERNEL)
    check("0.5.16", QWEN3_NEXT, transfer=KERNEL)


def test_states_without_a_buffer_take_pages_of_one_token() -> None:
    for release in ("0.5.14", "0.5.23"):
        refusal = refusal_of(release, QWEN3_NEXT, ServerRequest(page_size=16, extra_arguments=UNBUFFERED))
        assert refusal.code == "states_page_size"
        check(release, QWEN3_NEXT, ServerRequest(page_size=1, extra_arguments=UNBUFFERED))
        # Left to the server, this class is kept with a buffer.
        check(release, QWEN3_NEXT, ServerRequest(page_size=16))
        check(
            release,
            QWEN3_NEXT,
            ServerRequest(page_size=16, extra_arguments={**UNBUFFERED, "disable-radix-cache": True}),
        )
    # These set the page by themselves.
    older = {"mamba-scheduler-strategy": "no_buffer"}
    check("0.5.13", QWEN3_NEXT, ServerRequest(page_size=16, extra_arguments=older))
    # A class that knows no buffer is kept without one, whatever was left out.
    assert refusal_of("0.5.15", {**QWEN3_NEXT, "architectures": ["KimiLinearForCausalLM"]}, ServerRequest(page_size=16))


def test_states_without_a_buffer_are_not_scheduled_ahead() -> None:
    alone = {"mamba-radix-cache-strategy": "no_buffer"}
    assert refusal_of("0.5.23", QWEN3_NEXT, ServerRequest(extra_arguments=alone)).code == "states_overlap_schedule"
    check("0.5.23", QWEN3_NEXT, ServerRequest(extra_arguments=UNBUFFERED))
    check("0.5.13", QWEN3_NEXT, ServerRequest(extra_arguments={"mamba-scheduler-strategy": "no_buffer"}))


def test_states_with_a_buffer_are_not_for_a_cpu() -> None:
    refusal = refusal_of("0.5.23", QWEN3_NEXT, ServerRequest(device="cpu"))
    assert refusal.code == "states_need_gpu"
    assert "no_buffer" in refusal.remedy
    # As the real server was seen to start, given or found out by itself.
    for extra in (UNBUFFERED, {"disable-overlap-schedule": True}):
        check("0.5.23", QWEN3_NEXT, ServerRequest(device="cpu", page_size=1, extra_arguments=extra))


@pytest.mark.parametrize(
    ("release", "backend", "starts"),
    [
        ("0.5.23", "torch_native", False),
        ("0.5.23", "flashinfer", False),
        ("0.5.23", "intel_amx", True),
        ("0.5.12", "intel_amx", False),
        ("0.5.4", "fa4", True),
        ("0.5.3", "fa4", False),
        ("0.5.1", "triton", True),
    ],
)
def test_attention_sinks_take_the_backends_of_the_release(release: str, backend: str, starts: bool) -> None:
    servers = [ServerRequest(attention_backend=backend)]
    if release != "0.5.1":
        servers += [ServerRequest(extra_arguments={"decode-attention-backend": backend})]
    for server in servers:
        if starts:
            check(release, GPT_OSS, server, ("direct", "layer_first"))
            continue
        refusal = refusal_of(release, GPT_OSS, server, ("direct", "layer_first"))
        assert refusal.code == "attention_backend_without_sinks"
        fitting = refusal.evidence["fitting"]
        assert isinstance(fitting, list)
        check(release, GPT_OSS, ServerRequest(attention_backend=fitting[0]), ("direct", "layer_first"))
    check(release, LLAMA_8B, servers[0], ("direct", "layer_first"))
