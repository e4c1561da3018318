# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts the worker of a job as a transient unit, joins one that is at it, and reads what it says."""

from __future__ import annotations

import json
import os
import secrets as randomness
import sys
import time
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.commands import answer_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.job import Job, Secrets
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import Manifest
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker import main as program
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import locked, read_text, write_whole
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.published import current_of, manifest_of

# In memory: a worker does not outlive a reboot, and neither does what is said of it.
RUNTIME = Path("/run/gpufleet-model-store")
PACKAGE = "ansible_collections.gpufleet.sglang.plugins.module_utils"
PROGRAM = "worker.pyz"
# With these the store is a mount of its own to the worker, and nothing can be linked or cloned into it from a folder.
_CONFINEMENT = ("ProtectSystem=strict", "ProtectHome=read-only", "PrivateTmp=yes")
_START_SECONDS = 30.0
_LOOK_SECONDS = 0.1
_MAX_STATE_BYTES = 16 << 20
# What the worker needs of root: to give files to the group that reads them, and to read those of a source.
_PROPERTIES = (
    "Type=exec",
    "UMask=0022",
    "Nice=10",
    "IOSchedulingClass=best-effort",
    "IOSchedulingPriority=7",
    "NoNewPrivileges=yes",
    "ProtectKernelModules=yes",
    "ProtectControlGroups=yes",
    "RestrictSUIDSGID=yes",
    "CapabilityBoundingSet=CAP_CHOWN CAP_FOWNER CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH",
    "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
    "TimeoutStopSec=10",
)


@dataclass(frozen=True)
class Seat:
    """Where a job is done: the folder of its state, and the name of its unit."""

    folder: Path
    unit: str

    @property
    def alive(self) -> bool:
        """Whether a worker is at it: its lock falls with it, however it ends."""
        if not (self.folder / program.ALIVE).exists():
            return False
        with locked(self.folder / program.ALIVE) as free:
            return not free

    def state(self) -> dict[str, Any]:
        return read_object(self.folder / program.STATE)


def seat_of(job: Job, runtime: Path = RUNTIME) -> Seat:
    return Seat(runtime / job.key, f"gpufleet-model-{job.name}-{job.key}.service")


def before_of(job: Job, seat: Seat) -> Manifest | None:
    """What the link led to when the run began."""
    before = read_object(seat.folder / program.JOB).get("before")
    return manifest_of(job.place.revision(before)) if isinstance(before, str) else None


