# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The log of a start on a node with a real systemd and journald: what may happen to it in the middle of a watch."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE

NAME = "gpufleet-logs"
ADDRESS = "10.213.77.202"
UNIT = "watched.service"
MODULE = "gpufleet.sglang.startup_status_info"
TALKER = Path(__file__).with_name("talker.py")
PIN = "[2026-11-29 14:20:16 TP{}] Allocating kv hierarchical KV host pool: 1600001 tokens, 0.41 GB host memory."
LOADED = "[2026-11-29 14:20:12 TP0] Load weight end. elapsed=3.10 s, type=LlamaForCausalLM, avail mem=88.00 GB"
READY = "[2026-11-29 14:20:47] The server is fired up and ready to roll!"
UNIT_FILE = """[Service]
ExecStart=/usr/bin/python3 -u /opt/talker.py /run/{name}.pipe
{more}
"""


class Node:
    def run(self, command: str, text: str | None = None) -> str:
        done = subprocess.run(
            ["ssh", "-F", STATE / "ssh_config", "-o", "BatchMode=yes", NAME, command],
            check=False,
            capture_output=True,
            text=True,
            input=text or "",
        )
        if done.returncode:
            pytest.fail(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def unit(self, more: str = "", name: str = "watched") -> None:
        """Starts the unit anew, with further settings."""
        self.run(f"cat >/etc/systemd/system/{name}.service", UNIT_FILE.format(name=name, more=more))
        self.run(
            f"systemctl daemon-reload; systemctl stop {name}; systemctl reset-failed {name}; rm -f /run/{name}.pipe"
        )
        self.run(f"systemctl start {name}")
        self.say(f"{name} talks", name=name)

    def say(self, *lines: str, name: str = "watched") -> None:
        text = "".join(f"{line}\n" for line in lines)
        self.run(f"until test -p /run/{name}.pipe; do sleep 0.02; done; cat >/run/{name}.pipe", text)

    def looking(self, **options: Any) -> subprocess.Popen[str]:
        """A look that has begun, as a play takes it over ssh."""
        arguments = {"unit": UNIT, "sglang_version": "0.5.23", **options}
        command = ["ansible", NAME, "-i", f"{NAME},", "-u", "root", "-m", MODULE, "-a", json.dumps(arguments)]
        command += [
            "--ssh-common-args",
            f"-F {STATE / 'ssh_config'}",
            "-e",
            "ansible_python_interpreter=/usr/bin/python3",
        ]
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env={**ENVIRONMENT, "ANSIBLE_PIPELINING": "1", "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )

    def seen(self, looking: subprocess.Popen[str]) -> dict[str, Any]:
        output = looking.communicate()[0]
        head, _arrow, body = output.partition(" => ")
        assert head.endswith("SUCCESS"), output
        result: dict[str, Any] = json.loads(body)
        return result

    def look(self, **options: Any) -> dict[str, Any]:
        return self.seen(self.looking(**options))

    def waits(self) -> None:
        """Returns once the look that has begun follows the journal, and journalctl sleeps at its end."""
        self.run(
            "until pid=$(pgrep --newest --full 'journalctl.*--follow') && grep --quiet poll /proc/$pid/wchan; do "
            "sleep 0.05; done"
        )


def after(look: dict[str, Any]) -> dict[str, Any]:
    """The options that go on after a look."""
    return {
        "cursor": look["cursor"],
        "invocation_id": look["unit"]["invocation_id"],
        "known_ranks": look["ranks"],
    }


def kinds(look: dict[str, Any]) -> list[str]:
    return [event["kind"] for event in look["events"]]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    up = ["rehearsal/node/up", "--name", NAME, "--address", ADDRESS]
    subprocess.run(up, cwd=ROOT, env=ENVIRONMENT, check=True, stdin=subprocess.DEVNULL)
    found = Node()
    found.run("cat >/opt/talker.py", TALKER.read_text())
    yield found
    subprocess.run(["rehearsal/node/down", NAME], cwd=ROOT, env=ENVIRONMENT, check=True, stdin=subprocess.DEVNULL)


def test_ready_is_seen_at_once_and_not_of_an_older_start(node: Node) -> None:
    node.unit()
    node.say(READY)
    assert kinds(node.look()) == ["ready"]
    node.unit()
    first = node.look()
    assert (first["events"], first["log"]["readable"], first["problems"]) == ([], True, [])
    looking = node.looking(wait_seconds=30, **after(first))
    node.waits()
    node.say(READY)
    found = node.seen(looking)
    lag = time.time() - found["events"][0]["timestamp"]
    print(f"\nfrom the line to the end of the look, through ansible and ssh: {lag:.2f} s")
    assert kinds(found) == ["ready"]
    noticed = found["read_at"] - found["events"][0]["timestamp"]
    print(f"of which on the node: {noticed:.2f} s")


def test_journald_is_restarted_in_mid_wait(node: Node) -> None:
    node.unit()
    first = node.look()
    looking = node.looking(wait_seconds=30, **after(first))
    node.waits()
    node.run("systemctl restart systemd-journald")
    node.say(PIN.format(0), PIN.format(1))
    found = node.seen(looking)
    assert [(event["stage"], event["rank"]) for event in found["events"]] == [
        ("host_pool", "TP0"),
        ("host_pool", "TP1"),
    ]
    assert found["log"]["gap"] is False


def vacuum(node: Node, cursor: str) -> None:
    """Rotates and vacuums until the record of the cursor is gone."""
    journal = json.loads(cursor)["journal"]
    gone = (
        f"! journalctl --quiet --cursor='{journal}' --lines=1 --output=json | grep --quiet --fixed-strings '{journal}'"
    )
    archived = "! ls /var/log/journal/*/system@*.journal >/dev/null 2>&1"
    node.run(f"until {archived} && {gone}; do journalctl --quiet --rotate --vacuum-time=1s; sleep 0.2; done")


def test_journal_is_vacuumed_between_two_looks_and_in_mid_wait(node: Node) -> None:
    node.unit()
    first = node.look()
    vacuum(node, first["cursor"])
    node.say(LOADED)
    second = node.look(**after(first))
    assert (kinds(second), second["log"]["gap"]) == (["stage_end"], True)
    looking = node.looking(wait_seconds=30, **after(second))
    node.waits()
    vacuum(node, second["cursor"])
    node.say(PIN.format(0))
    third = node.seen(looking)
    assert (kinds(third), third["log"]["gap"]) == (["stage_begin"], False)


def test_noise_hides_nothing_and_another_unit_counts_for_nothing(node: Node) -> None:
    node.unit()
    node.unit(name="other")
    found = node.look()
    node.say(READY, "!noise 10000 4", name="other")
    node.say(LOADED, "!noise 10000 4")
    events, lines, looks = [], 0, 0
    while "capacity" not in events:
        found = node.look(wait_seconds=4, **after(found))
        events += kinds(found)
        lines += found["lines"]
        looks += 1
        assert found["log"] == {"source": "journal", "readable": True, "suppressed": 0, "gap": False}
        if lines >= 40_000:
            node.say(
                "[2026-11-29 14:20:40 TP0] max_total_num_tokens=8192, chunked_prefill_size=8192, max_running_requests=1"
            )
    print(f"\n{lines} lines in {looks} looks")
    assert events == ["stage_end", "capacity"]
    assert lines >= 40_001


def test_messages_over_the_rate_limit_are_counted(node: Node) -> None:
    node.unit("LogRateLimitIntervalSec=1s\nLogRateLimitBurst=100")
    first = node.look()
    node.say("!flood 5000")
    # journald tells of it with the first line that it lets through again.
    dropped = f"journalctl --quiet --output=cat --output-fields=N_DROPPED OBJECT_SYSTEMD_UNIT={UNIT} _TRANSPORT=driver"
    node.run(f"until {dropped} | grep --quiet .; do echo after >/run/watched.pipe; sleep 0.2; done")
    found = node.look(**after(first))
    print(f"\n{found['lines']} lines came and {found['log']['suppressed']} were dropped")
    assert found["log"]["suppressed"] == sum(int(count) for count in node.run(dropped).split()) > 1000
    assert found["lines"] + found["log"]["suppressed"] >= 5000


def test_last_words_of_a_start_come_with_its_end(node: Node) -> None:
    node.unit()
    first = node.look()
    looking = node.looking(wait_seconds=30, **after(first))
    node.waits()
    node.say("ValueError: the last words", "!exit 3")
    found = node.seen(looking)
    if found["unit"]["active_state"] == "active":
        # The words came before the end.
        found = {**node.look(wait_seconds=10, **after(found)), "events": found["events"]}
    assert (found["unit"]["active_state"], found["unit"]["exec_main_status"]) == ("failed", 3)
    assert kinds(found) == ["exception"]


def test_log_file_through_both_kinds_of_rotation(node: Node) -> None:
    log = {"type": "file", "path": "/var/log/watched.log"}
    node.run(f"echo '{READY}' >/var/log/watched.log; rm -f /var/log/watched.log.*")
    node.unit("StandardOutput=append:/var/log/watched.log")
    node.run("sleep 1.1")
    stamp = node.run("date '+%F %T'")
    node.say(LOADED.replace("2026-11-29 14:20:12", stamp))
    # It is found without being named, by what the server has open.
    first = node.look()
    assert (kinds(first), first["log"]["source"]) == (["stage_end"], "file")
    node.run("cp /var/log/watched.log /var/log/watched.log.1; : >/var/log/watched.log")
    node.say(PIN.format(0))
    second = node.look(log=log, **after(first))
    assert (kinds(second), second["log"]["gap"]) == (["stage_begin"], False)
    node.run("mv /var/log/watched.log /var/log/watched.log.1; touch /var/log/watched.log")
    looking = node.looking(log=log, wait_seconds=30, **after(second))
    # The unit still writes to the file that was moved away.
    node.say(PIN.format(1))
    third = node.seen(looking)
    assert ([event["rank"] for event in third["events"]], third["log"]["gap"]) == (["TP1"], False)


@pytest.fixture
def container(tmp_path: Path) -> Iterator[Path]:
    """A container of podman on this machine; the folder with its pipe."""
    podman("rm", "--force", "--time", "0", "--ignore", f"{NAME}-container")
    folder = tmp_path / "shared"
    folder.mkdir()
    yield folder
    podman("rm", "--force", "--time", "0", f"{NAME}-container")


def podman(*arguments: str) -> str:
    done = subprocess.run(
        ["tools/with-podman", "podman", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def look_here(**options: Any) -> dict[str, Any]:
    """A look at this machine, where podman runs."""
    log = {"type": "podman", "container": f"{NAME}-container"}
    script = Path(__file__).with_name("one_look.py")
    done = subprocess.run(
        ["tools/with-podman", sys.executable, script, json.dumps({"unit": None, "log": log, **options})],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".build" / "collections")},
        check=True,
        capture_output=True,
        text=True,
    )
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.usefixtures("node")
def test_container_without_any_unit(container: Path) -> None:
    missing = look_here()
    assert (missing["unit"]["load_state"], missing["problems"]) == ("not-found", [])
    shutil.copy(TALKER, container)
    title = "exec -a sglang::scheduler_TP0 sleep infinity"
    shell = f"({title}) & exec python3 -u /shared/talker.py /shared/pipe"
    podman(
        *("run", "--detach", "--name", f"{NAME}-container", "--network", "none", "--log-driver", "k8s-file"),
        *("--volume", f"{container}:/shared", "localhost/gpufleet-node-bookworm:latest", "bash", "-c", shell),
    )
    pipe = container / "pipe"
    deadline = time.monotonic() + 30
    while not pipe.is_fifo() and time.monotonic() < deadline:
        time.sleep(0.05)
    pipe.write_text(f"{PIN.format(0)}\n{'x' * 20_000}\n")
    first = look_here()
    while not first["lines"] >= 2:
        first = look_here()
    assert (first["unit"]["active_state"], first["unit"]["n_restarts"]) == ("active", 0)
    assert [event["stage"] for event in first["events"]] == ["host_pool"]
    assert len(first["tail"][-1]) == 2000
    pipe.write_text(f"{READY}\n")
    second = look_here(wait_seconds=30, **after(first))
    assert (kinds(second), second["log"]["gap"]) == (["ready"], False)
    podman("restart", "--time", "0", f"{NAME}-container")
    third = look_here(**after(second))
    assert third["unit"]["invocation_id"] != first["unit"]["invocation_id"]
    assert (third["events"], look_here()["events"]) == ([], [])
    podman("kill", f"{NAME}-container")
    fourth = look_here()
    assert (fourth["unit"]["result"], fourth["unit"]["exec_main_status"]) == ("signal", 9)
