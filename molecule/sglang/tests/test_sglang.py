# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role leaves on the hosts, seen from outside the role."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from testinfra.host import Host

SOLO, DUO = "solo", "duo"
PORTS = {SOLO: 30100, DUO: 30000}
NAMES = {SOLO: "rehearsal-llama", DUO: "other-llama"}
# Of molecule/sglang/inventory.
KEY = "sentinel-5f2c9a71d04be8"
# Eight times the device's 4,096 tokens and a page of 16 more; 4 layers, K and V of one head of 128 numbers of 2 bytes.
HOST_TOKENS = 8 * 4096 + 16
HOST_BYTES = HOST_TOKENS * 4 * 2 * 128 * 2
ASKED = {
    "instances": [SOLO, DUO],
    "answers": [
        {"port": PORTS[SOLO], "path": "/v1/models", "key": True},
        {"port": PORTS[DUO], "path": "/v1/models", "key": None},
        {"port": PORTS[SOLO], "path": "/v1/models", "key": None},
        {"port": PORTS[SOLO], "path": "/v1/models", "key": "<hidden>"},
        {"port": PORTS[SOLO], "path": "/server_info", "key": True},
        {"port": PORTS[SOLO], "path": "/metrics", "key": None},
    ],
    # In halves, or it would be found among the arguments of what looks for it.
    "key": [KEY[:12], KEY[12:]],
    "sought_in": [
        "/etc",
        "/run/systemd/system",
        "/var/lib/sglang",
        "/var/cache/sglang",
        "/opt/sglang",
        "/tmp",
        "/root",
    ],
}

each = pytest.mark.parametrize("name", [SOLO, DUO])


@pytest.fixture(scope="module")
def seen(host: Host) -> dict[str, Any]:
    program = (Path(__file__).parent / "look.py").read_text(encoding="utf-8")
    words = shlex.join(["python3", "-c", program, json.dumps(ASKED)])
    found: dict[str, Any] = json.loads(host.check_output(words))
    return found


@each
def test_the_service_runs_at_boot_and_as_its_own_user(seen: dict[str, Any], name: str) -> None:
    unit = seen["instances"][name]["unit"]
    assert (unit["ActiveState"], unit["UnitFileState"], unit["NRestarts"]) == ("active", "enabled", "0")
    assert seen["instances"][name]["user"] == "sglang"


def test_the_service_user_cannot_log_in_nor_change_what_it_runs(host: Host) -> None:
    assert host.user("sglang").shell == "/usr/sbin/nologin"
    paths = "/opt/sglang/solo/bin/python /etc/sglang/solo.yaml /etc/systemd/system/sglang-solo.service"
    assert host.run(f"runuser -u sglang -- sh -c 'for path in {paths}; do test ! -w $path || exit 1; done'").succeeded


def test_both_names_lead_to_one_release_that_was_imported(host: Host, seen: dict[str, Any]) -> None:
    links = {host.file(f"/opt/sglang/{name}").linked_to for name in (SOLO, DUO)}
    (release,) = links
    assert release.startswith("/opt/sglang/releases/0.5.23-")
    record = json.loads(host.file(f"{release}/installed.json").content_string)
    assert record["checks"]["cpu"]["imported"]["sglang"] == "0.5.23"
    for name in (SOLO, DUO):
        assert f"ExecStart={release}/bin/python " in seen["instances"][name]["systemd"]


@each
def test_it_serves_its_name_on_loopback_only(seen: dict[str, Any], name: str) -> None:
    answer = seen["answers"][(SOLO, DUO).index(name)]
    assert [model["id"] for model in json.loads(answer["body"])["data"]] == [NAMES[name]]
    assert re.findall(rf"(\S+):{PORTS[name]}\s", seen["listening"]) == ["127.0.0.1"]


@each
def test_its_files_are_its_own_and_closed(seen: dict[str, Any], name: str) -> None:
    modes = {
        f"/etc/sglang/{name}.yaml": ["root", "sglang", "640"],
        f"/etc/sglang/{name}.env": ["root", "root", "600"],
        f"/etc/sglang/{name}.reserved.json": ["root", "root", "644"],
        f"/etc/systemd/system/sglang-{name}.service": ["root", "root", "644"],
        f"/var/lib/sglang/{name}": ["sglang", "sglang", "750"],
        f"/var/lib/sglang/{name}/ledger.json": ["root", "sglang", "640"],
    }
    assert {path: seen["files"].get(path) for path in modes} == modes


