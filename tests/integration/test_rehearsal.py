# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The main job on the rehearsal's node, told as one story: each test starts from where the one before ended."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass

import pytest
import yaml

from ansible_collections.gpufleet.sglang.tests.integration.plays import (
    ROOT,
    STATE,
    UNIT,
    Node,
    Outcome,
    Play,
    boot,
    play,
)
from ansible_collections.gpufleet.sglang.tests.integration.server_families import MAPPINGS

OTHER_RATIO = "sglang_hicache_ratio=40"
PINNING = r"pinning .* of "
PAGE_BYTES = 4096
# SGLang prints hundredths of a GB.
PRINTED_BYTES = 5_000_001


@pytest.fixture(scope="module")
def told_beforehand() -> Outcome:
    """Check mode on a bare host: whatever an earlier run left is removed first."""
    boot(anew=True)
    return play("--check", "--diff", "--limit", "node")


@pytest.fixture(scope="module")
def first_run(told_beforehand: Outcome, node: Node) -> Outcome:
    assert node.run("ls -d /opt/sglang /etc/sglang /var/lib/sglang 2>/dev/null", check=False) == ""
    return play()


def test_check_mode_on_a_bare_host_tells_and_does_nothing(told_beforehand: Outcome, node: Node) -> None:
    assert told_beforehand.status == 0, told_beforehand.output
    assert "the unit does not exist yet" in told_beforehand.output
    assert re.search(r"host memory pinned: [\d.]+ GB", told_beforehand.output), told_beforehand.output


def test_a_bare_host_becomes_a_served_node(first_run: Outcome, node: Node) -> None:
    assert first_run.status == 0, first_run.output
    assert "DEPRECATION" not in first_run.output
    state = node.show("ActiveState", "NRestarts")
    assert state == {"ActiveState": "active", "NRestarts": "0"}


def test_the_pinning_is_shown_while_it_goes_on(first_run: Outcome) -> None:
    lines = re.findall(r"pinning ([\d.]+) of ([\d.]+) GB .*TP0.*TP1.*GB/s.*ETA", first_run.output)
    shown = [float(pinned) for pinned, _planned in lines]
    # How often it is looked at is a matter of the machine's load; before the end it is seen once at least.
    assert [pinned for pinned in shown if 0 < pinned < float(lines[0][1])], first_run.output
    assert shown == sorted(shown)
    assert len({planned for _pinned, planned in lines}) == 1


def test_the_ledger_holds_plan_and_proof(first_run: Outcome, node: Node) -> None:
    ledger = json.loads(node.run("cat /var/lib/sglang/main/ledger.json"))
    assert ledger["invocation_id"] == node.invocation()
    assert ledger["startup"]["pinned_bytes"] >= ledger["plan"]["host"]["bytes_total"]
    assert ledger["startup"]["max_total_num_tokens"] == ledger["plan"]["device"]["max_total_num_tokens"]
    canary = ledger["proof"]["canary"]
    assert canary["cold"]["cached_tokens"] == 0
    assert canary["hit"]["host"] > 0
    assert canary["same_text"] is True
    assert all(check["ok"] for check in ledger["proof"]["checks"])


def journal_of(node: Node, invocation: str) -> list[tuple[float, str]]:
    """What a start said: UNIX seconds and text of each line."""
    fields = "--output=json --output-fields=MESSAGE --no-pager"
    rows = map(json.loads, node.run(f"journalctl _SYSTEMD_INVOCATION_ID={invocation} {fields}").splitlines())
    # A line that is too long comes as null, one that is no text as its bytes.
    return [(int(row["__REALTIME_TIMESTAMP"]) / 1e6, row["MESSAGE"]) for row in rows if isinstance(row["MESSAGE"], str)]


