# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The questions put to each release about compressed caches (DeepSeek-V4), shared by record_compressed.py and its test.

What the arguments of a server resolve to before its pools are sized is settled here: a page of 256 tokens, 256 running
requests unless something else is asked for, and a share of 0.1 for the windows unless one is given, which counts as
given then.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

GIB = 1 << 30
PAGE_SIZE, RUNNING_REQUESTS, WINDOW_SHARE, CHUNK = 256, 256, 0.1, 8192
MODELS = ("deepseek-v4-flash", "deepseek-v4-pro")
RELEASES = tuple(f"0.5.{patch}" for patch in range(12, 24))


@dataclass(frozen=True)
class CompressedCase:
    """One question; what is None is left to SGLang. Tails, chunk, radix cache and overlap are to change nothing."""

    model: str
    budget_bytes: int = 40 * GIB + 12_345_678
    attention_data_parallel: int = 1
    pipeline_parallel: int = 1
    stage: int = 0
    running_requests: int | None = None
    window_ratio: float | None = None
    prefix_tails: int | None = None
    chunk: int = CHUNK
    radix_cache: bool = True
    overlap: bool = True
    cap: int | None = None
    host_ratio: float | None = None

    def asked(self) -> dict[str, Any]:
        """What is not left as it is by default."""
        default = asdict(CompressedCase(self.model))
        return {key: value for key, value in asdict(self).items() if key == "model" or value != default[key]}


def compressed_cases() -> Iterator[CompressedCase]:
    for model in MODELS:
        yield CompressedCase(model)
        yield CompressedCase(model, host_ratio=2.0)
        yield CompressedCase(model, host_ratio=3.337)
        yield CompressedCase(model, host_ratio=0.5)
        yield CompressedCase(model, budget_bytes=90 * GIB + 987_654_321)
        yield CompressedCase(model, budget_bytes=24 * GIB + 1)
        yield CompressedCase(model, attention_data_parallel=8, chunk=CHUNK // 8)
        yield CompressedCase(model, running_requests=64)
        yield CompressedCase(model, running_requests=1024, budget_bytes=200 * GIB)
        yield CompressedCase(model, running_requests=32, attention_data_parallel=4, chunk=2048, host_ratio=2.0)
        yield CompressedCase(model, window_ratio=0.05)
        yield CompressedCase(model, window_ratio=0.3, host_ratio=1.25)
        yield CompressedCase(model, prefix_tails=100)
        yield CompressedCase(model, radix_cache=False)
        yield CompressedCase(model, overlap=False, chunk=16384)
        yield CompressedCase(model, chunk=-1)
        yield CompressedCase(model, cap=1_000_123)
        yield CompressedCase(model, cap=20_000, window_ratio=0.5)
        for stage in range(3):
            yield CompressedCase(model, pipeline_parallel=3, stage=stage)
