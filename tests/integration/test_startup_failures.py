# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every failure of the catalogue, played by a scripted server under a real systemd and found by a real play.

What is played and what has to be found stands in rehearsal/scripted_server/failures. Most are played several at a time,
which measures how fast the controller is; a few are played alone, which measures the watch. The times are printed
(pytest -s, or the captured output in the JUnit file) and not judged.
"""

from __future__ import annotations

import json
import os
import shlex
import statistics
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.start.diagnosis.catalogue.catalogue import (
    CATALOGUE,
    FAILURES,
)
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server import installing
from ansible_collections.gpufleet.sglang.tests.integration.plays import ROOT
from ansible_collections.gpufleet.sglang.tests.integration.scripted import (
    Ended,
    ScriptedNode,
    ScriptedPlay,
    Start,
    bring_up,
    remove,
    take_down,
)

NODE, ADDRESS = "gpufleet-failures", "10.213.77.201"
PLAYBOOK = Path(__file__).resolve().parent / "scripted_failures.yml"
FOLDER = ROOT / "rehearsal" / "scripted_server" / "failures"
HOLDER = Path(__file__).resolve().parent / "memory_holder.py"
HOLDER_ON_NODE = "/usr/local/lib/memory_holder.py"
# So many starts at a time: two cores have no more to give.
AT_A_TIME = 5
# Of each way in which a failure shows one, with nothing beside it. What the kernel's log is said to tell concerns every
# unit of the node, so it comes last.
ALONE = ("host-memory-guard", "scheduler-died", "scheduler-exits", "port-in-use", "server-killed", "gpu-fallen-off")
FIRST_PORT = 32000
QUICK = {"boot": 0.2, "load": 0.2, "device_pool": 0.1, "capture": 0.1, "register": 0.1, "warm_up": 0.3}
# What marks a fault that has no line of its own.
MARK = "scripted fault"
# Every fault waits for so long, so that the watch is there when it comes, as it is in minutes of pinning.
LEAD_SECONDS = 1.0
LEAD_ALONE_SECONDS = 4.0
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "/opt/sglang/lib/python3.11/site-packages/sglang/srt/managers/scheduler.py", line 1, in run\n'
)
# A unit that is started again would be another start to a watch that comes late.
SETTINGS = {"Restart": "no"}


def rows() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(FOLDER.glob("*.yml")):
        given = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert not found.keys() & given.keys()
        found.update(given)
    return found


ROWS = rows()


def merged(one: Mapping[str, Any], two: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(one)
    for key, value in two.items():
        inner = result.get(key)
        result[key] = merged(inner, value) if isinstance(inner, Mapping) and isinstance(value, Mapping) else value
    return result


def played(step: Mapping[str, Any]) -> dict[str, Any]:
    """A step of the engine; C(raises) gives the last line of a traceback."""
    if "raises" not in step:
        return dict(step)
    return {"crash": f"{TRACEBACK}{str(step['raises']).strip()}"}


def start_of(node: ScriptedNode, name: str, number: int) -> Start:
    row = ROWS[name]
    pools = [{"label": "kv", "bytes": 40_000_000, "tokens": 4097, "gb_per_second": 0.2}]
    lead = row.get("lead_seconds", LEAD_ALONE_SECONDS if name in ALONE else LEAD_SECONDS)
    faults = [
        {**fault, "do": [{"sleep": lead}, *map(played, fault["do"])]} for fault in row["scenario"].get("faults", ())
    ]
    scenario = {
        "release": "0.5.23",
        "ranks": 2,
        "port": FIRST_PORT + number,
        "host_pools": pools,
        **row["scenario"],
        "faults": faults,
        "seconds": {**QUICK, **row["scenario"].get("seconds", {})},
    }
    start = Start(node, scenario, row.get("variables", {}))
    plan = merged(start.host(name)["scripted_plan"], row.get("plan", {}))
    return Start(node, scenario, {"scripted_plan": plan, **row.get("variables", {})})


class Told(NamedTuple):
    """How one start ended, and how long after its fault the play knew; None where no line marks the fault."""

    end: Ended
    seconds: float | None


def journal(node: ScriptedNode) -> list[dict[str, Any]]:
    fields = "MESSAGE,_SYSTEMD_INVOCATION_ID,INVOCATION_ID"
    text = node.run(f"journalctl --output=json --output-fields={fields} --no-pager")
    return [json.loads(line) for line in text.splitlines()]


def fault_at(records: list[dict[str, Any]], end: Ended) -> float | None:
    """By the journal's own stamp: the mark, else the line that was told, else systemd's account of the death."""
    lines = (end.result.get("failure") or {}).get("evidence", {}).get("lines") or []
    wanted = [MARK, *(line.splitlines()[0] for line in lines), "Main process exited", "Failed at step"]
    own = [
        record
        for record in records
        if end.result.get("invocation_id") in (record.get("_SYSTEMD_INVOCATION_ID"), record.get("INVOCATION_ID"))
    ]
    for words in wanted:
        for record in own:
            if words in str(record.get("MESSAGE")):
                return int(record["__REALTIME_TIMESTAMP"]) / 1e6
    return None


def by_settings(names: Iterable[str]) -> list[tuple[dict[str, str], list[str]]]:
    """The starts whose units have the same settings, so that systemd reads its units a few times and not for each."""
    groups: list[tuple[dict[str, str], list[str]]] = []
    for name in names:
        settings = {**SETTINGS, **ROWS[name].get("settings", {})}
        same = next((group for known, group in groups if known == settings), None)
        if same is None:
            groups.append((settings, [name]))
        else:
            same.append(name)
    return groups


def selected(session: pytest.Session) -> list[str]:
    """What is asked for in this run: all, or what -k names."""
    asked = {
        item.callspec.params["name"]
        for item in session.items
        if isinstance(item, pytest.Function) and item.function is test_failure_is_found and hasattr(item, "callspec")
    }
    return [name for name in ROWS if name in asked] or list(ROWS)


# A reader of the journal on the node that takes the lines of one identifier for the kernel's.
KERNEL = "scripted-kernel"
JOURNALCTL = f"""#!/bin/sh
for argument; do
  shift
  case $argument in
    _TRANSPORT=kernel) set -- "$@" "$argument" + "SYSLOG_IDENTIFIER={KERNEL}" ;;
    *) set -- "$@" "$argument" ;;
  esac
