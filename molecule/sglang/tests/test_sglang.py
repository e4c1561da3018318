# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role leaves on the host, seen from outside the role."""

from __future__ import annotations

import json
import re

from testinfra.host import Host

UNIT = "sglang-solo.service"
STATE = "/var/lib/sglang/solo"


def test_the_service_runs_at_boot_and_as_its_own_user(host: Host) -> None:
    service = host.service(UNIT)
    assert service.is_running
    assert service.is_enabled
    main = host.process.get(pid=int(host.check_output(f"systemctl show -p MainPID --value {UNIT}")))
    assert main.user == "sglang"


def test_the_service_user_cannot_log_in_nor_change_what_it_runs(host: Host) -> None:
    assert host.user("sglang").shell == "/usr/sbin/nologin"
    for path in ("/opt/sglang/solo/bin/python", "/etc/sglang/solo.yaml", f"/etc/systemd/system/{UNIT}"):
        assert host.file(path).user == "root"
        assert host.run(f"runuser -u sglang -- test -w {path}").failed


def test_the_server_listens_on_loopback_only(host: Host) -> None:
    assert host.socket("tcp://127.0.0.1:30100").is_listening
    assert not host.socket("tcp://0.0.0.0:30100").is_listening


def test_two_instances_serve_beside_each_other(host: Host) -> None:
    for port, name in ((30100, "rehearsal-llama"), (30000, "other-llama")):
        models = json.loads(host.check_output(f"curl --silent --fail http://127.0.0.1:{port}/v1/models"))
        assert [model["id"] for model in models["data"]] == [name]


def test_each_has_files_a_state_and_a_reservation_of_its_own(host: Host) -> None:
    for name, port in (("solo", 30100), ("duo", 30000)):
        assert host.service(f"sglang-{name}.service").is_running
        reserved = json.loads(host.file(f"/etc/sglang/{name}.reserved.json").content_string)
        assert reserved["ports"]["http"]["first"] == port
        ledger = json.loads(host.file(f"/var/lib/sglang/{name}/ledger.json").content_string)
        assert ledger["instance"] == name
        assert ledger["plan"]["arguments"]["port"] == port


def test_what_is_compiled_is_kept_for_the_next_start(host: Host) -> None:
    pid = host.check_output(f"systemctl show -p MainPID --value {UNIT}")
    environment = dict(
        line.split("=", 1) for line in host.file(f"/proc/{pid}/environ").content_string.split("\0") if "=" in line
    )
    folder = host.file(environment["TRITON_CACHE_DIR"].rsplit("/", 1)[0])
    assert folder.path.startswith("/var/cache/sglang/0.5.23-")
    assert (folder.user, folder.mode) == ("sglang", 0o750)


def test_the_server_answers(host: Host) -> None:
    answer = json.loads(
        host.check_output(
            "curl --silent --fail -H 'Content-Type: application/json' http://127.0.0.1:30100/generate -d %s",
            json.dumps({"text": "hello", "sampling_params": {"max_new_tokens": 1}}),
        )
    )
    assert answer["meta_info"]["completion_tokens"] == 1


def test_the_environment_reaches_the_process_unchanged(host: Host) -> None:
    pid = host.check_output(f"systemctl show -p MainPID --value {UNIT}")
    environment = host.file(f"/proc/{pid}/environ").content_string.split("\0")
    assert 'GREETING=100 % of "$HOME"' in environment


def test_the_environment_is_for_root_and_the_service_only(host: Host) -> None:
    file = host.file("/etc/sglang/solo.env")
    assert (file.user, file.mode) == ("root", 0o600)
    assert "GREETING" not in host.check_output(f"systemctl show {UNIT}")


def test_the_ledger_records_the_invocation_that_runs(host: Host) -> None:
    ledger = json.loads(host.file(f"{STATE}/ledger.json").content_string)
    assert ledger["invocation_id"] == host.check_output(f"systemctl show -p InvocationID --value {UNIT}")
    assert ledger["plan"]["host"]["enabled"] is False


def test_the_unit_is_confined(host: Host) -> None:
    verdict = host.check_output(f"systemd-analyze security --no-pager {UNIT} | tail -n 1")
    exposure = re.search(r"exposure level.*: ([\d.]+) ", verdict)
    assert exposure, verdict
    # Measured: 2.0 (systemd 252). What is left are its network, its devices and the files of its model.
    assert float(exposure[1]) <= 2.5, verdict
