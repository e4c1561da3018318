# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The key of a repository, from a server and from files, and whatever else may lie there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.modules import repository_key
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.test_openpgp import FINGERPRINT, KEY

OTHER = "0" * 40


class Answers(BaseHTTPRequestHandler):
    asked = 0

    def do_GET(self) -> None:
        Answers.asked += 1
        self.send_response(200 if self.path == "/key" else 404)
        self.end_headers()
        self.wfile.write(KEY.encode() if self.path == "/key" else b"<html>")

    def log_message(self, *_words: object) -> None:
        pass


@pytest.fixture(name="url")
def _url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def told(capsys: pytest.CaptureFixture[str], url: str, path: Path, fingerprint: str, **more: Any) -> dict[str, Any]:
    arguments = {"url": url, "path": str(path), "fingerprint": fingerprint, "timeout_seconds": 5, **more}
    with patch_module_args(arguments), pytest.raises(SystemExit):
        repository_key.main()
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


@pytest.fixture(name="path")
def _path(tmp_path: Path) -> Path:
    return tmp_path / "keyrings" / "nvidia.asc"


def test_it_is_fetched_compared_and_written_once(url: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.parent.mkdir()
    spaced = " ".join((FINGERPRINT[:20].lower(), FINGERPRINT[20:]))
    first = told(capsys, f"{url}/key", path, spaced)
    assert (first["changed"], first["fingerprint"]) == (True, FINGERPRINT), first
    assert (path.read_text(encoding="utf-8"), path.stat().st_mode & 0o777) == (KEY, 0o644)
    asked = Answers.asked
    assert told(capsys, f"{url}/key", path, FINGERPRINT)["changed"] is False
    assert Answers.asked == asked
    path.chmod(0o666)
    assert told(capsys, f"{url}/key", path, FINGERPRINT)["changed"] is True
    assert path.stat().st_mode & 0o777 == 0o644


def test_check_mode_compares_and_writes_nothing(url: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, f"{url}/key", path, FINGERPRINT, _ansible_check_mode=True)["changed"] is True
    assert not path.parent.exists()
    assert told(capsys, f"{url}/key", path, OTHER, _ansible_check_mode=True)["failed"] is True


@pytest.mark.parametrize(
    "content, said",
    [
        (KEY, f"has the fingerprint {FINGERPRINT}; expected {OTHER} and no other"),
        (KEY + KEY, f"has the fingerprint {FINGERPRINT} and {FINGERPRINT}; expected {OTHER}"),
        ("<html>", f"has the fingerprint of no OpenPGP key; expected {OTHER}"),
        ("", f"has the fingerprint of no OpenPGP key; expected {OTHER}"),
    ],
)
@pytest.mark.parametrize("scheme", ["file://", "file:", ""])
def test_another_key_is_refused_and_what_is_there_stays(
    content: str, said: str, scheme: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.parent.mkdir()
    path.write_text("what was there", encoding="utf-8")
    there = path.with_name("other.asc")
    there.write_text(content, encoding="utf-8")
    refused = told(capsys, f"{scheme}{there}", path, OTHER)
    assert said in refused["msg"]
    assert path.read_text(encoding="utf-8") == "what was there"


@pytest.mark.parametrize("place", ["/nowhere/key.asc", "URL/none", "http://127.0.0.1:1/key"])
def test_a_key_that_cannot_be_read_is_told_with_its_place(
    place: str, url: str, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = place.replace("URL", url)
    refused = told(capsys, place, path, FINGERPRINT)
    assert f"cannot be read from {place}: " in refused["msg"]
    assert f"Expected the key {FINGERPRINT} there" in refused["msg"]
