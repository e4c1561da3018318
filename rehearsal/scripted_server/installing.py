# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Puts scenarios on a node as systemd units. Runs on the controller; C(run) is how a command gets to the node.

C(run(command, stdin)) returns what the command printed and raises where it failed.
"""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import scenario_from

Run = Callable[[str, bytes], str]

PROGRAM_FOLDER = "/usr/local/lib/scripted-sglang"
SCENARIO_FOLDER = "/etc/scripted-sglang"
PACKAGE = "ansible_collections.gpufleet.sglang.rehearsal.scripted_server"
# As roles/sglang/templates/sglang.service.j2 has it, but for folders and capabilities that a script does not need.
UNIT = """[Unit]
Description=Scripted SGLang {release}, instance {name}
StartLimitIntervalSec=3600
StartLimitBurst=5

[Service]
Type=exec
User=sglang
Environment=PYTHONPATH={program}
Environment=PYTHONDONTWRITEBYTECODE=1
ExecStart=/usr/bin/python3 -m {package}.play {folder}/{name}.json
Restart=on-failure
RestartSec=30
KillMode=mixed
SuccessExitStatus={success}
TimeoutStartSec=600
TimeoutStopSec=60
LimitMEMLOCK=infinity
LimitNOFILE=65536
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
ProtectControlGroups=yes
ProtectKernelModules=yes
RestrictSUIDSGID=yes
UMask=0077
{settings}"""


def unit_name(name: str) -> str:
    return f"sglang-{name}.service"


def load(path: Path) -> dict[str, Any]:
    """A scenario file, YAML or JSON, checked."""
    given: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    scenario_from(given)
    return given


def _archive(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()


def copy_program(run: Run) -> None:
    """The program itself, and the account under which it runs."""
    sources = Path(__file__).parent.glob("*.py")
    folder = PACKAGE.replace(".", "/")
    files = {f"{folder}/{source.name}": source.read_bytes() for source in sources}
    run(
        f"mkdir -p {PROGRAM_FOLDER} {SCENARIO_FOLDER} && tar --extract --directory {PROGRAM_FOLDER}"
        f" && python3 -m compileall -q {PROGRAM_FOLDER}"
        " && (id sglang >/dev/null 2>&1 || useradd --system --shell /usr/sbin/nologin sglang)",
        _archive(files),
    )


def unit_text(name: str, scenario: Mapping[str, Any], settings: Mapping[str, str]) -> str:
    checked = scenario_from(scenario)
    return UNIT.format(
        release=checked.release,
        name=name,
        program=PROGRAM_FOLDER,
        package=PACKAGE,
        folder=SCENARIO_FOLDER,
        # Up to 0.5.18 a clean stop ends with the process killing itself.
        success="SIGKILL" if checked.version < (0, 5, 19) else "",
        settings="".join(f"{key}={value}\n" for key, value in settings.items()),
    )


def install(run: Run, scenarios: Mapping[str, Mapping[str, Any]], settings: Mapping[str, str] | None = None) -> None:
    """Writes units and scenarios; C(settings) are further lines of [Service] of each."""
    files: dict[str, bytes] = {}
    for name, scenario in scenarios.items():
        files[f"{SCENARIO_FOLDER[1:]}/{name}.json"] = json.dumps(scenario).encode()
        files[f"etc/systemd/system/{unit_name(name)}"] = unit_text(name, scenario, settings or {}).encode()
    run("tar --extract --directory / && systemctl daemon-reload", _archive(files))


def _units(names: Iterable[str]) -> str:
    return " ".join(shlex.quote(unit_name(name)) for name in names)


def start(run: Run, names: Iterable[str]) -> None:
    """Queues the starts and does not wait for them."""
    run(f"systemctl start --no-block {_units(names)}", b"")


def stop(run: Run, names: Iterable[str]) -> None:
    """At once, whatever they are doing; what was never installed is no error."""
    units = _units(names)
    run(f"for act in 'kill --signal=KILL' stop reset-failed; do systemctl $act {units} 2>/dev/null || :; done", b"")


def remove(run: Run, names: Iterable[str]) -> None:
    names = list(names)
    stop(run, names)
    files = [f"{SCENARIO_FOLDER}/{name}.json /etc/systemd/system/{unit_name(name)}" for name in names]
    run(f"rm -f {' '.join(files)} && systemctl daemon-reload", b"")
