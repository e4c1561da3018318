# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The oldest Python that each release takes. Source: C(Requires-Python) of METADATA in the wheels, 0.4.7 to 0.5.23."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version, value_at

_OLDEST: tuple[tuple[str, tuple[int, int]], ...] = (
    ("0.4.7", (3, 8)),
    ("0.5.0rc2", (3, 10)),
    ("0.5.22", (3, 11)),
)


def oldest_python(version: str) -> tuple[int, int]:
    return value_at(_OLDEST, parse_version(version))
