# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a node that was interrupted, and run again, is as one that never was."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ansible_collections.gpufleet.sglang.tests.campaign.interruptions import chain
from ansible_collections.gpufleet.sglang.tests.integration.plays import Outcome

RELEASE = "580.95.05"
URL = "http://127.0.0.1:30000/v1/models"


def answers(key: str | None) -> str:
    """The status that the server gives; the key is read from standard input."""
    config = f'header = "Authorization: Bearer {key}"\n' if key else ""
    return chain.ssh(f"curl -s -o /dev/null -w '%{{http_code}}' -K - {URL}", config).stdout.strip()


def unserved(node: dict[str, Any], key: str, parts: Collection[str]) -> list[str]:
    """What is missing for a node that serves, and is proven to."""
    ledger = node["ledger"]
    driver = (RELEASE, "proven") if "driver" in parts else (None, None)
    wanted = {
        "the unit": (node["active"], "active"),
        "restarts by systemd": (node["restarts"], "0"),
        "the invocation that the ledger proves": (ledger.get("invocation_id"), node["invocation"]),
        "checks that failed": ([one for one in ledger.get("proof", {}).get("checks", [{}]) if not one.get("ok")], []),
        "the server's answer to the key": (answers(key), "200"),
        "the server's answer without it": (answers(None), "401"),
        "the driver": (node["driver"], driver[0]),
        "the driver's record": (node["states"].get("nvidia_driver.json"), driver[1]),
    }
    return [f"{what}: {found!r}, expected {want!r}" for what, (found, want) in wanted.items() if found != want]


def differs(node: dict[str, Any], reference: dict[str, str]) -> list[str]:
    """Paths that are there, missing or other than after a run that was not interrupted."""
    there = node["contents"]
    return [
        f"{path}: {'left over' if path not in reference else 'missing' if path not in there else 'differs'}"
        for path in sorted(there.keys() | reference.keys())
        if there.get(path) != reference.get(path)
    ]


def judge(
    rerun: Outcome, third: Outcome, before: dict[str, Any], after: dict[str, Any], key: str, parts: Collection[str]
) -> list[str]:
    """What is wrong after the plain re-run, and after a run more that has nothing to do; empty where all is well."""
    if rerun.status:
        return [f"the re-run ended with {rerun.status}: {' '.join(rerun.errors) or rerun.output[-2000:]}"]
    found = unserved(before, key, parts)
    found += [f"half-written: {one}" for one in before["half_written"]]
    found += [f"the key is in {place}" for place in {*before["key"], *after["key"]}]
    if third.status or third.changed:
        found.append(f"a third run ended with {third.status} and changed={third.changed}: {' '.join(third.errors)}")
    kept = ("invocation", "boot_id", "contents")
    found += [f"a third run moved {name}" for name in kept if before[name] != after[name]]
    return found