def test_every_rank_holds_what_was_planned_announced_and_metered(first_run: Outcome, node: Node) -> None:
    ledger = json.loads(node.run("cat /var/lib/sglang/main/ledger.json"))
    host, ranks = ledger["plan"]["host"], ledger["startup"]["ranks"]
    assert [rank["rank"] for rank in ranks] == [f"TP{number}" for number in range(host["ranks"])]
    said = r"TP(\d+)\] Allocating kv hierarchical KV host pool: (\d+) tokens, ([\d.]+) GB host memory"
    announced = [
        match.groups() for _at, text in journal_of(node, node.invocation()) if (match := re.search(said, text))
    ]
    assert sorted((int(rank), int(tokens)) for rank, tokens, _size in announced) == [
        (number, host["tokens"]) for number in range(host["ranks"])
    ]
    assert all(abs(float(size) * 1e9 - host["bytes_per_rank"]) < PRINTED_BYTES for _rank, _tokens, size in announced)
    pids = [str(rank["pid"]) for rank in ranks]
    memory = json.loads(node.run(shlex.join(["python3", "-c", MAPPINGS, *pids])))
    for rank in ranks:
        pinned = [row["Locked"] for row in memory[str(rank["pid"])]["mappings"] if row["Locked"]]
        # The mapping ends with the page that its last byte is on.
        assert host["bytes_per_rank"] <= sum(pinned) < host["bytes_per_rank"] + len(pinned) * PAGE_BYTES
        # The meter reads all shared memory of a rank; what is not the pool are small files of the ranks' own.
        assert 0 <= rank["pinned_bytes"] - sum(pinned) < (1 << 20)


def test_the_timeline_is_that_of_the_journal(first_run: Outcome, node: Node) -> None:
    ledger = json.loads(node.run("cat /var/lib/sglang/main/ledger.json"))
    stages = {row["stage"]: row for row in ledger["startup"]["stages"]}
    lines = journal_of(node, node.invocation())

    def first(words: str) -> float:
        return min(at for at, text in lines if words in text)

    def last(words: str) -> float:
        return max(at for at, text in lines if words in text)

    expected = {
        "load": (first("] Load weight begin"), last("] Load weight end")),
        "host_pool": (first("] Allocating kv hierarchical"), last("] Tree cache initialized")),
        "warm_up": (first("] Engine startup timings"), last("The server is fired up")),
    }
    for stage, (began, ended) in expected.items():
        assert stages[stage]["started_at"] == pytest.approx(began, abs=1.0), stage
        assert stages[stage]["seconds"] == pytest.approx(ended - began, abs=1.0), stage
    # From the start of the process on, and without a hole: all of it together is the whole start.
    whole = last("The server is fired up") - stages["boot"]["started_at"]
    assert ledger["startup"]["figures"]["start_seconds"] == pytest.approx(whole, abs=1.0)


def test_the_network_was_closed(first_run: Outcome, node: Node) -> None:
    assert "default" not in node.run("ip route")


def test_the_founding_box_is_planned_from_its_profile(first_run: Outcome) -> None:
    assert "70,272 bytes" in first_run.output
    assert "159,277" in first_run.output


def test_a_second_run_changes_nothing(first_run: Outcome, node: Node) -> None:
    before = node.fingerprint()
    again = play()
    assert again.status == 0, again.output
    assert again.changed == 0, again.output
    assert node.fingerprint() == before


def test_check_mode_tells_what_a_change_means_and_does_nothing(first_run: Outcome, node: Node) -> None:
    before = node.fingerprint()
    told = play("--check", "--diff", "-e", OTHER_RATIO, "--limit", "node")
    assert told.status == 0, told.output
    assert re.search(r"tokens.*->", told.output), told.output
    assert re.search(r"NUMA node 0.*GB.*->.*GB", told.output), told.output
    assert re.search(r"seconds|\d s\b", told.output), told.output
    assert node.fingerprint() == before


def test_a_changed_ratio_restarts_once_even_after_a_play_that_died_early(first_run: Outcome, node: Node) -> None:
    before = node.show("InvocationID", "MainPID")
    # The files are written, systemd has not reloaded and nothing has restarted.
    interrupted = Play("-e", OTHER_RATIO, "--limit", "node")
    interrupted.read_until(r"TASK .*Start the instance at boot")
    interrupted.kill()
    assert node.show("InvocationID", "MainPID") == before
    changed = play("-e", OTHER_RATIO, "--limit", "node")
    assert changed.status == 0, changed.output
    after = node.show("InvocationID", "MainPID", "NRestarts", "NeedDaemonReload")
    assert after["InvocationID"] != before["InvocationID"]
    assert (after["NRestarts"], after["NeedDaemonReload"]) == ("0", "no")
    again = play("-e", OTHER_RATIO, "--limit", "node")
    assert again.changed == 0, again.output
    assert node.show("InvocationID", "MainPID", "NRestarts", "NeedDaemonReload") == after


