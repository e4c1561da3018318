# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A third tier of files under the real server: what outlives a restart, the cap, the floor, and what is refused.

One instance of one rank, started twice. Its folder lies on a file system of its own, in memory, so that cap and floor
are met within seconds.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ON_CPU, Node, Outcome, play, play_refused

MOUNT, FOLDER = "/srv/kv", "/srv/kv/pages"
UNIT, PRUNE = "sglang-tier.service", "sglang-tier-storage.service"
PORT = 30200
GONE = "tests/integration/storage_gone.yml"
PAGE_TOKENS = 64
# The rehearsal's model keeps 4,096 bytes a token.
PAGE_BYTES = 4096 * PAGE_TOKENS
MAX_BYTES = 64 * PAGE_BYTES
MIN_FREE_BYTES = 32 * 2**20
SERVER: dict[str, Any] = {
    "sglang_instance": "tier",
    "sglang_port": PORT,
    "sglang_tensor_parallel_size": 1,
    "sglang_page_size": PAGE_TOKENS,
    "sglang_max_total_tokens": 4096,
    "sglang_max_running_requests": 4,
    "sglang_hicache_ratio": 2,
    "sglang_environment": ON_CPU,
    "sglang_extra_arguments": {"sleep-on-idle": True, "skip-server-warmup": True},
    "sglang_observed": {},
    "sglang_burn_in_requests": 1,
    "sglang_chat_check": False,
    "sglang_startup_stall_seconds": 600,
}
STORAGE: dict[str, Any] = {
    "backend": "file",
    "path": FOLDER,
    "mount": MOUNT,
    "max_bytes": MAX_BYTES,
    "min_free_bytes": MIN_FREE_BYTES,
    "prefetch_policy": "wait_complete",
}
# Waits until the server answers, asks it for the tokens of a seed, and says what the answer says of its cache; with a
# number of pages, once the folder has got so many more.
ASK = r"""
import json, os, sys, time, urllib.error, urllib.request
url, folder, seed, tokens, more = sys.argv[1], sys.argv[2], *(int(word) for word in sys.argv[3:])
ids = [(seed * 7919 + number * 31 + number // 290) % 290 + 10 for number in range(tokens)]
before = {name for name in os.listdir(folder) if name.endswith(".bin")}
deadline = time.monotonic() + 300
while True:
    try:
        urllib.request.urlopen(url + "/health", timeout=20).read()
        break
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        if time.monotonic() > deadline:
            raise
        time.sleep(0.5)
body = {"input_ids": ids, "sampling_params": {"max_new_tokens": 4, "temperature": 0}}
request = urllib.request.Request(url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
answer = json.loads(urllib.request.urlopen(request, timeout=120).read())
while len({name for name in os.listdir(folder) if name.endswith(".bin")} - before) < more:
    if time.monotonic() > deadline:
        raise TimeoutError(f"fewer than {more} pages came into {folder}")
    time.sleep(0.2)
details = answer["meta_info"]["cached_tokens_details"] or {}
print(json.dumps({"text": answer["output_ids"], **{key: details.get(key, 0) for key in ("device", "host", "storage")}}))
"""


@dataclass(frozen=True)
class Answer:
    text: list[int]
    device: int
    host: int
    storage: int


@dataclass(frozen=True)
class Served:
    node: Node
    first: Outcome
    again: Outcome

    def ask(self, seed: int, tokens: int = 512, pages: int = 0) -> Answer:
        words = ["python3", "-c", ASK, f"http://127.0.0.1:{PORT}", FOLDER, seed, tokens, pages]
        return Answer(**json.loads(self.node.run(shlex.join(str(word) for word in words))))

    def pages(self) -> list[str]:
        return self.node.run(f"ls {FOLDER}").split()

    def held_bytes(self) -> int:
        sizes = self.node.run(f"find {FOLDER} -name '*.bin' -printf '%s\\n'").split()
        return sum(int(size) for size in sizes)


@pytest.fixture(scope="module")
def mounted(node: Node) -> Node:
    """The node with the release, and a file system of its own for the pages."""
    done = play(playbook="tests/integration/install.yml")
    assert done.status == 0, done.output
    node.run(f"mkdir -p {MOUNT} && {{ mountpoint -q {MOUNT} || mount -t tmpfs -o size=256m tmpfs {MOUNT}; }}")
    return node


@pytest.fixture(scope="module")
def served(mounted: Node) -> Iterator[Served]:
    mounted.run(f"rm -rf {FOLDER}")
    asked = json.dumps({**SERVER, "sglang_hicache_storage": STORAGE})
    first = play("--tags", "server", "--limit", "node", "-e", asked)
    assert first.status == 0, first.output
    again = play("--tags", "server", "--limit", "node", "-e", asked)
    yield Served(mounted, first, again)
    gone = play(playbook=GONE)
    assert gone.status == 0, gone.output
    assert "sglang-tier" not in mounted.run("ls /etc/systemd/system")


