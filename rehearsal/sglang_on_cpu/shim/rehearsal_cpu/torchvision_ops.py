# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator schemas that torchvision's Python files refer to while they are imported.

PyPI's torchvision is built against CUDA, and its compiled part does not load beside a CPU build of torch. Its Python
part then fails on operators that were never declared; a language model calls none of them.
"""

from __future__ import annotations

from typing import Any

_keep: list[Any] = []


def declare() -> None:
    import torch

    # Declarations live as long as the library object.
    library = torch.library.Library("torchvision", "FRAGMENT")
    _keep.append(library)
    for name in ("nms", "qnms"):
        try:
            library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        except RuntimeError:
            # A matching build has loaded and declared its own.
            return