def test_a_play_killed_in_mid_wait_is_finished_by_the_next(first_run: Outcome, node: Node) -> None:
    started = Play("--limit", "node")
    started.read_until(PINNING)
    started.kill()
    invocation = node.invocation()
    finished = play("--limit", "node")
    assert finished.status == 0, finished.output
    assert node.invocation() == invocation
    ledger = json.loads(node.run("cat /var/lib/sglang/main/ledger.json"))
    assert ledger["invocation_id"] == invocation
    # One part of the site is the whole of that part.
    again = play("--limit", "node", "--tags", "server")
    assert (again.status, again.changed) == (0, 0), again.output
    assert again.recap["node"]["ok"] > 10, again.output


def test_a_pool_beyond_the_guard_is_refused_before_the_start(first_run: Outcome, node: Node) -> None:
    before = node.fingerprint()
    refused = play("-e", "sglang_hicache_ratio=100000", "--limit", "node")
    assert refused.status == 2
    assert len(refused.errors) == 1, refused.output
    largest = re.search(r"hicache\.ratio to ([\d.]+) or less", refused.output)
    assert largest, refused.output
    assert node.fingerprint() == before
    # The value that the refusal names is accepted, and what lies above is not. tests/campaign holds it to the last
    # byte; here others take and give memory of the same machine meanwhile.
    fits = float(largest[1])
    assert play("--check", "-e", f"sglang_hicache_ratio={fits * 0.7:.1f}", "--limit", "node").status == 0
    assert play("--check", "-e", f"sglang_hicache_ratio={fits * 1.4:.1f}", "--limit", "node").status == 2


def test_a_pool_forced_past_the_plan_is_refused_by_the_server_and_diagnosed(first_run: Outcome, node: Node) -> None:
    failed = play("-e", "sglang_hicache_ratio=100000", "-e", "sglang_allow_oversubscription=true", "--limit", "node")
    assert failed.status == 2
    assert "Not enough host memory" in failed.output
    assert re.search(r"hicache\.ratio to ([\d.]+) or less", failed.output), failed.output


def test_a_rank_killed_while_pinning_fails_the_play_at_once(first_run: Outcome, node: Node) -> None:
    running = Play("--limit", "node")
    running.read_until(PINNING)
    node.run("pkill -KILL -f scheduler_TP1")
    failed = running.finish()
    assert failed.status == 2
    assert "TP1" in "".join(failed.errors), failed.output
    assert re.search(r"SIGKILL|signal 9|killed", "".join(failed.errors)), failed.output
    assert "Last lines" in failed.output


def test_the_next_run_recovers(first_run: Outcome, node: Node) -> None:
    recovered = play()
    assert recovered.status == 0, recovered.output
    assert node.show("ActiveState") == {"ActiveState": "active"}
    assert play().changed == 0


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "an unknown variable": ({"sglang_hicache_rato": 4}, "sglang_hicache_ratio"),
    "a ratio of zero": ({"sglang_hicache_ratio": 0}, "ratio"),
    "ratio and size": ({"sglang_hicache_size_gb": 1}, "exactly one|both"),
    "missing model files": ({"sglang_model_path": "/srv/models/none"}, "/srv/models/none"),
    "a port that is taken": ({"sglang_port": 22}, "sshd"),
    "an unknown version": ({"sglang_version": "9.9.9"}, "9.9.9"),
    "a port out of range": ({"sglang_port": 70000}, "70000"),
    "an instance that leaves its folder": ({"sglang_instance": "../x"}, "letters, digits"),
    "an unknown device": ({"sglang_device": "tpu"}, "tpu"),
    "a key that the journal would show": ({"sglang_extra_arguments": {"api-key": "s3cret"}}, "journal"),
    "a value that would end its line": ({"sglang_environment": {"A": "b\nC=d"}}, "control character"),
    "a model that the sandbox hides": ({"sglang_model_path": "/home/ops/model"}, "/srv or /opt"),
    "text for a number": ({"sglang_port": "http"}, "http"),
}


