# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is planned for a model is what the real server allocates, to the page, for every family that a CPU can start.

The weights are made up by the server (--load-format dummy), two servers start at a time. A model of each kind of pools
is started; GPUFLEET_EVERY_FAMILY=1 in the environment, as `make campaign` has it, adds all other models of
rehearsal/sglang_on_cpu/families.
The name of this file puts it behind the rehearsal's story, which begins with a bare node.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import Node, play
from ansible_collections.gpufleet.sglang.tests.integration.server_families import Case, Measured, measure

SERVERS_AT_A_TIME = 2
PAGE_BYTES = 4096
# SGLang prints hundredths of a GB.
PRINTED_BYTES = 5_000_001
# What a start of a model with states takes on this platform, and the states that are asked for.
STATES = {
    "mamba-radix-cache-strategy": "no_buffer",
    "disable-overlap-schedule": True,
    "max-mamba-cache-size": 6,
}
DIRECT = "page_first_direct"
CASES = [
    Case("qwen3", ranks=2, page_size=16, ratio=2.5, serves=True),
    Case("glm-5", ranks=2, page_size=64, size_gb=1, dtype="bfloat16"),
    Case("mimo-v2", ratio=2, layout=DIRECT),
    Case("minimax-m3", page_size=64, ratio=2),
    Case("qwen3-next", ranks=2, ratio=2, layout=DIRECT, flags=STATES),
]
if os.environ.get("GPUFLEET_EVERY_FAMILY"):
    CASES += [
        Case("llama-mha", page_size=64, size_gb=1, serves=True),
        Case("gemma", ranks=2, ratio=1.7, serves=True),
        Case("deepseek-v3", ranks=2, page_size=64, ratio=2),
        Case("gpt-oss", page_size=16, ratio=2, backend="intel_amx"),
        Case("nemotron-h", size_gb=1, layout=DIRECT, flags=STATES),
        Case("minimax-m2", page_size=16, ratio=3),
        Case("step-3.5", page_size=16, ratio=2, serves=True),
        Case("deepseek-v3", size_gb=1),
        Case("longcat-flash", page_size=16, ratio=2),
        Case("llama-4", ranks=2, page_size=16, size_gb=1),
        Case("kimi-linear", size_gb=1, layout=DIRECT, flags=STATES),
        Case("ling-2.5", ratio=2, layout=DIRECT, flags=STATES),
        Case("falcon-h1", ratio=2, layout=DIRECT, flags=STATES),
        Case("granite-4", ratio=2, layout=DIRECT, flags=STATES),
        Case("lfm2", ratio=2, layout=DIRECT, flags=STATES),
    ]
# By module, so that all that is asked of a case is asked as soon as it has started.
every_case = pytest.mark.parametrize("case", CASES, ids=str, scope="module")

# Lines of the journal, each said by every rank. Which kind of pool each name means:
DEVICE = r"\] (Full |SWA |)KV Cache is allocated\. .*#tokens: (\d+), "
DEVICE_KINDS = {"": "kv", "Full ": "kv", "SWA ": "swa"}
DEVICE_STATES = r"\] Mamba Cache is allocated\. max_mamba_cache_size: (\d+), "
HOST = r"Allocating (kv|full|swa) hierarchical KV host pool: (\d+) tokens, ([\d.]+) GB host memory"
HOST_KINDS = {"kv": "kv", "full": "kv", "swa": "swa"}
HOST_STATES = r"Allocating ([\d.]+) GB host memory for hierarchical Mamba cache \((\d+) state slots"
HOST_INDEX = r"Allocating ([\d.]+) GB host memory for (?:DSA indexer|MiniMax sparse index-K)"


@pytest.fixture(scope="module")
def installed(node: Node) -> Node:
    """The node with the release, whether or not an earlier test has installed it."""
    done = play(playbook="tests/integration/install.yml")
    assert done.status == 0, done.output
    return node


@pytest.fixture(scope="module")
def starts(
    installed: Node, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Measured]]]:
    """Every case that a chosen test is about, each started once."""
    names = " ".join(item.name for item in request.session.items)
    folder = tmp_path_factory.mktemp("families")
    with ThreadPoolExecutor(SERVERS_AT_A_TIME) as pool:
        yield {
            str(case): pool.submit(measure, installed, case, number, folder)
            for number, case in enumerate(CASES)
            if f"[{case}]" in names
        }
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module")
def measured(case: Case, starts: dict[str, Future[Measured]]) -> Measured:
    return starts[str(case)].result()


@every_case
def test_the_device_pools_are_those_planned(case: Case, measured: Measured) -> None:
    pools = measured.pools("device")
    found = [(DEVICE_KINDS[name], int(tokens)) for name, tokens in measured.lines(DEVICE)]
    found += [("mamba", int(slots)) for (slots,) in measured.lines(DEVICE_STATES)]
    planned = [(kind, pool["slots"]) for kind, pool in pools.items() if kind != "indexer"]
    if measured.plan["model"]["family"] == "sparse":
        # Its index keys are a pool of the same name; those of latent attention are part of the pool.
        planned.append(("kv", pools["indexer"]["slots"]))
    assert sorted(found) == sorted(planned * case.ranks)
    assert measured.startup["max_total_num_tokens"] == measured.plan["device"]["max_total_num_tokens"]


@every_case
def test_the_host_pools_are_those_planned(case: Case, measured: Measured) -> None:
    pools = measured.pools("host")
    found = [(HOST_KINDS[name], int(tokens), float(size)) for name, tokens, size in measured.lines(HOST)]
    found += [("mamba", int(slots), float(size)) for size, slots in measured.lines(HOST_STATES)]
    found += [("indexer", pools["indexer"]["tokens"], float(size)) for (size,) in measured.lines(HOST_INDEX)]
    assert sorted((kind, tokens) for kind, tokens, _size in found) == sorted(
        [(kind, pool["tokens"]) for kind, pool in pools.items()] * case.ranks
    )
    for kind, _tokens, size in found:
        assert abs(size * 1e9 - pools[kind]["bytes_per_rank"]) < PRINTED_BYTES, kind


@every_case
def test_every_rank_pins_what_is_planned_to_the_page(case: Case, measured: Measured) -> None:
    assert len(measured.memory) == case.ranks
    host = measured.plan["host"]
    assert host["bytes_per_rank"] == sum(pool["bytes_per_rank"] for pool in host["pools"]) > 0
    # Index keys of latent attention take a page more than their tokens (mem_cache/pool_host/dsa.py).
    planned = sum(pool["pinned_bytes"] for pool in host["pools"])
    for rank in measured.memory.values():
        pinned = [row["Locked"] for row in rank["mappings"] if row["Locked"]]
        # Each mapping ends with the page that its last byte is on.
        assert planned <= sum(pinned) < planned + len(pinned) * PAGE_BYTES
        # Files of memory are shared memory as well (the ranks tell their load and their metrics in some).
        files = [row["Rss"] for row in rank["mappings"] if row["path"].startswith(("/dev/shm/", "/tmp/"))]
        assert rank["shmem_bytes"] == sum(pinned) + sum(files)


@pytest.mark.parametrize("case", [case for case in CASES if case.serves], ids=str, scope="module")
def test_the_gauge_tells_the_planned_tokens(case: Case, measured: Measured) -> None:
    assert measured.gauges
    assert set(measured.gauges) == {float(measured.plan["host"]["tokens"])}