done
/usr/bin/journalctl.real "$@" | sed --unbuffered '/NVRM: /s/"_TRANSPORT":"syslog"/"_TRANSPORT":"kernel"/'
"""


def prepare(node: ScriptedNode, names: Iterable[str]) -> None:
    """What has to be on the node before a start, or to happen beside it.

    C(prepare) of a row: commands that are run before its start. C(kernel): a line that the kernel is said to write once
    its fault was marked.
    """
    node.run(f"cat > {HOLDER_ON_NODE}", HOLDER.read_bytes())
    for name in names:
        row, unit = ROWS[name], installing.unit_name(name)
        if "prepare" in row:
            node.run(row["prepare"].format(unit=unit, holder=HOLDER_ON_NODE))
        if "kernel" in row:
            node.run("mv --no-clobber /usr/bin/journalctl /usr/bin/journalctl.real")
            node.run("cat > /usr/bin/journalctl && chmod 755 /usr/bin/journalctl", JOURNALCTL.encode())
            waits = f'until journalctl --unit={unit} --output=cat | grep --quiet "{MARK}"; do sleep 0.1; done'
            says = f"logger --tag {KERNEL} --priority user.err {shlex.quote(row['kernel'])}"
            node.run(f"systemd-run --quiet sh -c {shlex.quote(f'{waits}; {says}')}")


@pytest.fixture(scope="module", name="told")
def fixture_told(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Told]]:
    node = bring_up({NODE: ADDRESS}, "--enforce-memory")[NODE]
    starts = {name: start_of(node, name, number) for number, name in enumerate(selected(request.session))}
    try:
        for settings, names in by_settings(starts):
            installing.install(node.run, {name: starts[name].scenario for name in names}, settings)
        prepare(node, starts)
        ended: dict[str, Ended] = {}
        together = {name: start for name, start in starts.items() if name not in ALONE}
        alone = {name: starts[name] for name in ALONE if name in starts}
        for folder, part, at_a_time in (("together", together, AT_A_TIME), ("alone", alone, 1)):
            if part:
                run = ScriptedPlay(tmp_path_factory.mktemp(folder), part, at_a_time, PLAYBOOK)
                ended |= run.ends()
                assert part.keys() <= ended.keys(), run.output
        records = journal(node)
        found = {}
        for name, end in ended.items():
            fault = fault_at(records, end)
            found[name] = Told(end, None if fault is None else end.at - fault)
        yield found
    finally:
        remove(starts)
        take_down([NODE])


@pytest.mark.parametrize("name", ROWS)
def test_failure_is_found(name: str, told: dict[str, Told]) -> None:
    expected, result = ROWS[name]["expect"], told[name].end.result
    if expected.get("outcome") == "ready":
        assert result.get("outcome") == "ready", result.get("msg")
        return
    failure = result.get("failure") or {}
    assert (failure.get("code"), failure.get("rank")) == (expected["code"], expected["rank"]), result.get("msg")
    for key, value in expected.get("values", {}).items():
        assert failure["computed"].get(key) == value, (key, failure["computed"])
    for key, value in expected.get("facts", {}).items():
        assert failure["evidence"].get(key) == value, (key, failure["evidence"])
    if "causes" in expected:
        assert any(expected["causes"] in cause for cause in failure["causes"]), failure["causes"]
    assert expected.get("remedy", "") in failure["remedy"]
    assert failure["message"] and failure["remedy"].endswith(".")


def test_largest_pools_under_an_enforced_limit_leave_room_for_what_else_there_is(told: dict[str, Told]) -> None:
    if "oom-killer" not in told:
        pytest.fail("select oom-killer as well: its figures are judged here")
    values = told["oom-killer"].end.result["failure"]["computed"]
    plan = ROWS["oom-killer"]["plan"]
    row = plan["device"]["bytes_per_token"] * plan["device"]["max_total_num_tokens"]
    ranks = plan["host"]["ranks"]
    assert 0 < values["largest_ratio"] < plan["host"]["ratio"]
    assert values["largest_ratio"] * row * ranks <= values["room_bytes"] < values["limit_bytes"]
    assert (values["largest_ratio"] + 0.02) * row * ranks > values["room_bytes"]
    assert values["needed_limit_bytes"] > values["limit_bytes"]


def test_every_failure_that_a_line_tells_is_played() -> None:
    codes = {row["expect"].get("code") for row in ROWS.values()}
    # What is found by these lines has the code of the stage, of the holder of the memory, or is told with a stall.
    by_another_code = {"gpu_out_of_memory", "nccl_warning", "watchdog_soft", "numa_binding_weaker"}
    assert codes - {None} <= CATALOGUE.keys()
    missing = {failure.code for failure in FAILURES if failure.patterns} - codes - by_another_code
    assert not missing


def told_rightly(name: str, told: Mapping[str, Told]) -> bool:
    expected, result = ROWS[name]["expect"], told[name].end.result
    failure = result.get("failure") or {}
    ready = expected.get("outcome") == "ready" == result.get("outcome")
    return ready or ("code" in expected and (failure.get("code"), failure.get("rank")) == _cause(expected))


def _cause(expected: Mapping[str, Any]) -> tuple[str, str | None]:
    return expected["code"], expected["rank"]


def test_time_from_the_fault_to_the_failure_of_the_play(told: dict[str, Told]) -> None:
    known = {name: one.seconds for name, one in told.items() if one.seconds is not None and one.end.status == "failed"}
    # A stall is told when nothing has moved for long enough, a refused start has no fault of its own.
    slow = {name for name, row in ROWS.items() if row["expect"].get("code") in ("stalled", "start_limit")}
    seconds = {name: value for name, value in known.items() if name not in slow}
    # What the kernel says is waited for by the scenario itself.
    alone = {name: value for name, value in seconds.items() if name in ALONE and "kernel" not in ROWS[name]}
    together = {name: value for name, value in seconds.items() if name not in ALONE}
    right = sum(told_rightly(name, told) for name in told)
    print(f"\n{len(told)} failures were played, {right} told rightly (code and rank)")
    print("from the fault to the failure of the play:")
    for words, found in (("alone", alone), (f"{AT_A_TIME} at a time", together)):
        if found:
            worst = max(found, key=lambda name: found[name])
            middle = statistics.median(found.values())
            print(f"  {words}: {len(found)}, median {middle:.2f} s, worst {found[worst]:.2f} s ({worst})")
    for name in sorted(alone):
        print(f"    {name:<34}{alone[name]:>8.2f} s")
    print(f"  load of the last minute: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    # Nearly all have a line, or a mark, that says when it was.
    assert len(seconds) > 0.9 * (len(told) - len(slow & told.keys()) - 1)
    assert min(seconds.values()) > 0
