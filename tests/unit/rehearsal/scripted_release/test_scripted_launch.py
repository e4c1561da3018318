# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The unpacked release as real processes on this machine, started as the unit of the role starts it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.filter.core import to_nice_yaml

from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.contents import wheelhouse
from ansible_collections.gpufleet.sglang.rehearsal.sglang_on_cpu.make_model import config

LAUNCHER = Path(__file__).resolve().parents[4] / "roles" / "sglang" / "files" / "launch_with_keys.py"
QUICK = {"boot": 0.0, "load": 0.0, "device_pool": 0.0, "capture": 0.0, "register": 0.0, "warm_up": 0.0}
KEY = "sentinel-key"
# Nothing is asserted about it: what hangs shall not hang the whole run, however busy the machine is.
GUARD_SECONDS = 300


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port that nobody else is given, bound and not listened on; a server that reuses addresses may take it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])


class Started:
    """A server of the release, and what it has said so far."""

    def __init__(
        self, folder: Path, release: str, port: int, *, key: str | None, architecture: str, more: dict[str, Any]
    ) -> None:
        self.port = port
        site, model = folder / "site", folder / "model"
        files = wheelhouse(release)
        for name in files:
            if name.endswith(".whl"):
                zipfile.ZipFile(io.BytesIO(files[name])).extractall(site)
        model.mkdir()
        (model / "config.json").write_text(json.dumps({**config(), "architectures": [architecture]}), encoding="utf-8")
        arguments = {
            "model-path": str(model),
            "host": "127.0.0.1",
            "port": port,
            "device": "cpu",
            "tp-size": 2,
            "max-total-tokens": 512,
            "enable-metrics": True,
            "enable-hierarchical-cache": True,
            "hicache-ratio": 40.0,
        }
        (folder / "main.yaml").write_text(to_nice_yaml(arguments), encoding="utf-8")
        (folder / "more.json").write_text(json.dumps({"seconds": QUICK, **more}), encoding="utf-8")
        environment = {
            **os.environ,
            "PYTHONPATH": str(site),
            "REHEARSAL_SCENARIO": str(folder / "more.json"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        start = ["-m", "sglang.launch_server"]
        if key:
            start = [str(LAUNCHER)]
            (folder / "credentials").mkdir()
            (folder / "credentials" / "api_key").write_text(key, encoding="ascii")
            environment["CREDENTIALS_DIRECTORY"] = str(folder / "credentials")
        self.process = subprocess.Popen(
            [sys.executable, *start, "--config", str(folder / "main.yaml")],
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []

    def until(self, words: str) -> None:
        assert self.process.stderr
        for line in self.process.stderr:
            self.lines.append(line)
            if words in line:
                return
        pytest.fail(f"it ended without '{words}':\n" + "".join(self.lines))

    def rest(self) -> int:
        """Its exit status, negative for a signal, when every process of it is gone."""
        assert self.process.stderr
        self.lines += self.process.stderr.readlines()
        return self.process.wait()

    def get(self, path: str, key: str | None = None) -> tuple[int, str]:
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}")
        if key:
            request.add_header("Authorization", f"Bearer {key}")
        try:
            with urllib.request.urlopen(request, timeout=GUARD_SECONDS) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return int(error.code), error.read().decode()


@contextmanager
def started(
    folder: Path,
    release: str = "0.5.23",
    *,
    key: str | None = None,
    architecture: str = "LlamaForCausalLM",
    **more: Any,
) -> Iterator[Started]:
    with reserved_port() as port:
        server = Started(folder, release, port, key=key, architecture=architecture, more=more)
        try:
            yield server
        finally:
            if server.process.poll() is None:
                os.killpg(server.process.pid, signal.SIGKILL)
            server.process.wait()
            if server.process.stderr:
                server.process.stderr.close()


ANNOUNCED = "Allocating 0.04 GB host memory for hierarchical KV cache."


@pytest.mark.parametrize(
    ("release", "announced", "gauge", "status"),
    [
        ("0.5.3", ANNOUNCED, None, -signal.SIGKILL),
        ("0.5.9", ANNOUNCED, None, -signal.SIGKILL),
        ("0.5.18", "kv hierarchical KV host pool: 20481 tokens, 0.04 GB", 20481, -signal.SIGKILL),
        ("0.5.23", "kv hierarchical KV host pool: 20481 tokens, 0.04 GB", 20481, 0),
    ],
)
def test_it_serves_what_its_arguments_say(
    release: str, announced: str, gauge: int | None, status: int, tmp_path: Path
) -> None:
    with started(tmp_path, release) as server:
        server.until("fired up")
        told = json.loads(server.get("/get_server_info")[1])
        assert (told["version"], told["max_total_num_tokens"], told["hicache_ratio"]) == (release, 512, 40.0)
        shown = re.findall(
            r"^sglang:hicache_host_total_tokens\{.*\} (\d+)\.0$", server.get("/metrics")[1], re.MULTILINE
        )
        assert shown == ([] if gauge is None else [str(gauge)])
        server.process.send_signal(signal.SIGTERM)
        assert server.rest() == status
    assert sum(announced in line for line in server.lines) == 2


@pytest.mark.parametrize("release", ["0.5.3", "0.5.23"])
def test_the_key_of_the_credential_is_asked_for_and_not_said(release: str, tmp_path: Path) -> None:
    with started(tmp_path, release, key=KEY) as server:
        server.until("fired up")
        assert [server.get("/v1/models", key)[0] for key in (None, "<hidden>", KEY)] == [401, 401, 200]
        assert json.loads(server.get("/get_server_info", KEY)[1])["api_key"] == "<hidden>"
        server.process.send_signal(signal.SIGTERM)
        server.rest()
    assert "<hidden>" in server.lines[0]
    assert KEY not in "".join(server.lines)


def test_a_fault_that_is_laid_over_is_played(tmp_path: Path) -> None:
    fault = {"within": "host_pool", "share": 0.5, "rank": "TP1", "do": [{"exit": 3}]}
    with started(tmp_path, faults=[fault]) as server:
        assert server.rest() == 1
    assert "Rank 1 scheduler died during initialization (exit code: 3)" in "".join(server.lines)


def test_a_model_of_another_family_ends_the_start_with_its_name(tmp_path: Path) -> None:
    with started(tmp_path, architecture="GptOssForCausalLM") as server:
        assert server.rest() == 1
    assert "Model architectures ['GptOssForCausalLM'] are not played" in server.lines[-1]
