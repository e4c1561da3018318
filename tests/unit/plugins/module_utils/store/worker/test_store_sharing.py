# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The server for other nodes, asked over loopback."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import Source
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.sharing import Share
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.store.store_models import (
    job_for,
    make_model,
    same,
    size_of,
    work,
)


@pytest.fixture(name="share")
def _share(tmp_path: Path) -> Iterator[Share]:
    model = make_model(tmp_path / "source", 3)
    work(job_for(tmp_path / "store", Source("folder", (str(model),)), revision="v1"))
    (tmp_path / "tokens").write_text("old\nnew\n")
    server = Share("127.0.0.1", 0, tmp_path / "store", tmp_path / "tokens", 1, None)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def ask(share: Share, path: str, token: str | None = "new", full: bool = False, **headers: str) -> tuple[int, bytes]:
    """C(full): all places are taken. Else whoever asked before may have its answer and still hold the only one."""
    if not full:
        assert share.places.acquire(timeout=30)
        share.places.release()
    given = {**headers, **({} if token is None else {"Authorization": f"Bearer {token}"})}
    request = urllib.request.Request(f"http://127.0.0.1:{share.server_address[1]}{path}", headers=given)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status), answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, b""


def test_another_node_fetches_the_revision(share: Share, tmp_path: Path) -> None:
    source = Source("mirror", (f"http://127.0.0.1:{share.server_address[1]}/tiny/v1",))
    result = work(job_for(tmp_path / "other", source, parallel_files=3), token="new")
    assert same(Path(result["path"]), tmp_path / "source")
    assert result["fetched_bytes"] == size_of(tmp_path / "source")
    # All three at once, of which one is let in: the others wait in line, and that is no trouble.
    assert result["retries"] == 0


@pytest.mark.parametrize("token", [None, "", "wrong", "ol"])
def test_strangers_are_not_let_in(share: Share, token: str | None) -> None:
    assert ask(share, "/tiny/v1/config.json", token)[0] == 401


def test_every_token_that_a_play_brought_is_let_in(share: Share) -> None:
    assert ask(share, "/tiny/v1/config.json", "old")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/tiny",
        "/tiny/v1",
        "/tiny/v1/",
        "/tiny/v2/config.json",
        "/tiny/current/config.json",
        "/tiny/v1/.verified.json",
        "/tiny/v1/../../tokens",
        "/tiny/v1/%2e%2e/%2e%2e/%2e%2e/tokens",
        "/tiny/.partial/x/files/config.json",
        "/tiny/v1/out",
    ],
)
def test_nothing_but_published_files_is_served(share: Share, tmp_path: Path, path: str) -> None:
    (tmp_path / "store" / "tiny" / "v1" / "out").symlink_to(tmp_path / "tokens")
    assert ask(share, path)[0] == 404


def test_ranges(share: Share, tmp_path: Path) -> None:
    content = (tmp_path / "source" / "config.json").read_bytes()
    assert ask(share, "/tiny/v1/config.json", Range="bytes=5-") == (206, content[5:])
    assert ask(share, "/tiny/v1/config.json", Range="bytes=5-9") == (206, content[5:10])
    assert ask(share, "/tiny/v1/config.json", Range=f"bytes={len(content)}-")[0] == 416
    assert ask(share, "/tiny/v1/config.json") == (200, content)


def test_who_comes_when_all_places_are_taken_is_told_so(share: Share) -> None:
    share.places.acquire()
    assert ask(share, "/tiny/v1/config.json", full=True)[0] == 503
    share.places.release()
    found: Any = ask(share, "/tiny/v1/config.json")
    assert found[0] == 200
