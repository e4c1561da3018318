# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys of the real server: it asks for them, and they are found nowhere else."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ON_CPU, Node, Outcome, boot, play, play_refused

CLIENT = "sentinel-client-5f2c9a71d04be8"
ADMIN = "sentinel-admin-81be33c4aa2290"
NEXT = "sentinel-next-0c44e1b97af351"
SENTINEL = "sentinel-"
# A server that is quick to start and to prove: this is not about its cache.
SMALL = {
    "sglang_tensor_parallel_size": 1,
    "sglang_hicache_enabled": False,
    "sglang_environment": ON_CPU,
    "sglang_burn_in_requests": 1,
    "sglang_canary": False,
    "sglang_chat_check": False,
}
# Memory of processes and the ramfs of credentials are where a key has to be.
FOLDERS = "/etc/systemd /run/systemd /var/lib/sglang /var/cache/sglang /opt/sglang/*.py /etc/sglang /tmp /var/tmp /root"


def settings(folder: Path, **said: object) -> Path:
    """A file for -e @FILE, so that no key is an argument of the controller either."""
    path = folder / "settings.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps({**SMALL, **said}), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory, node: Node) -> Outcome:
    boot()
    given = settings(tmp_path_factory.mktemp("keys"), sglang_api_key=CLIENT, sglang_admin_api_key=ADMIN)
    return play("--limit", "node", "-vvv", "--diff", "-e", f"@{given}")


def status(node: Node, path: str, key: str | None = None, body: str | None = None) -> int:
    """What the server answers to this, the key read from the standard input of curl."""
    header = "" if key is None else f"header = {json.dumps(f'Authorization: Bearer {key}')}"
    data = "" if body is None else f"-H 'Content-Type: application/json' -d {shlex.quote(body)}"
    command = (
        f"curl -s -o /dev/null -w '%{{http_code}}' -K - {data} http://127.0.0.1:30000{path} <<< {shlex.quote(header)}"
    )
    return int(node.run(f"bash -c {shlex.quote(command)}"))


def body(node: Node, path: str, key: str) -> str:
    header = f"header = {json.dumps(f'Authorization: Bearer {key}')}"
    return node.run(f"bash -c {shlex.quote(f'curl -s -K - http://127.0.0.1:30000{path} <<< {shlex.quote(header)}')}")


def test_the_server_is_proven_with_its_key(first_run: Outcome, node: Node) -> None:
    assert first_run.status == 0, first_run.output
    ledger = json.loads(node.run("cat /var/lib/sglang/main/ledger.json"))
    checks = {check["name"]: check for check in ledger["proof"]["checks"]}
    assert checks["asks_for_key"]["ok"] is True
    assert checks["generate"]["ok"] is True


def test_it_asks_for_the_key(first_run: Outcome, node: Node) -> None:
    prompt = json.dumps({"text": "hello", "sampling_params": {"max_new_tokens": 1}})
    for wrong in (None, "sentinel-wrong", "<hidden>", ""):
        assert status(node, "/v1/models", wrong) == 401, wrong
        assert status(node, "/generate", wrong, prompt) == 401, wrong
    assert status(node, "/v1/models", CLIENT) == 200
    assert status(node, "/generate", CLIENT, prompt) == 200
    # Probes and scrapers carry no key.
    assert status(node, "/health") == 200
    assert status(node, "/metrics") == 200


def test_what_administers_asks_for_the_other_key(first_run: Outcome, node: Node) -> None:
    assert status(node, "/flush_cache", None, "{}") == 401
    assert status(node, "/flush_cache", CLIENT, "{}") == 401
    assert status(node, "/flush_cache", ADMIN, "{}") == 200


def test_the_play_says_no_key(first_run: Outcome) -> None:
    assert first_run.output.count("TASK [") > 40
    assert SENTINEL not in first_run.output


@pytest.mark.parametrize("path", ["/server_info", "/get_server_info", "/model_info", "/get_model_info", "/v1/models"])
def test_the_server_says_no_key(first_run: Outcome, node: Node, path: str) -> None:
    said = body(node, path, CLIENT)
    assert "rehearsal-llama" in said
    assert SENTINEL not in said


