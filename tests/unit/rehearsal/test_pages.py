# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from types import ModuleType

from ansible_collections.gpufleet.sglang.rehearsal.sglang_on_cpu.shim.rehearsal_cpu import pages


class Pool:
    def __init__(self) -> None:
        self.pin_memory = True

    def get_dummy_flat_data_page(self) -> bool:
        """Whether the page is pinned."""
        return self.pin_memory


class Other:
    pin_memory = True


def test_a_page_is_made_in_ordinary_memory_and_the_pool_stays_pinned() -> None:
    module = ModuleType("pool_host")
    module.__dict__.update({"Pool": Pool, "Other": Other, "page_size": 64})
    pages.unpin(module)
    pool = Pool()
    assert pool.get_dummy_flat_data_page() is False
    assert pool.pin_memory is True
    assert Other.pin_memory is True
