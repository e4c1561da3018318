# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gate between stop and start on a real node: real processes with real shared memory, that end, leak and stay."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import NAME, STATE, Node, Outcome, Play

HERE = Path(__file__).resolve().parent
HOLDER = "/usr/local/bin/memory_holder.py"
UNIT = "sglang-gate.service"
FOLDER = "/var/lib/sglang/gate"
MACHINE = "/tmp/gate-machine"
TOLD = "/usr/local/share/rehearsal/machine/machine.nvml"
LIBRARY = f"{MACHINE}/lib/libnvidia-ml.so.1"
GB = 10**9


@dataclass
class Bench:
    """The node with what these tests put there, and takes away again."""

    node: Node
    scratch: Path
    units: list[str] = field(default_factory=list)

    def hold(self, unit: str, megabytes: int, *steps: str, title: str = "sglang::scheduler_TP0", **options: str) -> int:
        """Starts a unit that holds so much; the process of its main program."""
        words = {"WorkingDirectory": FOLDER, "Type": "notify", "KillMode": "mixed", **options}
        properties = " ".join(f"-p {name}={shlex.quote(value)}" for name, value in words.items() if name != "env")
        environment = f"-E {options['env']}" if "env" in options else ""
        inner = f"exec -a {title} python3 {HOLDER} {megabytes} {' '.join(steps)}"
        self.node.run(f"systemd-run -q --unit={unit} {properties} {environment} bash -c {shlex.quote(inner)}")
        self.units.append(unit)
        return int(self.node.run(f"systemctl show -p MainPID --value {unit}"))

    def file(self, unit: str, megabytes: int, *steps: str) -> None:
        """The same as a unit of a file, which stays when it is stopped, and can be started again."""
        lines = [
            "[Service]",
            "Type=notify",
            f"WorkingDirectory={FOLDER}",
            f"ExecStart=/bin/bash -c 'exec -a sglang::scheduler_TP0 python3 {HOLDER} {megabytes} {' '.join(steps)}'",
        ]
        text = shlex.quote("\n".join(lines) + "\n")
        self.node.run(f"printf %s {text} >/run/systemd/system/{unit} && systemctl daemon-reload")
        self.units.append(unit)

    def gpus(self, text: str) -> None:
        """What NVML tells from now on."""
        told = f"{{ cat {TOLD}; printf %s {shlex.quote(text)}; }} >{MACHINE}/new"
        self.node.run(f"{told} && mv {MACHINE}/new {MACHINE}/machine.nvml")

    def available(self) -> int:
        return int(self.node.run("awk '/MemAvailable/ {print $2}' /proc/meminfo")) * 1024

    def begin(self, **options: Any) -> Play:
        given = {"unit": UNIT, "gpus": [], "poll_seconds": 1, **options}
        values = {"gate": given, "gate_result": str(self.scratch / "result.json")}
        return Play("-e", json.dumps(values), playbook="tests/integration/idle_wait.yml")

    def end(self, play: Play) -> tuple[dict[str, Any], Outcome]:
        outcome = play.finish()
        assert outcome.status == 0, outcome.output
        result: dict[str, Any] = json.loads((self.scratch / "result.json").read_text())
        return result, outcome

    def gate(self, **options: Any) -> tuple[dict[str, Any], Outcome]:
        return self.end(self.begin(**options))

    def clear(self) -> None:
        names = " ".join(self.units)
        self.node.run(
            f"systemctl kill -s KILL {names}; systemctl stop {names}; systemctl reset-failed {names};"
            f" rm -f /dev/shm/gate_* /run/systemd/system/{UNIT}; systemctl daemon-reload",
            check=False,
        )