def test_the_journal_says_no_key(first_run: Outcome, node: Node) -> None:
    journal = node.run("journalctl --no-pager --output=export | strings")
    assert "server_args=" in journal
    assert "api_key" in journal
    assert SENTINEL not in journal


def test_no_argument_and_no_environment_holds_a_key(first_run: Outcome, node: Node) -> None:
    shown = node.run(
        "for f in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do echo $f; tr '\\0' '\\n' <$f; echo; done", check=False
    )
    assert "launch_with_keys.py" in shown
    assert "CREDENTIALS_DIRECTORY=" in shown
    assert SENTINEL not in shown


def test_systemd_says_no_key(first_run: Outcome, node: Node) -> None:
    said = node.run(
        "systemctl show '*' --no-pager; systemctl cat sglang-main.service; systemctl status --no-pager sglang-main"
    )
    assert "LoadCredential" in said
    assert SENTINEL not in said


def test_no_file_but_the_keys_own_holds_a_key(first_run: Outcome, node: Node) -> None:
    found = node.run(f"grep -rlaI --binary-files=text {SENTINEL} {FOLDERS} 2>/dev/null | sort", check=False).split()
    assert found == ["/etc/sglang/keys/main/admin_api_key", "/etc/sglang/keys/main/api_key"]
    modes = node.run("stat -c '%a %U' /etc/sglang/keys /etc/sglang/keys/main /etc/sglang/keys/main/*").splitlines()
    assert modes == ["700 root", "700 root", "400 root", "400 root"]
    assert "NO" in node.run("runuser -u nobody -- test -r /etc/sglang/main.yaml || echo NO")


def test_another_key_restarts_once_and_the_old_one_opens_nothing(
    first_run: Outcome, node: Node, tmp_path: Path
) -> None:
    given = settings(tmp_path, sglang_api_key=NEXT, sglang_admin_api_key=ADMIN)
    before = node.invocation()
    told = play("--limit", "node", "--check", "--diff", "-e", f"@{given}")
    assert "the running server was started with another api_key" in told.output, told.output
    assert SENTINEL not in told.output
    assert node.invocation() == before
    rotated = play("--limit", "node", "-vvv", "-e", f"@{given}")
    assert rotated.status == 0, rotated.output
    assert SENTINEL not in rotated.output
    after = node.show("InvocationID", "NRestarts")
    assert after["InvocationID"] != before
    assert after["NRestarts"] == "0"
    assert status(node, "/v1/models", CLIENT) == 401
    assert status(node, "/v1/models", NEXT) == 200
    in_force = node.fingerprint()
    again = play("--limit", "node", "-e", f"@{given}")
    assert again.status == 0, again.output
    assert again.changed == 0, again.output
    assert node.fingerprint() == in_force


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "blank": ({"sglang_api_key": "sentinel- two"}, "blanks"),
    "one-for-both": ({"sglang_api_key": CLIENT, "sglang_admin_api_key": CLIENT}, "are the same"),
    "value-and-file": ({"sglang_api_key": CLIENT, "sglang_api_key_file": "/root/k"}, "are both set"),
    "no-file": ({"sglang_api_key_file": "/root/none"}, "is not there"),
    "read-by-others": ({"sglang_api_key_file": "/etc/hostname"}, "has mode 0644"),
    "workers": (
        {"sglang_api_key": CLIENT, "sglang_extra_arguments": {"tokenizer-worker-num": 2}},
        "expected 1",
    ),
}


def test_what_would_not_hold_is_refused_before_anything_is_touched(
    first_run: Outcome, node: Node, tmp_path: Path
) -> None:
    before = node.fingerprint()
    requests = {name: {**SMALL, **case[0]} for name, case in REFUSED.items()}
    refused = play_refused(tmp_path, requests, "-vvv")
    assert refused.status == 2, refused.output
    for name, (said, expected) in REFUSED.items():
        assert re.search(expected, refused.errors_of.get(name, "")), (name, said, refused.output)
        assert refused.recap[name]["changed"] == 0
    assert SENTINEL not in refused.output
    assert node.fingerprint() == before
