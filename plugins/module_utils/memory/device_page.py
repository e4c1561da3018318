# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tokens a page of the device's KV cache, as the server itself would choose."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.placement.facts import GpuFacts

# Page sizes that an attention backend insists on (server_args.py, arg_groups/attention_hook.py).
_BACKEND_PAGE_SIZE = {"flashmla": 64, "cutlass_mla": 128, "trtllm_mla": 64, "trtllm_mha": 64}


def effective_page_size(server: ServerRequest, gpus: tuple[GpuFacts, ...]) -> int:
    """Tokens a page when page_size is not given: 64 for the backends that insist, else 1."""
    if server.page_size is not None:
        return server.page_size
    if server.attention_backend is not None:
        return _BACKEND_PAGE_SIZE.get(server.attention_backend, 1)
    # Blackwell data-centre cards (sm100, sm103) default to the trtllm backends.
    return 64 if any(gpu.compute_capability is not None and gpu.compute_capability[0] == 10 for gpu in gpus) else 1
