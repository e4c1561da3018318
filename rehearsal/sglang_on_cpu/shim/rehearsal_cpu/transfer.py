# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The copy of tokens between device and host pools that sgl_kernel does on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any


def transfer_kv_direct(
    src_layers: Sequence[Any], dst_layers: Sequence[Any], src_indices: Any, dst_indices: Any, page_size: int
) -> None:
    """Copies rows ``src_indices`` of every source layer to rows ``dst_indices`` of its destination."""
    for source, destination in zip(src_layers, dst_layers, strict=True):
        destination.index_copy_(0, dst_indices.long(), source.index_select(0, src_indices.long()))


def bind(pool_module: ModuleType) -> None:
    """A host pool's module imports the name on a GPU only, and leaves it unbound elsewhere."""
    if not hasattr(pool_module, "transfer_kv_direct"):
        vars(pool_module)["transfer_kv_direct"] = transfer_kv_direct
