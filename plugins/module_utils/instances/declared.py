# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The instances that the variables of a host state, as others see them: by what name, and where they listen. Pure.

Read from another host, for which the defaults of the role sglang are no variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# roles/sglang/defaults/main.yml
INSTANCE, ADDRESS, PORT = "main", "127.0.0.1", 30000


@dataclass(frozen=True)
class Declared:
    """What its C(entry) in sglang_instances does not say, the C(variables) of the host say for all."""

    name: str
    entry: Mapping[str, Any]
    variables: Mapping[str, Any]

    def get(self, key: str) -> Any:
        """C(key) is the name of a variable of the role without its prefix; None where nobody says it."""
        return self.entry[key] if key in self.entry else self.variables.get(f"sglang_{key}")

    @property
    def address(self) -> str:
        """What it binds."""
        return str(self.get("host") or ADDRESS)

    @property
    def port(self) -> int | None:
        """None where it is arranged on the node."""
        said = "port" in self.entry or "sglang_port" in self.variables
        port = self.get("port") if said else PORT
        return None if port is None else int(port)


def declared_of(variables: Mapping[str, Any]) -> list[Declared]:
    """Of one host. An entry without a name is the role's to refuse, and is left out."""
    listed = variables.get("sglang_instances") or []
    if listed:
        return [Declared(str(entry["instance"]), entry, variables) for entry in listed if "instance" in entry]
    return [Declared(str(variables.get("sglang_instance") or INSTANCE), {}, variables)]


def endpoint(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
