# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Brings a router the workers that it shall have: it forgets them when it restarts, and some come back after it.

Run by a timer that lives as long as the router does, at once when that starts. The file of the members is written by
the module router_members, under the same lock; keys come as credentials. Nothing but the standard library.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 10.0
LOOK_SECONDS = 0.2
LOOKS_AT_ONCE = 32
Ask = Callable[[str, str, Any], Any]


def differences(members: Sequence[dict[str, Any]], workers: Sequence[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """(members to add, workers to remove)."""
    wanted = {one["url"]: one for one in members if one["held_by"] is None}
    there = {one["url"].rstrip("/") for one in workers}
    return (
        [one for url, one in sorted(wanted.items()) if url not in there],
        [one for one in workers if one["url"].rstrip("/") not in wanted],
    )


def answers(url: str) -> bool:
    """Whether a worker serves. SGLang asks for no key there; of its certificate the router judges."""
    context = ssl._create_unverified_context() if url.startswith("https:") else None
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=ANSWER_SECONDS, context=context) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def bring(ask: Ask, members: Sequence[dict[str, Any]], worker_key: str | None) -> list[str]:
    """What was asked of the router, a line each.

    The router goes on asking for a while where a worker does not answer, and takes it as soon as it does, whatever has
    been decided meanwhile. So it is told of those alone that do.
    """
    add, remove = differences(members, ask("GET", "/workers", None)["workers"])
    said = []
    for worker in remove:
        ask("DELETE", f"/workers/{worker['id']}", None)
        said.append(f"asked to let {worker['url']} go")
    # At once: of many that are down each takes its time to be found so.
    with ThreadPoolExecutor(LOOKS_AT_ONCE) as pool:
        serve = dict(zip((one["url"] for one in add), pool.map(answers, [one["url"] for one in add])))
    for member in add:
        if not serve[member["url"]]:
            said.append(f"{member['url']} does not answer")
            continue
        body = {"url": member["url"], "worker_type": member["kind"]}
        if member["bootstrap_port"] is not None:
            body["bootstrap_port"] = member["bootstrap_port"]
        if worker_key is not None:
            body["api_key"] = worker_key
        ask("POST", "/workers", body)
        said.append(f"asked to take {member['url']}")
    return said


def asker(url: str, key: str | None, ca_path: str | None) -> Ask:
    context = ssl.create_default_context(cafile=ca_path) if url.startswith("https:") else None
    if context is not None:
        # That one certificate is the router's own, which is asked over loopback and by no name of it.
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN

    def ask(method: str, path: str, body: Any) -> Any:
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS, context=context) as answer:
            return json.load(answer)

    return ask


def key_of(name: str) -> str | None:
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    path = Path(folder) / name if folder else None
    return path.read_text(encoding="utf-8").rstrip("\r\n") if path is not None and path.exists() else None


@contextlib.contextmanager
def alone(members: Path) -> Iterator[None]:
    """Not while a module changes who is in service; the lock is root's, and a reader can hold it."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(FileNotFoundError):
            lock = stack.enter_context((members.parent / ".lock").open(encoding="utf-8"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--access", type=Path, required=True)
    parser.add_argument("--wait-seconds", type=float, default=0)
    given = parser.parse_args()
    access = json.loads(given.access.read_text(encoding="utf-8"))
    ask = asker(access["url"], key_of("admin_api_key") or key_of("api_key"), access["ca_path"])
    deadline = time.monotonic() + given.wait_seconds
    while True:
        try:
            with alone(Path(access["members"])):
                members = json.loads(Path(access["members"]).read_text(encoding="utf-8"))["workers"]
                for line in bring(ask, members, key_of("worker_api_key")):
                    print(line, flush=True)
            return
        except FileNotFoundError:
            sys.exit(f"{access['members']} is not there; run the role gpufleet.sglang.router.")
        except (OSError, ValueError, KeyError) as error:
            # urllib's errors are OSErrors; what they say holds the status and no key.
            if time.monotonic() >= deadline:
                sys.exit(f"The router at {access['url']} was not brought its members: {error}")
            time.sleep(LOOK_SECONDS)


if __name__ == "__main__":
    main()
