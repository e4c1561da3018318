# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the ranks of one instance may be laid out over so many GPUs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Layout:
    """Ordered by simplicity: stages and groups cost latency or throughput of their own."""

    pipeline_parallel_size: int
    attention_data_parallel_size: int
    tensor_parallel_size: int

    @property
    def gpus(self) -> int:
        return self.tensor_parallel_size * self.pipeline_parallel_size

    @property
    def text(self) -> str:
        parts = [f"tp {self.tensor_parallel_size}"]
        if self.pipeline_parallel_size > 1:
            parts.append(f"pp {self.pipeline_parallel_size}")
        if self.attention_data_parallel_size > 1:
            parts.append(f"attention dp {self.attention_data_parallel_size}")
        return ", ".join(parts)

    def as_options(self) -> dict[str, int]:
        """As server options of memory_plan."""
        return {
            "tensor_parallel_size": self.tensor_parallel_size,
            "pipeline_parallel_size": self.pipeline_parallel_size,
            "attention_data_parallel_size": self.attention_data_parallel_size,
        }


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def layouts_of(gpus: int) -> tuple[Layout, ...]:
    """Every way to lay one instance over exactly so many GPUs, the simplest first."""
    return tuple(
        sorted(Layout(gpus // tensor, groups, tensor) for tensor in _divisors(gpus) for groups in _divisors(tensor))
    )