def test_what_cannot_work_is_refused_with_the_value_that_would(mounted: Node, tmp_path: Path) -> None:
    files = {**SERVER, "sglang_hicache_storage": STORAGE}
    before = mounted.fingerprint()

    def storage(**changes: Any) -> dict[str, Any]:
        return {**files, "sglang_hicache_storage": {**STORAGE, **changes}}

    def other(backend: str, **extra_config: Any) -> dict[str, Any]:
        return {**files, "sglang_hicache_storage": {"backend": backend, "extra_config": extra_config}}

    mooncake = other("mooncake", master_server_address="127.0.0.1:1", protocol="rdma")
    refused = play_refused(
        tmp_path,
        {
            "room": storage(max_bytes=10**12),
            "page": storage(max_bytes=PAGE_BYTES - 1),
            "mount": storage(path="/srv/none/pages", mount="/srv/none"),
            "shared": storage(path="/srv/models", mount=None),
            "layout": mooncake,
            "master": {**mooncake, "sglang_hicache_mem_layout": "page_first_direct"},
            "secret": other("nixl", plugin={"obj": {"access_key": "s3cr3t"}}),
            "both": other("lmcache"),
            "blue": {**files, "sglang_update_strategy": "blue_green"},
        },
        "--tags",
        "server",
    )
    told = refused.errors_of
    assert "has 0.27 GB for /srv/kv/pages" in told["room"]
    assert "needed are 1,000.00 GB for pages and 0.03 GB that stay free" in told["room"]
    assert "Set sglang_hicache_storage.max_bytes to 234881024 (0.23 GB) or less" in told["room"]
    assert f"Set it to {PAGE_BYTES} or more" in told["page"]
    assert "Nothing is mounted at /srv/none" in told["mount"]
    assert "holds what is no page of a KV cache: families, rehearsal-llama" in told["shared"]
    assert (
        "Set sglang_hicache_io_backend to direct and sglang_hicache_mem_layout to page_first_direct" in told["layout"]
    )
    for reason in (
        "The release that is installed has no mooncake.store",
        "127.0.0.1:1, which the backend mooncake needs, does not answer",
        "moves pages over RDMA, and this node has the devices: none",
    ):
        assert reason in told["master"]
    assert "access_key holds a credential" in told["secret"]
    assert "s3cr3t" not in refused.output
    assert "LMCache takes the place of HiCache" in told["both"]
    assert "sglang_update_strategy is blue_green, and no server runs to stand beside" in told["blue"]
    assert refused.changed == 0
    assert mounted.fingerprint() == before


def test_the_tier_is_configured_once(served: Served) -> None:
    assert served.again.status == 0, served.again.output
    assert served.again.changed == 0, served.again.output
    assert "tmpfs: up to 0.02 GB of pages take host memory" in served.first.output
    shown = served.node.run(f"systemctl show {UNIT} -p ReadWritePaths,RequiresMountsFor")
    assert [FOLDER in line.partition("=")[2].split() for line in shown.splitlines()] == [True, True]
    assert served.node.run(f"stat -c '%U %G %a' {FOLDER}") == "sglang sglang 750"
    assert served.node.run("systemctl is-active sglang-tier-storage.timer") == "active"


def test_a_prompt_comes_back_from_files_after_a_restart(served: Served) -> None:
    cold = served.ask(1, pages=512 // PAGE_TOKENS)
    assert (cold.device, cold.host, cold.storage) == (0, 0, 0)
    # All but the last page, of which at least one token has to be computed.
    hit = 512 - PAGE_TOKENS
    warm = served.ask(1)
    assert (warm.device, warm.host, warm.storage) == (hit, 0, 0)
    served.node.run(f"systemctl restart {UNIT}")
    read = served.ask(1)
    assert (read.device, read.host, read.storage) == (0, 0, hit)
    # As a hit of the same length continues, whose rounding is that of its few computed tokens.
    assert read.text == warm.text


def test_the_server_keeps_to_the_cap(served: Served) -> None:
    for seed in range(2, 7):
        served.ask(seed, tokens=1536)
    # More than the cap has been computed; the newest of it stays.
    assert 5 * 1536 * PAGE_BYTES // PAGE_TOKENS > MAX_BYTES
    assert MAX_BYTES // 2 < served.held_bytes() <= MAX_BYTES


@pytest.fixture(name="pruned_by_hand")
def _pruned_by_hand(served: Served) -> Iterator[None]:
    """Its timer would come in between."""
    timer = PRUNE.replace(".service", ".timer")
    served.node.run(f"systemctl stop {timer}")
    yield
    served.node.run(f"systemctl start {timer}")


@pytest.mark.usefixtures("pruned_by_hand")
def test_pages_that_no_server_counts_go_first(served: Served) -> None:
    served.node.run(
        f"for number in $(seq 40); do head -c {PAGE_BYTES} /dev/zero > {FOLDER}/left-$number.bin; done;"
        f" touch -d '2 days ago' {FOLDER}/left-*.bin; chown sglang: {FOLDER}/left-*.bin"
    )
    own = {name for name in served.pages() if not name.startswith("left-")}
    assert served.held_bytes() > MAX_BYTES
    served.node.run(f"systemctl start {PRUNE}")
    assert served.held_bytes() <= MAX_BYTES
    # As far as the cap asks for it, in the order of their age.
    kept = set(served.pages())
    assert len(kept) < len(own) + 40
    assert own <= kept or not any(name.startswith("left-") for name in kept)
    assert own & kept


@pytest.mark.usefixtures("pruned_by_hand")
def test_the_floor_takes_pages_where_others_fill_the_file_system(served: Served) -> None:
    def free_bytes() -> int:
        return int(served.node.run(f"df --output=avail -B1 {MOUNT} | tail -n 1"))

    fill = free_bytes() - MIN_FREE_BYTES // 2
    served.node.run(f"head -c {fill} /dev/zero > {MOUNT}/others")
    before = len(served.pages())
    assert free_bytes() < MIN_FREE_BYTES
    served.node.run(f"systemctl start {PRUNE}")
    assert free_bytes() >= min(MIN_FREE_BYTES, MIN_FREE_BYTES // 2 + before * PAGE_BYTES)
    assert len(served.pages()) < before
    served.node.run(f"rm {MOUNT}/others")
    # What is gone is computed anew.
    assert served.ask(1).text
