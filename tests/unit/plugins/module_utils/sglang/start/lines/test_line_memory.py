# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a line tells of memory, and what the arguments of a server tell."""

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.lines.log_lines import parse_line

P = "[2026-11-29 14:20:15 TP1] "
GIB = 1 << 30


@pytest.mark.parametrize(
    ("line", "available", "size"),
    [
        ("Load weight begin. avail mem=78.94 GB", 78.94, None),
        ("Load weight end. type=XverseMoEForCausalLM, dtype=torch.bfloat16, avail mem=30.65 GB", 30.65, None),
        ("Load weight end. elapsed=1.25 s, type=X, avail mem=9.26 GB, mem usage=5.98 GB.", 9.26, 5.98),
        ("Memory pool end. avail mem=9.28 GB", 9.28, None),
        ("Capture cuda graph end. Time elapsed: 2.19 s", None, None),
        ("Capture cuda graph end. Time elapsed: 9.41 s. avail mem=18.57 GB. mem usage=3.38 GB.", 18.57, None),
        ("Capture draft CUDA graph end. elapsed=2.0 s, mem usage=0.30 GB, avail mem=9.00 GB.", 9.0, None),
        ("max_total_num_tokens=79301, max_prefill_tokens=16384, context_len=8192", None, None),
        (
            "max_total_num_tokens=540928, chunked_prefill_size=8192, context_len=524288, available_gpu_mem=10.09 GB",
            10.09,
            None,
        ),
        ("max_total_num_tokens=8192, context_len=2048, available_cpu_mem=17.97 GB", None, None),
        (
            "Mamba Cache is allocated. max_mamba_cache_size: 117, conv_state size: 0.28GB, ssm_state size: 8.07GB ",
            None,
            8.35,
        ),
        (
            "Mamba Cache is allocated. max_mamba_cache_size: 64, conv_state size: 0.07GB, ssm_state size: 3.05GB "
            "intermediate_ssm_state_cache size: 48.75GB intermediate_conv_window_cache size: 0.43GB ",
            None,
            52.3,
        ),
        ("Mamba Cache is allocated. max_mamba_cache_size: 360,", None, None),
    ],
)
def test_memory_that_a_line_tells(line: str, available: float | None, size: float | None) -> None:
    event = parse_line(f"[2026-11-29 14:20:12 TP0] {line}", "0.5.23")
    assert event is not None
    assert event.value("available_bytes") == (None if available is None else round(available * GIB))
    assert event.bytes == (None if size is None else round(size * GIB))


@pytest.mark.parametrize(
    ("line", "name", "size"),
    [
        ("Memory baseline taken. mem usage=-0.00 GB", "usage_bytes", 0.0),
        ("Memory baseline taken. mem usage=-0.25 GB", "usage_bytes", -0.25),
        ("Capture cuda graph end. Time elapsed: 2.19 s. mem usage=-0.10 GB. avail mem=8.84 GB.", "usage_bytes", -0.10),
        ("Memory pool end. avail mem=-0.00 GB", "available_bytes", 0.0),
        ("Load weight end. elapsed=1.25 s, type=X, avail mem=9.26 GB, mem usage=-0.01 GB.", "available_bytes", 9.26),
        ("HiCache memory headroom: host -1.50 GiB, cgroup -2.5 GiB", "host_bytes", -1.5),
        ("HiCache memory headroom: host -1.50 GiB, cgroup -2.5 GiB", "cgroup_bytes", -2.5),
    ],
)
def test_what_was_taken_or_is_left_may_be_less_than_nothing(line: str, name: str, size: float) -> None:
    event = parse_line(f"[2026-11-29 14:20:12 TP0] {line}", "0.5.23")
    assert event is not None
    assert event.value(name) == round(size * GIB)
    # Weights of less than nothing are not known: something else was given back meanwhile.
    assert event.bytes is None


def test_older_releases_tell_a_negative_use_in_the_end_of_their_first_stage() -> None:
    event = parse_line("[2026-11-29 14:20:12 TP0] Init torch distributed ends. mem usage=-0.02 GB", "0.5.5")
    assert event is not None
    assert event.value("usage_bytes") == round(-0.02 * GIB)


def test_arguments_tell_the_ranks_and_the_host_tier() -> None:
    event = parse_line(
        "[2026-11-29 14:20:12] server_args={'tp_size': 8, 'pp_size': 2, 'mem_fraction_static': None, 'page_size': 64, "
        "'hicache_ratio': 2.5, 'enable_hierarchical_cache': True, 'hicache_size': 0, 'draft_page_size': 3}",
        "0.5.23",
    )
    assert event is not None
    assert dict(event.values) == {
        "tp_size": 8,
        "pp_size": 2,
        "page_size": 64,
        "hicache_ratio": 2.5,
        "enable_hierarchical_cache": True,
        "hicache_size": 0,
    }


@pytest.mark.parametrize(
    ("line", "fraction"),
    [
        ("server_args=ServerArgs(model_path='/m', mem_fraction_static=0.88, api_key='k')", 0.88),
        ("server_args={'api_key': 'k', 'mem_fraction_static': 0.95, 'max_running_requests': None}", 0.95),
    ],
)
def test_arguments_tell_the_fraction_and_keep_the_rest(line: str, fraction: float) -> None:
    event = parse_line(f"[2026-11-29 14:20:12] {line}", "0.5.23")
    assert event is not None
    assert event.kind == "settings"
    assert event.value("mem_fraction_static") == fraction
    assert "'k'" not in str(event)