def read_object(path: Path) -> dict[str, Any]:
    """Empty for what is not there or was never finished."""
    try:
        data = json.loads(read_text(path, _MAX_STATE_BYTES) or "{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def start(job: Job, secrets: Secrets, seat: Seat, run_command: Callable[..., Any]) -> str:
    """The id of the run that is at it now: one that was there already, or a new one."""
    make_private(seat.folder)
    with locked(seat.folder / "launch") as alone:
        if not alone or seat.alive:
            return str(_await_state(seat, None).get("run_id", ""))
        run_id = randomness.token_hex(8)
        (seat.folder / program.STATE).unlink(missing_ok=True)
        given = {"run_id": run_id, "unit": seat.unit, "before": current_of(job.place), "job": job.as_dict()}
        write_whole(seat.folder / program.JOB, json.dumps(given))
        hidden = {"token": secrets.token, "proxies": dict(secrets.proxies or {})}
        write_whole(seat.folder / program.SECRETS, json.dumps(hidden), 0o600)
        write_program(seat.folder / PROGRAM)
        local = job.source is not None and job.source.kind == "folder"
        writable = [] if local else [str(_nearest(job.place.folder)), str(seat.folder)]
        _launch(seat, "work", writable, run_command, f"Fetch the model {job.name}")
        _await_state(seat, run_id)
        return run_id


def wait(seat: Seat, seconds: float) -> dict[str, Any]:
    """The state when the worker has ended, or after so long."""
    until = time.monotonic() + seconds
    while True:
        alive = seat.alive
        state = seat.state()
        if state.get("end") or not alive or time.monotonic() >= until:
            # What ended between the two looks has written its end since.
            return {**(seat.state() if not alive else state), "alive": alive}
        time.sleep(_LOOK_SECONDS)


def launch_share(seat: Seat, root: str, run_command: Callable[..., Any]) -> None:
    write_program(seat.folder / PROGRAM)
    _launch(seat, "share", [str(seat.folder)], run_command, f"Serve the models of {root} to other nodes")


def make_private(folder: Path) -> None:
    """For root alone: what is asked for and by whom is nobody else's business."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.parent.chmod(0o700)
    folder.chmod(0o700)


def write_program(path: Path) -> None:
    """Everything of this collection that is loaded here, as one file that Python runs."""
    sources = {name: _source_of(name, module) for name, module in sys.modules.items() if name.startswith(PACKAGE + ".")}
    packages = {parent for name in sources for parent in _parents(name)}
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(packages):
            archive.writestr(f"{name.replace('.', '/')}/__init__.py", "")
        for name, source in sorted(sources.items()):
            if name not in packages and source is not None:
                archive.writestr(f"{name.replace('.', '/')}.py", source)
        archive.writestr(
            "__main__.py", f"import sys\nfrom {program.__name__} import main\nsys.exit(main(sys.argv[1:]))\n"
        )
    unfinished.replace(path)


def unit_state(unit: str, run_command: Callable[..., Any]) -> str:
    status, output, _errors = answer_of(run_command, ["systemctl", "show", "--property=ActiveState", "--value", unit])
    return str(output).strip() if status == 0 else "unknown"


def _launch(seat: Seat, verb: str, writable: list[str], run_command: Callable[..., Any], description: str) -> None:
    # A unit that failed before is kept by systemd under this name until it is forgotten.
    answer_of(run_command, ["systemctl", "reset-failed", seat.unit])
    properties = list(_PROPERTIES)
    if writable:
        properties += [*_CONFINEMENT, *(f"ReadWritePaths={path}" for path in writable)]
    command = ["systemd-run", "--quiet", "--collect", "--no-ask-password", f"--unit={seat.unit}"]
    command += [f"--description={description}", *(f"--property={text}" for text in properties)]
    command += [sys.executable, "-I", str(seat.folder / PROGRAM), verb, str(seat.folder)]
    status, _output, errors = answer_of(run_command, command)
    if status != 0:
        raise Refusal(
            "store_systemd_missing",
            f"systemd-run could not start {seat.unit}: {' '.join(str(errors).split())[:300].rstrip('.')}.",
            "The node has to run systemd, and the task to be root's (become).",
            {"unit": seat.unit},
        )


def _await_state(seat: Seat, run_id: str | None) -> dict[str, Any]:
    """The state of the run, once it has written one; what it finds wrong at once is in there as well."""
    until = time.monotonic() + _START_SECONDS
    while time.monotonic() < until:
        state = seat.state()
        if state.get("run_id") and run_id in (None, state["run_id"]):
            return state
        time.sleep(_LOOK_SECONDS)
    return {}


def _nearest(folder: Path) -> Path:
    """What there is of a path: only that can be opened for the worker to write."""
    while not folder.is_dir():
        folder = folder.parent
    return folder


def _source_of(name: str, module: Any) -> str | None:
    loader = getattr(getattr(module, "__spec__", None), "loader", None)
    get_source = getattr(loader, "get_source", None)
    if get_source is None:
        return None
    source = get_source(name)
    return source if isinstance(source, str) else None


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def outcome_of(state: Mapping[str, Any]) -> str | None:
    """How the run ended; None while it goes on. One that ended without a word is lost."""
    end = state.get("end")
    if end is not None:
        return str(end)
    return None if state.get("alive") else "lost"
