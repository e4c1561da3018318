# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a server with keys asks for them wherever it can be asked. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.extra_arguments import flag_name
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.key_versions import (
    UNGUARDED_ARGUMENTS,
    UNGUARDED_VARIABLES,
    WORKERS,
    key_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version

# What EnvBool of environ.py takes for no.
_OFF = ("", "0", "false", "no", "n", "f", "off")


def unguarded_by(
    version: str, keys: Sequence[str], extra_arguments: Mapping[str, Any], environment: Mapping[str, Any]
) -> list[str]:
    """What lets requests in past the keys, a sentence each."""
    said: list[str] = []
    if not keys:
        return said
    if "admin_api_key" in keys and not key_facts(parse_version(version)).admin_key:
        said.append(
            f"SGLang {version} knows no key for administration; expected 0.5.8 or later, or none "
            "(sglang_admin_api_key)."
        )
    for key, value in extra_arguments.items():
        flag = flag_name(key)
        if flag in UNGUARDED_ARGUMENTS and value not in (None, False):
            said.append(f"sglang_extra_arguments holds {key}, and {UNGUARDED_ARGUMENTS[flag]}; expected it left out.")
        if flag == WORKERS and str(value) != "1" and value is not None:
            said.append(f"sglang_extra_arguments sets {key} to {value}; a server with keys has one, expected 1.")
    for name in UNGUARDED_VARIABLES:
        if str(environment.get(name, "")).lower() not in _OFF:
            said.append(f"sglang_environment sets {name}, whose server asks for no key; expected it left out.")
    return said
