# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a node keeps for its instances, whether they run or not. No I/O."""

from __future__ import annotations

import re
from typing import Any

# Behind the name of the instance, in the folder of the configurations.
ENDING = ".reserved.json"
SCHEMA = 1
_UNIT = re.compile(r"sglang-([A-Za-z0-9][A-Za-z0-9_.-]*)\.service\Z")


def reservation_of(said: Any) -> dict[str, Any] | None:
    """Out of a file as the role writes it; None where it is another."""
    if not isinstance(said, dict) or said.get("schema") != SCHEMA:
        return None
    gpus, ports = said.get("gpus"), said.get("ports")
    if not isinstance(gpus, list) or not all(isinstance(gpu, int) for gpu in gpus) or not isinstance(ports, dict):
        return None
    for one in ports.values():
        whole = isinstance(one, dict) and isinstance(one.get("address"), str)
        if not whole or not all(isinstance(one.get(key), int) for key in ("first", "last")):
            return None
    return {"gpus": gpus, "ports": ports}


def instance_of_unit(unit: str) -> str | None:
    match = _UNIT.match(unit)
    return match[1] if match else None


def states_of(shown: str) -> dict[str, str]:
    """The state of each instance, out of C(systemctl show) of their units."""
    states = {}
    for block in shown.strip().split("\n\n"):
        values = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        name = instance_of_unit(values.get("Id", ""))
        if name is not None:
            states[name] = values.get("ActiveState", "")
    return states
