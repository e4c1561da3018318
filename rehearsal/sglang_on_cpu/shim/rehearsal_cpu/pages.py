# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The pinned page that a host pool hands to a storage backend to read into: torch pins none without an accelerator."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

_MADE_BY = "get_dummy_flat_data_page"


def unpin(pool_module: ModuleType) -> None:
    """Has every pool of the module make that page in ordinary memory; what the pool itself holds stays as it is."""
    for kind in list(vars(pool_module).values()):
        if isinstance(kind, type) and _MADE_BY in vars(kind):
            setattr(kind, _MADE_BY, _in_ordinary_memory(vars(kind)[_MADE_BY]))


def _in_ordinary_memory(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def page(pool: Any) -> Any:
        pinned, pool.pin_memory = pool.pin_memory, False
        try:
            return make(pool)
        finally:
            pool.pin_memory = pinned

    return page
