# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of its own for releases and bundles, with folders of this machine mounted, and plays against it."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE, Outcome


@dataclass(frozen=True)
class ReleaseNode:
    name: str
    address: str
    mounts: dict[str, Path] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return {**ENVIRONMENT, "GPUFLEET_NODE_NAME": self.name, "GPUFLEET_NODE_ADDRESS": self.address}

    def up(self) -> None:
        """Bare, whatever an earlier run left."""
        self.down()
        mounts = [word for target, source in self.mounts.items() for word in ("--mount", f"{source}:{target}")]
        subprocess.run(
            ["tools/with-podman", "rehearsal/node/up", "--name", self.name, "--address", self.address, *mounts],
            cwd=ROOT,
            env=self.environment,
            check=True,
            stdin=subprocess.DEVNULL,
        )

    def down(self) -> None:
        subprocess.run(
            ["tools/with-podman", "rehearsal/node/down", self.name],
            cwd=ROOT,
            env=self.environment,
            check=True,
            stdin=subprocess.DEVNULL,
        )

    def run(self, command: str, *, check: bool = True) -> str:
        done = subprocess.run(
            ["ssh", "-F", STATE / "ssh_config", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", self.name, command],
            check=False,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        if check and done.returncode:
            pytest.fail(f"{command}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def command(self, playbook: str, values: dict[str, Any], *arguments: str) -> list[str]:
        given = ["-e", json.dumps(values)]
        return ["ansible-playbook", playbook, "-i", "inventories/rehearsal", "--limit", "node", *given, *arguments]

    def play(self, playbook: str, values: dict[str, Any], *arguments: str) -> Outcome:
        done = subprocess.run(
            self.command(playbook, values, *arguments),
            check=False,
            cwd=ROOT,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return Outcome(done.returncode, done.stdout)

    def refusals(self, playbook: str, cases: dict[str, dict[str, Any]], folder: Path) -> dict[str, str]:
        """What each case is told, all in one play: the node goes by a name of its own for each."""
        inventory = folder / "cases.json"
        known = shlex.quote(str(STATE / "known_hosts"))
        shared = {
            "ansible_host": self.address,
            "ansible_user": "root",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={known} -o IdentitiesOnly=yes -o BatchMode=yes",
            "ansible_ssh_private_key_file": str(STATE / "id_ed25519"),
        }
        hosts = {f"case{number}": {**values, **shared} for number, values in enumerate(cases.values())}
        inventory.write_text(json.dumps({"all": {"hosts": hosts}}))
        done = subprocess.run(
            ["ansible-playbook", playbook, "-i", str(inventory), "-e", "release_hosts=all"],
            check=False,
            cwd=ROOT,
            env={**self.environment, "ANSIBLE_CALLBACK_RESULT_FORMAT": "json"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert set(Outcome(done.returncode, done.stdout).recap) == set(hosts), done.stdout
        told = dict(re.findall(r"^fatal: \[(case\d+)\]: FAILED! => (.*)$", done.stdout, re.MULTILINE))
        return {case: told.get(f"case{number}", "") for number, case in enumerate(cases)}

    def record(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.run(f"cat {shlex.quote(path)}/installed.json"))
        return found