@dataclass(frozen=True)
class Refusals:
    """One play over the node by as many names as there are wrong inputs, and the node before and after."""

    outcome: Outcome
    before: dict[str, str]
    after: dict[str, str]

    def errors(self, host: str) -> list[str]:
        """What was said of a host; Ansible tells an error before it tells whose it is."""
        blocks = re.findall(
            r"^\[ERROR\]: (.*?)^(?:fatal|failed): \[(\S+?)\]", self.outcome.output, re.MULTILINE | re.DOTALL
        )
        return [re.split(r"^Origin: ", text, flags=re.MULTILINE)[0] for text, of in blocks if of == host]


def host_of(case: str) -> str:
    return re.sub(r"\W+", "-", case)


@pytest.fixture(scope="module", name="refusals")
def fixture_refusals(first_run: Outcome, node: Node, tmp_path_factory: pytest.TempPathFactory) -> Refusals:
    rehearsal = ROOT / "inventories" / "rehearsal"
    right = {
        **yaml.safe_load((rehearsal / "host_vars" / "node.yml").read_text(encoding="utf-8")),
        # Both are told by the folder of the inventory, and that of these hosts is another.
        "rehearsal_state": str(STATE),
        "sglang_requirements_file": str(ROOT / "rehearsal" / "wheelhouse" / "constraints.txt"),
    }
    hosts = {host_of(case): {**right, **values} for case, (values, _expected) in WRONG.items()}
    inventory = tmp_path_factory.mktemp("wrong") / "hosts.json"
    inventory.write_text(json.dumps({"sglang": {"hosts": hosts}}), encoding="utf-8")
    before = node.fingerprint()
    refused = play("-i", str(inventory), "--limit", ",".join(hosts))
    return Refusals(refused, before, node.fingerprint())


@pytest.mark.parametrize("case", WRONG, ids=str)
def test_wrong_input_gets_one_clear_error(refusals: Refusals, case: str) -> None:
    host, expected = host_of(case), WRONG[case][1]
    assert refusals.outcome.recap[host]["failed"] == 1, refusals.outcome.output
    assert refusals.outcome.recap[host]["changed"] == 0, refusals.outcome.output
    assert re.search(expected, "".join(refusals.errors(host))), refusals.outcome.output


def test_wrong_input_changes_nothing_and_shows_no_traceback(refusals: Refusals) -> None:
    assert refusals.outcome.status == 2
    assert "Traceback" not in refusals.outcome.output
    assert refusals.after == refusals.before


def test_nine_gpus_asked_of_eight(first_run: Outcome) -> None:
    refused = play("--limit", "founding", "-e", "sglang_tensor_parallel_size=9")
    assert refused.status == 2
    assert re.search(r"\b9\b.*\b8\b", "".join(refused.errors), re.DOTALL), refused.output


def test_a_driver_that_cannot_serve_is_refused_with_its_remedy(first_run: Outcome, node: Node) -> None:
    before = node.fingerprint()
    machine = "/usr/local/share/rehearsal/machine"
    node.run(
        f"cp -r {machine} /tmp/mismatched && printf '[faults]\\nInit = LIB_RM_VERSION_MISMATCH\\n'"
        " >> /tmp/mismatched/machine.nvml"
    )
    values = {
        "sglang_device": "cuda",
        "sglang_tensor_parallel_size": "1",
        "sglang_mem_fraction_static": "0.8",
        "sglang_probe_root": "/tmp/mismatched",
        "sglang_probe_nvml_library": "/tmp/mismatched/lib/libnvidia-ml.so.1",
    }
    # The machine is a tree of files: what installs drivers would not see its GPUs.
    refused = play(
        "--limit",
        "node",
        "--skip-tags",
        "driver,cuda",
        *(word for key, value in values.items() for word in ("-e", f"{key}={value}")),
    )
    assert refused.status == 2, refused.output
    assert re.search("version mismatch.*Reboot the host", "".join(refused.errors), re.DOTALL), refused.output
    assert node.fingerprint() == before


def test_the_unit_is_unprivileged_and_bounded(first_run: Outcome, node: Node) -> None:
    state = node.show("User", "LimitMEMLOCK", "NoNewPrivileges", "ProtectSystem")
    assert state == {"User": "sglang", "LimitMEMLOCK": "infinity", "NoNewPrivileges": "yes", "ProtectSystem": "strict"}
    assert UNIT in node.run("systemctl list-unit-files --state=enabled --no-legend 'sglang-*'")
