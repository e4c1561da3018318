# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a unit file of an instance names: its release, its configuration, its folders. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass

_RELEASE = re.compile(r"^Description=SGLang (\S+), instance ", re.MULTILINE)
_CONFIG = re.compile(r"^ExecStart=.*\s--config[ =](\S+)", re.MULTILINE)
_FOLDER = re.compile(r"^WorkingDirectory=(\S+)", re.MULTILINE)
_ENVIRONMENT = re.compile(r"^EnvironmentFile=-?(\S+)", re.MULTILINE)
_CREDENTIAL = re.compile(r"^LoadCredential=([^:\s]+):(\S+)", re.MULTILINE)
_SETTING = re.compile(r"^([A-Za-z0-9-]+):[ \t]*(.*?)[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class UnitFile:
    """C(credentials): name and file of each key."""

    release: str | None
    config: str | None
    state: str | None
    environment: tuple[str, ...]
    credentials: tuple[tuple[str, str], ...]


def unit_file(text: str) -> UnitFile:
    """Of a unit as the role writes it, with what drop-ins add behind it."""

    def last(pattern: re.Pattern[str]) -> str | None:
        found = pattern.findall(text)
        return found[-1] if found else None

    return UnitFile(
        release=last(_RELEASE),
        config=last(_CONFIG),
        state=last(_FOLDER),
        environment=tuple(_ENVIRONMENT.findall(text)),
        credentials=tuple(_CREDENTIAL.findall(text)),
    )


def settings_of(config: str) -> dict[str, str]:
    """The flat settings of a configuration, as texts; lists and what belongs to them are left out."""
    return {name: value.strip("'\"") for name, value in _SETTING.findall(config) if value}
