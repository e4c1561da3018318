# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The model store on real nodes: against a real mirror that throttles, cuts, corrupts and stalls; from node to node.

Counts are of what the mirror sent: what had arrived is not to be sent again.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.rehearsal.model_mirror.faults import Fault
from ansible_collections.gpufleet.sglang.rehearsal.model_mirror.server import Mirror, commit_of, running
from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE, Outcome, Play
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.store.store_models import (
    make_model,
    shard_name,
    size_of,
    write_sums,
)

GATEWAY = "10.213.77.1"
NODES = ("gpufleet-model-1", "gpufleet-model-2", "gpufleet-model-3")
SHARDS, SHARD_BYTES = 4, 4_000_000
MB = 10**6
# What was on its way to a worker when it was killed is sent twice. All that it had by then would be more than that.
MOST_SENT_TWICE = 0.25
TOKEN = "hf_sentinel0123456789"


def on(node: str, command: str, *, check: bool = True) -> str:
    arguments = [
        "ssh",
        "-F",
        str(STATE / "ssh_config"),
        "-o",
        "BatchMode=yes",
        "-o",
        "ConnectTimeout=10",
        node,
        command,
    ]
    done = subprocess.run(arguments, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if check and done.returncode:
        pytest.fail(f"{node}: {command}: {done.stdout}{done.stderr}")
    return done.stdout.strip()


@dataclass
class Bench:
    """The nodes, a mirror with a model, and where results of plays come to lie."""

    mirror: Mirror
    model: Path
    scratch: Path
    results: dict[Play, Path] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return self.url_of(self.model)

    def url_of(self, model: Path) -> str:
        return f"{self.mirror.url}/files/{model.name}"

    @property
    def size(self) -> int:
        return size_of(self.model)

    @property
    def sent(self) -> int:
        """Bytes of the model that the mirror has sent; its list of sums is asked for anew each time."""
        return self.mirror.sent() - self.mirror.sent("SHA256SUMS")

    def fault(self, **fields: Any) -> None:
        self.mirror.memory.faults.append(Fault(**fields))

    def slow(self, bytes_per_second: int | None) -> None:
        """The speed of each answer from now on; events decide when it changes, and not how fast this machine is."""
        self.mirror.memory.bytes_per_second = bytes_per_second

    def begin(self, *requests: dict[str, Any], arguments: tuple[str, ...] = ()) -> Play:
        """A play that asks the first node for the model, once for each of the requests, one after another."""
        common = {
            "name": "tiny",
            "mirrors": [self.url],
            "reserve_bytes": 0,
            "stall_seconds": 3,
            "retry_pause_seconds": 0.1,
            "poll_seconds": 1,
        }
        results = self.scratch / f"results-{len(self.results)}.json"
        values = {"store_requests": [{**common, **one} for one in requests], "store_results": str(results)}
        play = start("model_store", *arguments, **values)
        self.results[play] = results
        return play

    def end(self, play: Play) -> tuple[list[dict[str, Any]], Outcome]:
        """What each request came to."""
        outcome = play.finish()
        assert outcome.status == 0, outcome.output
        results: list[dict[str, Any]] = json.loads(self.results[play].read_text())
        return results, outcome

    def have(self, *requests: dict[str, Any]) -> tuple[list[dict[str, Any]], Outcome]:
        return self.end(self.begin(*requests))

    def await_sent(self, size_bytes: int) -> None:
        assert self.mirror.memory.await_sent(size_bytes, 120), f"{self.mirror.memory.sent_bytes} bytes were sent"

    def same(self, path: str, node: str = NODES[0]) -> bool:
        wanted = {
            f"{line.split()[0]}  {line.split()[1]}" for line in (self.model / "SHA256SUMS").read_text().splitlines()
        }
        return wanted == set(on(node, f"cd {path} && sha256sum *").splitlines())


def start(playbook: str, *arguments: str, **values: Any) -> Play:
    inventory = "../tests/integration/model_store_hosts.yml"
    playbook = f"tests/integration/{playbook}.yml"
    return Play(*arguments, "-e", json.dumps(values), playbook=playbook, inventory=inventory)


@pytest.fixture(name="nodes", scope="module")
def _nodes() -> Iterator[None]:
    wheels = subprocess.run(
        ["rehearsal/wheelhouse/make-wheelhouse"], cwd=ROOT, env=ENVIRONMENT, check=True, capture_output=True, text=True
    ).stdout.splitlines()[-1]
    ups = [
        subprocess.Popen(
            ["rehearsal/node/up", "--name", name, "--address", f"10.213.77.{71 + number}"]
            + ["--mount", f"{wheels}:/srv/wheelhouse"],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
        )
        for number, name in enumerate(NODES)
    ]
    assert [up.wait() for up in ups] == [0] * len(NODES)
    yield
    subprocess.run(["rehearsal/node/down", *NODES], cwd=ROOT, env=ENVIRONMENT, check=True)


@pytest.fixture(name="bench")
def _bench(nodes: None, tmp_path: Path) -> Iterator[Bench]:
    for node in NODES:
        on(
            node,
            "systemctl stop 'gpufleet-model-*'; umount -q /srv/small /srv/tight;"
            " rm -rf /srv/models /run/gpufleet-model-store",
            check=False,
        )
    model = make_model(tmp_path / "www" / "tiny", SHARDS, SHARD_BYTES)
    write_sums(model)
    with running(tmp_path / "www", GATEWAY) as mirror:
        yield Bench(mirror, model, tmp_path)


def test_a_play_that_is_killed_leaves_a_worker_that_the_next_play_joins(bench: Bench) -> None:
    bench.slow(MB // 10)
    first = bench.begin({})
    bench.await_sent(MB)
    first.kill()
    units = on(NODES[0], "systemctl list-units --plain --no-legend 'gpufleet-model-*' | cut -d' ' -f1")
    assert re.fullmatch(r"gpufleet-model-tiny-[0-9a-f]{16}\.service", units)
    second, third = bench.begin({}, {}), bench.begin({})
    second.read_until(r"^model1  tiny  fetching [\d.]+ of 0\.0\d+ GB .*ETA \d+ s")
    third.read_until("model1  tiny  fetching")
    bench.slow(None)
    [result, again], outcome = bench.end(second)
    [other], _outcome = bench.end(third)
    assert (result["joined"], result["changed"], other["path"]) == (True, True, result["path"]), outcome.output
    assert (again["changed"], again["fetched_bytes"], bench.sent) == (False, 0, bench.size)
    assert bench.same(result["path"])
    print(f"\na killed play: {bench.size} bytes wanted, {bench.sent} sent")


def test_a_worker_that_is_killed_again_and_again_goes_on_where_it_was(bench: Bench) -> None:
    dice = random.Random(7)
    bench.fault(path="*.safetensors", method="GET", bytes_per_second=MB)
    play = bench.begin({})
    kills = 0
    for share in (0.1, 0.35, 0.6, 0.85):
        bench.await_sent(int(bench.size * (share + dice.uniform(0, 0.1))))
        on(NODES[0], "systemctl kill -s KILL 'gpufleet-model-*'")
        kills += 1
    [result], outcome = bench.end(play)
    assert "failure" not in result, outcome.output
    assert "the worker is gone; starting it again where it ended" in outcome.output
    assert bench.same(result["path"])
    twice = bench.sent - bench.size
    assert twice <= MOST_SENT_TWICE * bench.size, twice
    print(f"\n{kills} kills: {bench.size} bytes wanted, {twice} sent twice")


def test_a_node_that_reboots_meanwhile_is_followed_to_the_end(bench: Bench) -> None:
    bench.slow(MB // 5)
    play = bench.begin({"reconnect_seconds": 180}, arguments=("-vv",))
    bench.await_sent(bench.size // 3)
    on(NODES[0], "systemctl reboot", check=False)
    asked_before = len(bench.mirror.memory.asked)
    # Or all of it would be on its way before the node is down.
    play.read_until("gpufleet.sglang.model_snapshot: ")
    bench.slow(None)
    [result], outcome = bench.end(play)
    assert "failure" not in result, outcome.output
    assert bench.same(result["path"])
    # Nobody tells the mirror that the node is gone, so that what it sent says little. What it was asked for afterwards
    # does, and of a file that was whole it is asked for nothing.
    began: dict[str, int] = {}
    for one in bench.mirror.memory.asked[asked_before:]:
        if one.path.endswith(".safetensors") and one.method == "GET":
            began[one.path] = max(began.get(one.path, 0), one.first)
    missing = sum((bench.model / Path(path).name).stat().st_size - first for path, first in began.items())
    assert bench.size - missing >= bench.size // 4, began
    print(f"\na reboot: {bench.size} bytes wanted, {bench.size - missing} of them were there afterwards")


def test_what_a_mirror_does_wrong_is_made_good_or_named(bench: Bench) -> None:
    bench.fault(path="*00001-of-*", method="GET", times=2, cut_after=MB)
    bench.fault(path="*00002-of-*", method="GET", times=1, stall_after=MB)
    bench.fault(path="*00003-of-*", method="GET", times=1, corrupt_at=2 * MB)
    bench.fault(path="*00004-of-*", method="GET", times=1, status=503, retry_after=1)
    [result], outcome = bench.have({})
    assert (result.get("retries"), result.get("repaired")) == (5, []), outcome.output
    assert bench.same(result["path"])
    # The one that came with a wrong byte came twice.
    wrong = (bench.model / shard_name(3, SHARDS)).stat().st_size
    assert result["fetched_bytes"] == bench.size + wrong
    # And once more for a mirror whose copy is bad, until somebody mends it.
    damaged = shard_name(2, SHARDS)
    bench.mirror.memory.forget()
    bench.fault(path=f"*{damaged}", method="GET", times=3, corrupt_at=3 * MB)
    on(NODES[0], f"dd if=/dev/zero of={result['path']}/{damaged} bs=1k count=1 seek=9 conv=notrunc")
    [refused, repaired], outcome = bench.have({}, {})
    assert refused["failure"]["code"] == "store_source_corrupt", outcome.output
    assert f"{bench.url} sent it 3 times always with the same wrong bytes" in refused["failure"]["message"]
    assert repaired["repaired"] == [damaged], outcome.output
    assert bench.sent == (3 + 1) * (bench.model / damaged).stat().st_size
    assert bench.same(repaired["path"])


def test_a_model_that_does_not_fit_is_refused_before_anything_is_written(bench: Bench) -> None:
    large = bench.model.with_name("large")
    shutil.copytree(bench.model, large, copy_function=os.link)
    mounts = (
        f"mkdir -p /srv/{name} && mount -t tmpfs -o size={size} {name} /srv/{name}"
        for name, size in (("small", "12m"), ("tight", "24m"))
    )
    on(NODES[0], " && ".join(mounts))
    bench.fault(path="*.safetensors", method="GET", bytes_per_second=MB)
    play = bench.begin({"root": "/srv/small", "mirrors": [bench.url_of(large)]}, {"root": "/srv/tight"})
    bench.await_sent(3 * MB)
    # A disk that somebody else fills meanwhile.
    on(NODES[0], "dd if=/dev/zero of=/srv/tight/other bs=1M count=14 status=none", check=False)
    [refused, failed], outcome = bench.end(play)
    assert refused["failure"]["code"] == "store_disk_full", outcome.output
    assert refused["failure"]["evidence"]["missing_bytes"] == bench.size
    assert "tiny needs 0.02 GB more on /srv/small" in refused["failure"]["message"]
    assert on(NODES[0], "find /srv/small -mindepth 1") == ""
    assert not [path for path in bench.mirror.memory.sent_of if "/large/" in path and path.endswith(".safetensors")]
    assert failed["failure"]["code"] == "store_disk_failed", outcome.output
    assert "No space left on device" in failed["failure"]["message"]
    on(NODES[0], "rm /srv/tight/other")
    bench.mirror.memory.forget()
    [whole], outcome = bench.have({"root": "/srv/tight"})
    assert whole["reused_bytes"] > 2 * MB, outcome.output
    assert bench.sent == bench.size - whole["reused_bytes"]
    assert bench.same(whole["path"])


def test_nodes_that_need_a_model_get_it_from_one_that_has_it(bench: Bench) -> None:
    values = {
        "model_store_reserve_bytes": 0,
        "model_store_poll_seconds": 1,
        "model_store_peer_max_transfers": 2,
        "model_store_models": [{"name": "tiny", "mirrors": [bench.url], "peers": ["model1", "model2", "model3"]}],
    }
    outcome = start("model_role", **values).finish()
    assert outcome.status == 0, outcome.output
    assert bench.sent == bench.size
    path = on(NODES[0], "readlink -f /srv/models/tiny/current")
    for node in NODES:
        assert bench.same(path, node)
    assert outcome.output.count(f"{path}: 6 files") == len(NODES), outcome.output
    again = start("model_role", **values).finish()
    assert (again.status, again.changed, bench.sent) == (0, 0, bench.size), again.output


def test_only_what_nobody_uses_is_removed(bench: Bench) -> None:
    revisions = ("unit", "dropin", "config", "open", "linked", "newest", "unused")
    requests = []
    for seed, name in enumerate(revisions):
        model = make_model(bench.model.with_name(name), 1, 50_000, seed=seed)
        write_sums(model)
        requests.append({"revision": name, "activate": name == "linked", "mirrors": [bench.url_of(model)]})
    results, outcome = bench.have(*requests)
    paths = {name: result.get("path", "") for name, result in zip(revisions, results)}
    assert all(paths.values()), outcome.output
    node = NODES[0]
    on(node, f"touch -d '2030-01-01' {paths['newest']}/.manifest.json")
    on(
        node,
        "cd /etc/systemd/system && mkdir -p /etc/sglang other.service.d && "
        f"printf '[Service]\\nExecStart=/bin/true --model-path {paths['unit']}\\n' >used.service && "
        "printf '[Service]\\nEnvironment=MODEL=/srv/models/tiny/dropin/\\n' >other.service.d/a.conf && "
        f"printf 'model-path: {paths['config']}\\n' >/etc/sglang/old.yaml && "
        f"systemd-run -q --unit=holds-open tail -f {paths['open']}/model-00001-of-00001.safetensors",
    )
    try:
        values = {"prune_options": {"keep": 1}, "prune_unused": paths["unused"]}
        outcome = start("model_prune", **values, prune_results=str(bench.scratch / "prune.json")).finish()
        assert outcome.status == 0, outcome.output
        came: dict[str, dict[str, Any]] = json.loads((bench.scratch / "prune.json").read_text())
        told, done = came["told"], came["pruned"]
        assert [one["revision"] for one in told["removed"]] == ["unused"]
        assert came["unused"]["exists"]
        assert done["removed"] == told["removed"]
        assert done["freed_bytes"] >= 50_000
        kept = {one["revision"]: " ".join(one["reasons"]) for one in done["kept"]}
        assert set(kept) == set(revisions) - {"unused"}
        for revision, words in {
            "unit": "/etc/systemd/system/used.service uses it",
            "dropin": "/etc/systemd/system/other.service.d/a.conf uses it",
            "config": "/etc/sglang/old.yaml uses it",
            "open": "(tail) uses it",
            "linked": "the link current leads to it",
            "newest": "it is number 1 of the newest",
        }.items():
            assert words in kept[revision]
        assert on(node, "ls -A /srv/models/tiny").split() == sorted([*kept, "current"])
        assert (done["changed"], came["again"]["changed"]) == (True, False)
    finally:
        on(
            node,
            "systemctl stop holds-open; rm -rf /etc/systemd/system/used.service /etc/systemd/system/other.service.d"
            " /etc/sglang/old.yaml",
            check=False,
        )


def test_a_token_is_seen_nowhere_and_the_hubs_own_client_fetches_the_same(bench: Bench) -> None:
    bench.mirror.token = TOKEN
    (bench.model / "SHA256SUMS").unlink()
    commit = commit_of(bench.model)
    hub: dict[str, Any] = {"mirrors": [], "repository": "org/tiny", "endpoints": [bench.mirror.url], "revision": commit}
    bench.slow(MB // 2)
    play = bench.begin(hub, {**hub, "token": TOKEN}, arguments=("-vvv",))
    bench.await_sent(2 * MB)
    # The bracket keeps this very search from finding itself.
    search = (
        f"grep -rls '[h]{TOKEN[1:]}' /proc/[0-9]*/cmdline /proc/[0-9]*/environ /run/gpufleet-model-store /srv/models"
    )
    assert on(NODES[0], search, check=False) == ""
    bench.slow(None)
    [refused, result], outcome = bench.end(play)
    assert refused["failure"]["code"] == "store_source_unreachable", outcome.output
    assert "access to it has to be asked for on its page" in refused["failure"]["message"]
    assert TOKEN not in outcome.output
    assert TOKEN not in json.dumps(result)
    assert on(NODES[0], f"journalctl --no-pager | grep -c '[h]{TOKEN[1:]}'", check=False) == "0"
    asked = [one for one in bench.mirror.memory.asked if "/cdn/" in one.path]
    assert asked
    assert not any(one.authorized for one in asked)
    write_sums(bench.model)
    assert bench.same(result["path"])
    # The same endpoint serves the real client, so that it stands for the hub.
    bench.mirror.memory.forget()
    (bench.model / "SHA256SUMS").unlink()
    program = (
        "import huggingface_hub as hub; print(hub.__version__, hub.snapshot_download("
        f"'org/tiny', revision='{commit}', local_dir='/srv/hub', token='{TOKEN}'))"
    )
    # Without its bytecode, which is half of the time and is read once.
    install = "python3 -m pip install --quiet --disable-pip-version-check --no-compile --no-index"
    on(NODES[0], f"{install} --find-links /srv/wheelhouse --target /opt/hub huggingface_hub")
    client = f"HF_ENDPOINT={bench.mirror.url} HF_HOME=/tmp/hub PYTHONPATH=/opt/hub PYTHONDONTWRITEBYTECODE=1 python3"
    told = on(NODES[0], f'{client} -c "{program}" 2>/dev/null')
    assert on(NODES[0], f"diff -r -x '.*' /srv/hub {result['path']}") == ""
    print(f"\nhuggingface_hub {told.split()[0]} fetched the same {bench.size} bytes")
