# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the whole chain leaves on the node."""

from __future__ import annotations

import json
import re

from testinfra.host import Host

UNIT = "sglang-main.service"


def ledger(host: Host) -> dict:
    return json.loads(host.file("/var/lib/sglang/main/ledger.json").content_string)


def test_the_proven_invocation_is_the_one_that_runs(host: Host) -> None:
    assert host.service(UNIT).is_running
    assert ledger(host)["invocation_id"] == host.check_output(f"systemctl show -p InvocationID --value {UNIT}")


def test_each_rank_holds_its_planned_pool(host: Host) -> None:
    planned = ledger(host)["plan"]["host"]["bytes_per_rank"]
    ranks = [process for process in host.process.filter() if "sglang::scheduler" in process.args]
    assert len(ranks) == 2
    for rank in ranks:
        status = host.file(f"/proc/{rank.pid}/status").content_string
        held = int(re.search(r"RssShmem:\s+(\d+) kB", status)[1]) * 1024
        assert planned <= held < planned * 1.05


def test_the_host_tier_is_as_large_as_planned(host: Host) -> None:
    metrics = host.check_output("curl --silent --fail http://127.0.0.1:30000/metrics")
    gauges = re.findall(r"^sglang:hicache_host_total_tokens\{.*\} (\S+)$", metrics, re.MULTILINE)
    assert {float(gauge) for gauge in gauges} == {float(ledger(host)["plan"]["host"]["tokens"])}


def test_the_node_has_no_way_out(host: Host) -> None:
    assert "default" not in host.check_output("ip route")
