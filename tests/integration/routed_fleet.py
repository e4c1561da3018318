# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A fleet behind the real router: hosts with systemd, servers of the stand-in release, and steady clients.

The router is sglang-router as PyPI has it. The clients notice each request that the router took and did not answer, and
an observer how many workers were in service at any moment.
"""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE, Outcome, Play
from ansible_collections.gpufleet.sglang.tests.integration.release_node import ReleaseNode
from ansible_collections.gpufleet.sglang.tests.integration.scripted_release import VALUES, scripted_node

PORT = 30000
# Quick to start and to prove: this is about many of them.
SERVER: dict[str, Any] = {
    "sglang_version": "0.5.23",
    "sglang_wheelhouse": "/srv/wheelhouse",
    "sglang_device": "cpu",
    "sglang_host": "0.0.0.0",
    "sglang_model_path": "/srv/models/rehearsal-llama",
    "sglang_served_model_name": "rehearsal",
    "sglang_max_total_tokens": 4096,
    "sglang_hicache_ratio": 2,
    "sglang_hicache_io_backend": "direct",
    "sglang_hicache_mem_layout": "layer_first",
    "sglang_ambient_capabilities": ["CAP_IPC_LOCK"],
    "sglang_burn_in_requests": 1,
    "sglang_canary": False,
    "sglang_chat_check": False,
    "sglang_leave_timeout_seconds": 40,
    **VALUES,
}


def router_node(name: str, address: str) -> ReleaseNode:
    """Not up yet."""
    made = subprocess.run(
        [ROOT / "rehearsal" / "router_wheelhouse" / "make-wheelhouse", "3.11"],
        check=True,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    return ReleaseNode(name, address, {"/srv/router-wheelhouse": Path(made.stdout.strip())})


@dataclass
class Fleet:
    """C(folder): of its inventory. Names of hosts in it are those of their nodes."""

    folder: Path
    routers: Sequence[ReleaseNode]
    workers: Sequence[ReleaseNode]
    minimum: int
    settings: dict[str, Any] = field(default_factory=dict)

    def up(self) -> None:
        for node in [*self.routers, *self.workers]:
            node.up()

    def down(self) -> None:
        for node in [*self.routers, *self.workers]:
            node.down()

    def write(self, of_hosts: Mapping[str, Mapping[str, Any]] | None = None, others: Sequence[str] = ()) -> None:
        """The inventory, with variables of single hosts; C(others) are addresses where no host is."""
        own = of_hosts or {}
        hosts = {node.name: {"ansible_host": node.address, **own.get(node.name, {})} for node in self.workers}
        hosts.update({f"gpufleet-gone-{number}": {"ansible_host": one} for number, one in enumerate(others)})
        routers = {node.name: {"ansible_host": node.address, **own.get(node.name, {})} for node in self.routers}
        connection = {
            "ansible_user": "root",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(STATE / "id_ed25519"),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={STATE}/known_hosts -o IdentitiesOnly=yes",
            "site_node_tuning": False,
        }
        served = {**SERVER, **self.settings, "sglang_routers": [node.name for node in self.routers]}
        routed = {
            "router_wheelhouse": "/srv/router-wheelhouse",
            "router_requirements_file": str(ROOT / "rehearsal" / "router_wheelhouse" / "requirements.txt"),
            "router_minimum_in_service": self.minimum,
            "router_policy": "round_robin",
            "router_health_interval_seconds": 1,
            "router_health_endpoint": "/ready",
        }
        groups = {
            "all": {"vars": connection},
            "sglang": {"hosts": hosts, "vars": served},
            "sglang_router": {"hosts": routers, "vars": routed},
        }
        (self.folder / "hosts.json").write_text(json.dumps(groups, indent=1))

    def begin(self, playbook: str, *arguments: str) -> Play:
        return Play(*arguments, playbook=playbook, inventory=str(self.folder / "hosts.json"))

    def play(self, playbook: str, *arguments: str) -> Outcome:
        return self.begin(playbook, *arguments).finish()

    def url(self, router: int = 0) -> str:
        return f"http://{self.routers[router].address}:{PORT}"

    def in_service(self, router: int = 0) -> int | None:
        """Workers that the router sends requests to; None while it does not answer."""
        try:
            with urllib.request.urlopen(f"{self.url(router)}/workers", timeout=5) as answer:
                return sum(bool(one["is_healthy"]) for one in json.load(answer)["workers"])
        except (OSError, ValueError):
            return None

    def members(self, router: int = 0) -> dict[str, str | None]:
        """Who holds each worker out, by its URL; None for those that are meant to serve."""
        text = self.routers[router].run("cat /var/lib/sglang-router/members.json")
        return {one["url"]: one["held_by"] for one in json.loads(text)["workers"]}

    def worker_url(self, node: ReleaseNode) -> str:
        return f"http://{node.address}:{PORT}"


@dataclass
class Traffic:
    """What clients and the observer saw. C(lost): requests that were taken and not answered, each with why."""

    answered: int = 0
    lost: list[str] = field(default_factory=list)
    fewest: int | None = None
    refused: int = 0


@contextmanager
def steady_load(fleet: Fleet, clients: int = 3) -> Iterator[Traffic]:
    """Clients that ask one after the other, as long as the block lasts.

    What nobody takes is no accepted request: it is asked again, and counted as refused.
    """
    seen, stop, lock = Traffic(), threading.Event(), threading.Lock()

    def ask(number: int) -> None:
        count = 0
        while not stop.is_set():
            count += 1
            body = {"text": f"client {number} asks {count}", "sampling_params": {"max_new_tokens": 4}}
            said = _asked(fleet.url(count % len(fleet.routers)), body)
            with lock:
                if said is None:
                    seen.answered += 1
                elif said == "refused":
                    seen.refused += 1
                else:
                    seen.lost.append(said)
            stop.wait(0.02)

    def observe() -> None:
        while not stop.is_set():
            found = [fleet.in_service(number) for number in range(len(fleet.routers))]
            known = [one for one in found if one is not None]
            if known:
                seen.fewest = min([*known, *([] if seen.fewest is None else [seen.fewest])])
            stop.wait(0.1)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    threads.append(threading.Thread(target=observe))
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _asked(url: str, body: Mapping[str, Any]) -> str | None:
    request = urllib.request.Request(f"{url}/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return None if "text" in json.load(answer) else "an answer without a text"
    except urllib.error.HTTPError as error:
        said = error.read(400)
        # A router that has just restarted takes nothing until it has its members.
        return "refused" if b"no_available_workers" in said else f"{error.code}: {said!r}"
    except urllib.error.URLError as error:
        return "refused" if isinstance(error.reason, ConnectionRefusedError) else f"{error.reason}"
    except (OSError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def make_fleet(folder: Path, workers: int, minimum: int, first: int, routers: int = 1, **settings: Any) -> Fleet:
    """Hosts not up yet, at addresses from 10.213.77.FIRST on, the routers before the workers."""
    routing = [router_node(f"gpufleet-routed-router-{n}", f"10.213.77.{first + n}") for n in range(routers)]
    serving = [scripted_node(f"gpufleet-routed-{n + 1}", f"10.213.77.{first + routers + n}") for n in range(workers)]
    return Fleet(folder, routing, serving, minimum, settings)


def until(holds: Any, seconds: float = 60.0) -> bool:
    """Whether it comes to hold; asked again and again, since nothing tells of it."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.2)
    return False
