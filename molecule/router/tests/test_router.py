# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import re

import pytest
from testinfra.host import Host

UNIT = "sglang-router.service"
KEYS = {"client": "sentinel-client-3c51", "admin": "sentinel-admin-9f02", "worker": "sentinel-worker-77ab"}


@pytest.fixture(name="keyed", scope="module")
def _keyed(host: Host) -> bool:
    """Whether this is the host with keys and TLS."""
    return "bookworm" in host.check_output("cat /etc/os-release")


def status(host: Host, keyed: bool, path: str, key: str = "") -> str:
    url = f"https://127.0.0.1:30000{path}" if keyed else f"http://127.0.0.1:30000{path}"
    script = (
        "import ssl, sys, urllib.request, urllib.error\n"
        f"request = urllib.request.Request('{url}', headers={{'Authorization': 'Bearer {key}'}})\n"
        "context = ssl._create_unverified_context()\n"
        "try: print(urllib.request.urlopen(request, context=context, timeout=10).status)\n"
        "except urllib.error.HTTPError as error: print(error.code)\n"
    )
    return host.check_output("python3 -c %s", script).strip()


def test_it_runs_and_is_there_after_a_boot(host: Host) -> None:
    service = host.service(UNIT)
    assert service.is_running
    assert service.is_enabled
    # It comes and goes with the router.
    assert host.service("sglang-router-members.timer").is_running


def test_it_asks_for_the_keys_that_it_was_given(host: Host, keyed: bool) -> None:
    assert status(host, keyed, "/liveness") == "200"
    if not keyed:
        assert status(host, keyed, "/workers") == "200"
        return
    assert status(host, keyed, "/workers") == "401"
    assert status(host, keyed, "/workers", "sentinel-wrong") == "401"
    # A client cannot take workers away.
    assert status(host, keyed, "/workers", KEYS["client"]) in ("401", "403")
    assert status(host, keyed, "/workers", KEYS["admin"]) == "200"


def test_members_are_brought_by_a_unit_that_has_succeeded(host: Host) -> None:
    shown = host.check_output("systemctl show -P Result sglang-router-members.service")
    assert shown == "success"
    members = json.loads(host.check_output("cat /var/lib/sglang-router/members.json"))["workers"]
    assert [one["url"] for one in members] == ["http://10.213.77.198:30000", "http://10.213.77.199:30000"]
    assert {one["held_by"] for one in members} == {None}


def test_keys_are_in_their_files_alone(host: Host, keyed: bool) -> None:
    places = (
        "for file in /proc/[0-9]*/cmdline /proc/[0-9]*/environ; do tr '\\0' '\\n' <$file 2>/dev/null; done; "
        f"systemctl show {UNIT}; systemctl cat {UNIT}; journalctl --no-pager; "
        "cat /etc/sglang-router/*.json /var/lib/sglang-router/*.json"
    )
    shown = host.check_output(places)
    assert "sglang::router" in shown
    assert [key for key in KEYS.values() if key in shown] == []
    if keyed:
        modes = host.check_output("stat -c '%U %a' /etc/sglang-router/keys /etc/sglang-router/keys/*").splitlines()
        assert modes == ["root 700", "root 400", "root 400", "root 400"]


def test_its_sandbox_is_tight(host: Host) -> None:
    told = host.check_output(f"systemd-analyze security --no-pager {UNIT}").splitlines()[-1]
    found = re.search(r": (\d+\.\d+) ", told)
    assert found is not None and float(found[1]) <= 2.0, told


def test_the_members_are_brought_anew_after_a_restart(host: Host, keyed: bool) -> None:
    brought = "systemctl show -P InvocationID sglang-router-members.service"
    before = host.check_output(brought)
    # As the timer begins it, and waited for. One that was under way before is no proof.
    members = "sglang-router-members.service"
    host.check_output(f"systemctl restart {UNIT} && systemctl stop {members} && systemctl start {members}")
    assert host.check_output(brought) != before
    assert host.check_output("systemctl show -P Result sglang-router-members.service") == "success"
    assert status(host, keyed, "/workers", KEYS["admin"] if keyed else "") == "200"
