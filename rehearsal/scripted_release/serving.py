# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the modules of the release do: read the node, make the scenario, play it. Only in the installed release."""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.playing import (
    PIN_BYTES_PER_SECOND,
    PIN_VARIABLE,
    SCENARIO_VARIABLE,
    laid_over,
    scenario_of,
)
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import scenario_from
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.server import Server


def available_bytes() -> int:
    found = re.search(r"^MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"), re.MULTILINE)
    return int(found[1]) * 1024 if found else 0


def app_of(release: str, server_args: argparse.Namespace) -> dict[str, Any]:
    """What is going to be played, where the key middleware can still be added to it."""
    config = json.loads(Path(server_args.model_path, "config.json").read_text(encoding="utf-8"))
    pace = int(os.environ.get(PIN_VARIABLE) or PIN_BYTES_PER_SECOND)
    app = scenario_of(release, vars(server_args), config, available_bytes(), pace)
    path = os.environ.get(SCENARIO_VARIABLE)
    return laid_over(app, json.loads(Path(path).read_text(encoding="utf-8"))) if path else app


def guard_app(app: dict[str, Any], api_key: str | None, admin_api_key: str | None) -> None:
    app["http"] = {**app["http"], "api_key": api_key, "admin_api_key": admin_api_key}


def serve(app: dict[str, Any]) -> None:
    """Does not return."""
    Server(scenario_from(app)).run()
