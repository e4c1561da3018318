# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine without a GPU lacks for SGLang's HiCache, and only that.

==================  =====================================================================================
stand-in            for
==================  =====================================================================================
cuda_runtime        the CUDA runtime's host registration (mlock/munlock: the pools are pinned for real),
                    device events and streams (no-ops: work on a CPU is synchronous), and a card's capability
attention           the backend of sparse latent attention, which is not made without a GPU: pools only
transfer            sgl_kernel's copy between the pools, io backend ``direct`` and layout ``layer_first``
pages               torch's pinned memory, of which a page is asked for before it is read from storage
pinning             nothing: it slows the pre-faulting of host pools to a set speed, so that a start with
                    half a gigabyte takes as long as one with half a terabyte
../vllm             the rotary embedding kernel that SGLang takes from vLLM where it knows no device of its own
torchvision_ops     the schemas of torchvision's compiled operators, which a CPU torch cannot load
==================  =====================================================================================

Everything else is SGLang's own code: arguments, sizing of the pools and their guard, mmap, radix cache, write-through,
load-back, HTTP server, metrics and log lines.
"""

from __future__ import annotations

from . import attention, cuda_runtime, import_hooks, pages, pinning, torchvision_ops, transfer


def install() -> None:
    """Arms the hooks; cheap enough for every Python process."""
    import_hooks.after("torch", cuda_runtime.stand_in)
    import_hooks.after("sglang.srt.layers.attention.attention_registry", attention.stand_in)
    import_hooks.before("torchvision", torchvision_ops.declare)
    for pools in ("mha", "mla"):
        import_hooks.after(f"sglang.srt.mem_cache.pool_host.{pools}", transfer.bind)
        import_hooks.after(f"sglang.srt.mem_cache.pool_host.{pools}", pages.unpin)
    import_hooks.after("sglang.srt.mem_cache.storage.mmap.mmap_allocator", pinning.pace)