def plan_of(required: int, **device: Any) -> dict[str, Any]:
    host = {
        "required_available_bytes": required,
        "available_bytes": required,
        "reserve_bytes": GB,
        "pinned_bytes_total": required - GB,
        "ranks": 1,
        "bytes_per_rank": required - GB,
        "ratio": 4.0,
        "sizing": "ratio",
        "numa_binding": "none",
        "numa": [],
    }
    # A thousand tokens, of which the host's pool holds four times as many.
    pool = {"max_total_num_tokens": 1000, "bytes_per_token": (required - GB) // 4000}
    return {
        "sglang_version": "0.5.23",
        "host": host,
        "device": {**pool, **device},
        "unit": {"timeout_stop_seconds": 60},
    }


@pytest.fixture(name="prepared", scope="module")
def _prepared(node: Node) -> Iterator[Node]:
    wheel = node.run("ls /srv/wheelhouse/nvidia_ml_py-*.whl")
    packages = node.run("python3 -c 'import site; print(site.getsitepackages()[0])'")
    node.run(f"mkdir -p {FOLDER} {packages} && echo {wheel} >{packages}/gate.pth")
    node.run(f"rm -rf {MACHINE} && cp -r /usr/local/share/rehearsal/machine {MACHINE}")
    command = ["ssh", "-F", str(STATE / "ssh_config"), "-o", "BatchMode=yes", NAME, f"cat >{HOLDER}"]
    subprocess.run(command, input=(HERE / "memory_holder.py").read_bytes(), check=True)
    yield node
    node.run(f"rm -rf {MACHINE} {HOLDER} {FOLDER} {packages}/gate.pth", check=False)


@pytest.fixture(name="bench")
def _bench(prepared: Node, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(prepared, tmp_path)
    bench.gpus("")
    yield bench
    bench.clear()


def test_an_idle_node_passes_with_one_look(bench: Bench) -> None:
    result, outcome = bench.gate()
    assert (result["outcome"], result["problems"]) == ("idle", [])
    assert "waiting for memory" not in outcome.output
    print(f"\nan idle node: {result['idle_seconds']} s")


def test_a_slow_stop_is_followed_to_its_end(bench: Bench) -> None:
    main = bench.hold(UNIT, 1500, "10", "10", "usr1")
    bench.node.run(f"systemctl stop --no-block {UNIT}")
    waiting = bench.begin()
    waiting.read_until(rf"stopping 0.00 of .* held by sglang::scheduler_TP0 {main}\b")
    bench.node.run(f"kill -USR1 {main}")
    result, outcome = bench.end(waiting)
    assert result["outcome"] == "idle", outcome.output
    # How much came back is printed only: the whole machine's memory is counted, and others take and give as well.
    shown = re.findall(
        rf"stopping .* given back.*, held by sglang::scheduler_TP0 {main}$", outcome.output, re.MULTILINE
    )
    assert len(set(shown)) >= 3, outcome.output
    assert bench.node.run(f"cat /proc/{main}/comm", check=False) == ""
    print(f"\na slow stop: {result['idle_seconds']} s, {result['given_back_bytes'] / GB:.2f} GB back")


def test_a_killed_server_leaves_ranks_in_its_unit_that_are_waited_for(bench: Bench) -> None:
    """The main process is killed and another one of the unit stays, as a unit with KillMode=process leaves it."""
    main = bench.hold(UNIT, 50, KillMode="process")
    group = bench.node.run(f"systemctl show -p ControlGroup --value {UNIT}")
    stray = bench.hold("sglang-gate-rank", 400, "4", "2", title="sglang::scheduler_TP1")
    procs = f"$(ls -d /sys/fs/cgroup{group} /sys/fs/cgroup/systemd{group} 2>/dev/null | head -n 1)/cgroup.procs"
    bench.node.run(f"echo {stray} >{procs} && kill -KILL {main}")
    waiting = bench.begin(stall_seconds=20)
    waiting.read_until(rf"held by sglang::scheduler_TP1 {stray}\b")
    bench.node.run(f"kill -TERM {stray}")
    result, outcome = bench.end(waiting)
    assert result["outcome"] == "idle", outcome.output
    assert bench.node.run(f"cat /proc/{stray}/comm", check=False) == ""


def test_a_leaked_rank_is_named_with_user_and_gpu_and_not_killed(bench: Bench) -> None:
    bench.file(UNIT, 50)
    leaked = bench.hold("gate-leak", 300, title="sglang::scheduler_TP1", User="nobody")
    other = bench.hold("gate-other", 100, WorkingDirectory="/var/lib")
    bench.gpus(
        f"[gpu 0]\nmemory_used = 30000000000\nprocesses = {leaked}:29000000000\n[gpu 1]\nprocesses = {other}:90\n"
    )
    result, outcome = bench.gate(gpus=["0"], stall_seconds=2, nvml_library=LIBRARY)
    assert (result["outcome"], result["failure"]["code"]) == ("stalled", "old_server_alive")
    holds = {(hold["kind"], hold["pid"], hold["user"], hold["gpu"]) for hold in result["failure"]["evidence"]["holds"]}
    assert holds == {("process", leaked, "nobody", None), ("gpu", leaked, "nobody", 0)}
    assert f"kill -KILL {leaked}" in outcome.output
    assert bench.node.run(f"cat /proc/{leaked}/comm")


def test_a_process_that_only_carries_the_environment_is_the_instances(bench: Bench) -> None:
    helper = bench.hold("gate-helper", 50, title="helper", WorkingDirectory="/", env="GPUFLEET_GENERATION=old")
    result, _outcome = bench.gate(stall_seconds=2, generations=["new", "old"])
    assert [hold["pid"] for hold in result["failure"]["evidence"]["holds"]] == [helper]


def test_gpu_memory_of_another_server_is_waited_for_until_it_is_back(bench: Bench) -> None:
    other = bench.hold("gate-other", 50, title="vllm", WorkingDirectory="/")
    bench.gpus(f"[gpu 2]\nmemory_used = 40000000000\nprocesses = {other}:40000000000\n")
    waiting = bench.begin(gpus=["2", "3"], stall_seconds=20, nvml_library=LIBRARY)
    waiting.read_until(rf"GPU 0.00/40.00\), held by vllm {other}")
    # The process goes first; the driver frees its memory later, and names nobody for it.
    bench.gpus("[gpu 2]\nmemory_used = 20000000000\n")
    waiting.read_until(r"GPU 20.00/40.00\)")
    bench.gpus("")
    result, outcome = bench.end(waiting)
    assert (result["outcome"], result["given_back_gpu_bytes"]) == ("idle", 40 * GB), outcome.output


def test_leftovers_in_shared_memory_are_named_with_what_fits_now(bench: Bench) -> None:
    bench.node.run("dd if=/dev/zero of=/dev/shm/gate_pool bs=1M count=300 status=none; chown nobody /dev/shm/gate_pool")
    bench.hold("gate-other", 300, title="postgres", WorkingDirectory="/", User="daemon")
    available = bench.available()
    plan = plan_of(available + 8 * GB)
    result, outcome = bench.gate(plan=plan, stall_seconds=2, timeout_seconds=8)
    assert result["failure"]["code"] == "host_memory_held", outcome.output
    remedies = {remedy["code"]: remedy for remedy in result["failure"]["evidence"]["remedies"]}
    assert remedies["remove_file"]["path"] == "/dev/shm/gate_pool"
    assert remedies["remove_file"]["bytes"] >= 300 << 20
    assert "user nobody" in remedies["remove_file"]["message"]
    # The server's own check keeps 10 GiB: a machine that has no more than that has no ratio to name.
    assert ("set_ratio" in remedies) == (available > 11 * GB), outcome.output
    assert all(0 < remedy["value"] < 4.0 for code, remedy in remedies.items() if code == "set_ratio")
    users = [(user["name"], user["user"]) for user in result["holders"]["memory_users"]]
    assert ("postgres", "daemon") in users
    assert bench.node.run("ls /dev/shm/gate_pool")


def test_a_server_that_systemd_starts_again_is_no_matter_of_waiting(bench: Bench) -> None:
    main = bench.hold(UNIT, 50, Restart="on-failure", RestartSec="300")
    bench.node.run(
        f"kill -KILL {main}; timeout 10 sh -c 'until systemctl show {UNIT} | grep -q auto-restart; do :; done'"
    )
    result, outcome = bench.gate()
    assert result["failure"]["code"] == "unit_active", outcome.output
    assert f"systemctl stop {UNIT}" in outcome.output


# The role's handlers --------------------------------------------------------------------------------------------------


def restart(plan: dict[str, Any], *arguments: str) -> Play:
    return Play(*arguments, "-e", json.dumps({"gate_plan": plan}), playbook="tests/integration/idle_gate.yml")


def state_of(bench: Bench) -> dict[str, str]:
    text = bench.node.run(f"systemctl show -p ActiveState,MainPID,NRestarts,InvocationID {UNIT}")
    return dict(line.split("=", 1) for line in text.splitlines())


def test_a_restart_waits_between_stop_and_start(bench: Bench) -> None:
    bench.file(UNIT, 300, "3", "1")
    bench.node.run(f"systemctl start {UNIT}")
    before = state_of(bench)
    plan = {**plan_of(GB), "placement": []}
    told = restart(plan, "--check").finish()
    assert told.status == 0, told.output
    assert state_of(bench) == before
    done = restart(plan).finish()
    assert done.status == 0, done.output
    order = re.findall(r"RUNNING HANDLER \[(.*?)\]", done.output)
    assert order == [
        "Restart SGLang",
        "Forget failed starts",
        "Leave the routers and let requests end",
        "Stop the instance",
        "Wait until the memory is given back",
        "Start the instance",
    ]
    after = state_of(bench)
    assert (after["ActiveState"], after["NRestarts"]) == ("active", "0")
    assert after["InvocationID"] != before["InvocationID"]


def test_a_play_that_is_killed_or_refused_after_the_stop_is_made_good_by_the_next(bench: Bench) -> None:
    bench.file(UNIT, 50)
    bench.node.run(f"systemctl start {UNIT}")
    leaked = bench.hold("gate-leak", 50, title="sglang::scheduler_TP1")
    plan = {**plan_of(GB), "placement": []}
    interrupted = restart(plan)
    interrupted.read_until(rf"held by sglang::scheduler_TP1 {leaked}")
    interrupted.kill()
    assert state_of(bench)["ActiveState"] == "inactive"
    refused = restart(plan).finish()
    assert refused.status == 2
    assert f"kill -KILL {leaked}" in "".join(refused.errors), refused.output
    assert state_of(bench)["ActiveState"] == "inactive"
    bench.node.run(f"kill -KILL {leaked}")
    recovered = restart(plan).finish()
    assert recovered.status == 0, recovered.output
    assert state_of(bench)["ActiveState"] == "active"
