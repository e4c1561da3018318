# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from dataclasses import replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.processes import RankReading
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.view.startup_figures import figures
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.expectation import Expectation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.observation import Observation
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.startup import advance
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.watch.state import (
    StartupState,
    initial,
)
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.starts import (
    RUNNING,
    VERSION,
    events,
    raw_events,
)

GIB = 1 << 30
SETTINGS = "[2026-11-29 14:20:12] server_args={'model_path': '/m', 'mem_fraction_static': 0.874, 'api_key': 'secret'}"
LINES = {
    10.0: ("TP0] Load weight begin. avail mem=95.60 GB", "TP1] Load weight begin. avail mem=95.58 GB"),
    50.0: (
        "TP0] Load weight end. elapsed=40.00 s, type=X, avail mem=21.90 GB, mem usage=73.70 GB.",
        "TP1] Load weight end. elapsed=40.00 s, type=X, avail mem=21.89 GB, mem usage=73.69 GB.",
    ),
    51.0: (
        "TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 159277, KV size: 10.42 GB",
        "TP1] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 159277, KV size: 10.42 GB",
        "TP0] Memory pool end. avail mem=11.40 GB",
        "TP1] Memory pool end. avail mem=11.39 GB",
        "TP0] Capture cuda graph begin. This can take up to several minutes. avail mem=11.40 GB",
    ),
    60.0: (
        "TP0] Capture cuda graph end. Time elapsed: 9.00 s. mem usage=3.38 GB. avail mem=8.02 GB.",
        "TP0] max_total_num_tokens=159277, chunked_prefill_size=8192, max_prefill_tokens=16384, "
        "max_running_requests=128, context_len=524288, available_gpu_mem=7.98 GB",
        "TP0] Allocating kv hierarchical KV host pool: 637109 tokens, 44.77 GB host memory.",
        "TP1] Allocating kv hierarchical KV host pool: 637109 tokens, 44.77 GB host memory.",
    ),
    80.0: (
        "TP0] Tree cache initialized: source=default hicache_attached=True",
        "TP1] Tree cache initialized: source=default hicache_attached=True",
    ),
    81.0: ("] INFO:     Started server process [11280]",),
    90.0: ("] The server is fired up and ready to roll!",),
}
POOL = 44_770_923_648


def watched(lines: dict[float, tuple[str, ...]] | None = None, version: str = VERSION) -> StartupState:
    state = initial(Expectation(ranks=2, bytes_by_stage=(POOL,)), 0.0)
    for at, said in (lines or LINES).items():
        found = [*events(said, at, version)]
        if at == 10.0:
            found = [*raw_events([SETTINGS], 1.0), *found]
        held = POOL if at >= 80.0 else 0
        ranks = tuple(
            RankReading(rank=f"TP{i}", pid=200 + i, alive=True, start_ticks=1, shmem_bytes=held) for i in range(2)
        )
        seen = Observation(at=at, unit=RUNNING, events=tuple(found), ranks=ranks, started_at=0.0, read_at=at, lines=1)
        state = advance(state, seen)
    return state


def gib(number: float) -> int:
    return round(number * GIB)


def test_memory_is_the_least_of_the_ranks_as_they_print_it() -> None:
    found = figures(watched())
    assert found["available_before_load_bytes"] == gib(95.58)
    assert found["available_after_load_bytes"] == gib(21.89)
    assert found["available_after_pool_bytes"] == gib(11.39)
    assert found["available_after_capture_bytes"] == gib(8.02)
    assert found["available_at_end_bytes"] == gib(7.98)
    assert found["device_pool_bytes"] == gib(10.42)
    assert found["resolution_bytes"] == GIB // 100


def test_bytes_and_times_are_measured() -> None:
    found = figures(watched())
    assert found["pinned_bytes"] == 2 * POOL
    assert found["host_pool_bytes"] == 2 * 44_770_000_000
    assert (found["load_seconds"], found["pin_seconds"], found["start_seconds"]) == (40.0, 20.0, 90.0)
    assert found["rest_seconds"] == 30.0
    assert found["pin_bytes_per_second"] == 2 * POOL / 20


def test_the_fraction_is_the_one_that_the_server_resolved_and_nothing_else_is_kept_of_its_arguments() -> None:
    state = watched()
    assert figures(state)["mem_fraction_static"] == 0.874
    assert not any("secret" in event.text for event in raw_events([SETTINGS]))


def test_a_draft_that_loads_after_the_pools_is_no_part_of_the_weights() -> None:
    later = {
        **LINES,
        55.0: (
            "TP0] Load weight begin. avail mem=11.40 GB",
            "TP0] Load weight end. elapsed=1.00 s, type=Draft, avail mem=9.00 GB, mem usage=2.40 GB.",
        ),
    }
    found = figures(watched(dict(sorted(later.items()))))
    assert found["available_before_load_bytes"] == gib(95.58)
    assert found["available_after_load_bytes"] == gib(21.89)


def test_a_draft_that_loads_before_the_pools_is_a_part_of_them() -> None:
    early = {
        **LINES,
        50.5: (
            "TP1] Load weight begin. avail mem=21.89 GB",
            "TP1] Load weight end. elapsed=0.10 s, type=Draft, avail mem=19.00 GB, mem usage=2.89 GB.",
        ),
    }
    assert figures(watched(dict(sorted(early.items()))))["available_after_load_bytes"] == gib(19.0)


def test_what_a_release_does_not_tell_is_unknown() -> None:
    def cut(line: str) -> str:
        return line.split("avail mem", maxsplit=1)[0].split(", available_gpu", maxsplit=1)[0]

    silent = {at: tuple(cut(line) for line in said) for at, said in LINES.items()}
    found = figures(watched(silent))
    assert all(found[name] is None for name in found if name.startswith("available_"))
    assert found["pin_seconds"] == 20.0


def test_a_start_that_did_not_end_has_no_length() -> None:
    found = figures(replace(watched(), ready_at=None))
    assert found["start_seconds"] is None
    assert found["rest_seconds"] is None


def test_a_clock_that_was_set_leaves_no_length_that_is_wrong() -> None:
    state = watched()
    jumped = tuple(replace(span, jumped=span.stage == "host_pool") for span in state.spans)
    found = figures(replace(state, spans=jumped, clock_jumps=1))
    assert (found["load_seconds"], found["pin_seconds"], found["start_seconds"]) == (40.0, None, None)
    assert found["pin_bytes_per_second"] is None
    assert found["pinned_bytes"] == 2 * POOL
