# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.node_facts.reading import (
    instance_names,
    read_instance,
    without_secrets_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.look.node import Node

START = "25ce7a0c38a94ed09554e8b04503ba28"
KEY, TOKEN, PROXY = "sentinel-key", "sentinel-token", "http://me:sentinel-proxy@10.0.0.1"
UNIT = """[Unit]
Description=SGLang 0.5.23, instance main
[Service]
WorkingDirectory=/var/lib/sglang/main
EnvironmentFile=/etc/sglang/main.env
LoadCredential=api_key:/srv/keys/api_key
ExecStart=/opt/x/bin/python /opt/sglang/launch_with_keys.py --config /etc/sglang/main.yaml
"""
DROP_IN = f"[Service]\nEnvironment=HTTPS_PROXY={PROXY} NCCL_DEBUG=INFO\n"
SHOW = f"""Id=sglang-main.service
LoadState=loaded
ActiveState=failed
SubState=failed
Result=exit-code
InvocationID={START}
MainPID=0
NRestarts=0
ExecMainCode=1
ExecMainStatus=1
"""
SAID = ("Load weight begin. avail mem=18.30 GB", f"{KEY} {TOKEN} {PROXY}", "ValueError: no")
PARAMS: dict[str, Any] = {"config_root": "/etc/sglang", "details": False, "journal_lines": 100, "journal_bytes": 10000}


class Said:
    """A command that has said all it will."""

    def __init__(self, lines: list[bytes]) -> None:
        self._lines = lines
        self.ended = False

    def read(self, seconds: float) -> list[bytes]:
        lines, self._lines, self.ended = self._lines, [], True
        return lines

    def close(self) -> tuple[int, str]:
        return 0, ""


def record(number: int, message: str) -> bytes:
    fields = {
        "MESSAGE": f"[2026-11-30 21:56:5{number} TP0] {message}" if number < 2 else message,
        "_PID": "7",
        "_TRANSPORT": "stdout",
        "_SYSTEMD_INVOCATION_ID": START,
        "__CURSOR": f"s=1;i={number};b=1;m={number};t=1;x={number}",
        "__REALTIME_TIMESTAMP": str(1_796_075_817_000_000 + number),
    }
    return json.dumps(fields).encode()


def node_of(root: Path) -> Node:
    files = {
        "etc/systemd/system/sglang-main.service": UNIT,
        "etc/systemd/system/sglang-main.service.d/10-proxy.conf": DROP_IN,
        "etc/systemd/system/sglang-main-storage.timer": "",
        "etc/sglang/main.env": f'HF_TOKEN="{TOKEN}"\nOMP_NUM_THREADS=8\n',
        "etc/sglang/main.yaml": f"port: 30000\nserved-model-name: llama\nextra: {TOKEN}\n",
        "etc/sglang/other.reserved.json": "{}",
        "srv/keys/api_key": f"{KEY}\n",
        "proc/sys/kernel/random/boot_id": "b\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")

    def run(command: list[str]) -> tuple[int, str, str]:
        return (0, SHOW, "") if command[:2] == ["systemctl", "show"] else (0, "", "")

    def stream(command: list[str]) -> Said:
        return Said([record(number, message) for number, message in enumerate(SAID)])

    return Node(run=run, stream=stream, probe=lambda url: None, root=root)


def test_every_instance_with_a_unit_or_a_reservation_is_named(tmp_path: Path) -> None:
    assert instance_names(node_of(tmp_path), "/etc/sglang") == ["main", "other"]


def test_an_instance_is_read_by_what_its_unit_names(tmp_path: Path) -> None:
    found = read_instance(node_of(tmp_path), "main", PARAMS)
    assert (found["sglang_version"], found["settings"]["served-model-name"]) == ("0.5.23", "llama")
    assert found["look"]["unit"]["invocation_id"] == START
    assert [event["kind"] for event in found["look"]["events"]] == ["stage_begin", "exception"]
    assert "files" not in found
    assert "sentinel" not in json.dumps(found)


def test_details_hold_all_that_was_to_run_and_no_secret(tmp_path: Path) -> None:
    found = read_instance(node_of(tmp_path), "main", {**PARAMS, "details": True})
    assert "sentinel" not in json.dumps(found)
    assert found["journal"]["lines"][1].endswith("*** *** ***")
    assert found["environment"] == {
        "HTTPS_PROXY": "***",
        "NCCL_DEBUG": "INFO",
        "HF_TOKEN": "***",
        "OMP_NUM_THREADS": "8",
    }
    assert list(found["files"]) == [
        "/etc/systemd/system/sglang-main.service",
        "/etc/systemd/system/sglang-main.service.d/10-proxy.conf",
    ]
    assert "Environment=HTTPS_PROXY=*** NCCL_DEBUG=INFO" in found["files"][list(found["files"])[1]]
    assert "LoadCredential=api_key:/srv/keys/api_key" in found["files"][list(found["files"])[0]]
    assert "extra: ***" in found["config"]


def test_what_others_said_comes_back_without_the_secrets_of_the_node(tmp_path: Path) -> None:
    said = {"msg": f"it said {TOKEN}", "lines": [PROXY, 7]}
    given = {**PARAMS, "conceal": json.dumps(said)}
    assert without_secrets_of(node_of(tmp_path), ["main"], given) == {"msg": "it said ***", "lines": ["***", 7]}
    assert without_secrets_of(node_of(tmp_path), ["main"], {**PARAMS, "conceal": None}) is None