@each
def test_the_ledger_records_the_invocation_that_runs_and_its_proof(seen: dict[str, Any], name: str) -> None:
    found = seen["instances"][name]
    ledger = found["ledger"]
    assert ledger["instance"] == name
    assert ledger["plan"]["arguments"]["port"] == PORTS[name]
    assert ledger["invocation_id"] == found["unit"]["InvocationID"]
    assert ledger["generation"] == found["environment"]["GPUFLEET_GENERATION"]
    checks = {check["name"]: check["ok"] for check in ledger["proof"]["checks"]}
    assert checks["generate"]
    assert not [check for check, passed in checks.items() if passed is False]
    assert checks.get("asks_for_key") is (True if name == SOLO else None)


def test_what_was_planned_is_pinned_and_proven_by_the_canary(seen: dict[str, Any]) -> None:
    found = seen["instances"][DUO]
    ledger = found["ledger"]
    assert (ledger["plan"]["host"]["tokens"], ledger["plan"]["host"]["bytes_per_rank"]) == (HOST_TOKENS, HOST_BYTES)
    assert ledger["startup"]["pinned_bytes"] == 2 * HOST_BYTES
    assert sorted(found["ranks"]) == ["sglang::scheduler_TP0", "sglang::scheduler_TP1"]
    for shared in found["ranks"].values():
        assert HOST_BYTES <= int(shared.split()[0]) * 1024 < HOST_BYTES + (1 << 20)
    canary = ledger["proof"]["canary"]
    # All but the last token, which is always computed.
    # Prompts are drawn by chance: one that lies on the device may begin as this one does, by a token or two.
    assert canary["hit"]["device"] + canary["hit"]["host"] == 511, canary
    assert canary["hit"]["device"] <= 2, canary
    assert canary["same_text_as_cold"] is True, canary


def test_a_server_without_the_tier_pins_nothing(seen: dict[str, Any]) -> None:
    assert seen["instances"][SOLO]["ledger"]["plan"]["host"]["enabled"] is False
    assert seen["instances"][SOLO]["ranks"] == {"sglang::scheduler": "0 kB"}


@each
def test_limits_are_those_of_the_unit(seen: dict[str, Any], name: str) -> None:
    found = seen["instances"][name]
    assert (found["unit"]["LimitMEMLOCK"], found["unit"]["LimitNOFILE"]) == ("infinity", "65536")
    # A container may have less than that to give.
    assert found["limits"]["Max open files"] == min(65536, seen["most"]["Max open files"])


def test_the_key_opens_what_is_closed_without_it(seen: dict[str, Any]) -> None:
    assert [answer["status"] for answer in seen["answers"]] == [200, 200, 401, 401, 200, 200]


def test_the_key_is_in_its_file_and_nowhere_else(host: Host, seen: dict[str, Any]) -> None:
    path = "/etc/sglang/keys/solo/api_key"
    assert (seen["files"][path], host.file(path).content_string) == (["root", "root", "400"], KEY)
    said = {
        "arguments and environment": json.dumps(seen["processes"]),
        "systemd": seen["instances"][SOLO]["systemd"],
        "journal": seen["instances"][SOLO]["journal"],
        "server": seen["answers"][4]["body"],
    }
    # It would be there: the word in the key's place is seen where the key itself would stand.
    assert "launch_with_keys.py" in said["arguments and environment"]
    assert "LoadCredential=api_key" in said["systemd"]
    assert "'api_key': '<hidden>'" in said["journal"]
    assert json.loads(said["server"])["api_key"] == "<hidden>"
    assert [place for place, text in said.items() if KEY in text] == []
    assert seen["holding"].split() == [path]


@each
def test_the_environment_reaches_the_process_unchanged_and_is_shown_to_nobody(seen: dict[str, Any], name: str) -> None:
    assert seen["instances"][name]["environment"]["GREETING"] == '100 % of "$HOME"'
    assert "GREETING" not in seen["instances"][name]["systemd"]


@each
def test_what_is_compiled_is_kept_for_the_next_start(seen: dict[str, Any], name: str) -> None:
    folder = seen["instances"][name]["environment"]["TRITON_CACHE_DIR"].rpartition("/")[0]
    assert folder.startswith("/var/cache/sglang/0.5.23-")
    assert seen["files"][folder] == ["sglang", "sglang", "750"]


@each
def test_the_unit_is_confined(seen: dict[str, Any], name: str) -> None:
    exposure = re.search(r"exposure level.*: ([\d.]+) ", seen["instances"][name]["exposure"])
    assert exposure, seen["instances"][name]["exposure"]
    # Measured: 2.0 (systemd 252 and 257). What is left are its network, its devices and the files of its model.
    assert float(exposure[1]) <= 2.5
