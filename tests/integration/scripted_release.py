# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A node of its own that installs the stand-in release, for what is about the role and not about what is computed.

It takes the place of the rehearsal's node in the same inventory.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.tests.integration.plays import ENVIRONMENT, ROOT, STATE
from ansible_collections.gpufleet.sglang.tests.integration.release_node import ReleaseNode

# What the stand-in needs otherwise than the real server: its own pins, and nothing to let it serve on a CPU.
VALUES: dict[str, Any] = {"sglang_requirements_file": None, "sglang_environment": {}}


def scripted_node(name: str, address: str) -> ReleaseNode:
    """Not up yet."""
    made = subprocess.run(
        [ROOT / "rehearsal" / "scripted_release" / "make-release"],
        check=True,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    model = STATE / "model"
    subprocess.run([sys.executable, ROOT / "rehearsal" / "sglang_on_cpu" / "make_model.py", model], check=True)
    mounts = {"/srv/wheelhouse": Path(made.stdout.strip()), "/srv/models/rehearsal-llama": model}
    return ReleaseNode(name, address, mounts)


def scenario(node: ReleaseNode, name: str, laid_over: dict[str, Any]) -> dict[str, str]:
    """Puts it on the node; the environment of a service that plays it."""
    path = f"/srv/{name}.json"
    node.run(f"cat >{path} <<'END'\n{json.dumps(laid_over)}\nEND")
    return {"REHEARSAL_SCENARIO": path}
