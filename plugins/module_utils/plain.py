# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Frozen dataclasses as what JSON can hold."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.printable import without_controls


def plain(value: Any) -> Any:
    """Dataclasses to dicts and tuples to lists, all the way down. Texts come out as what may be shown, whoever wrote
    them."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(name): plain(item) for name, item in value.items()}
    return without_controls(value) if isinstance(value, str) else value
