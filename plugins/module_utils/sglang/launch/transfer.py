# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How the host tier is copied: io backend, memory layout and write policy in force.

What the server would rewrite is refused with what it would become, and what it would keep and not be able to copy with
what it can.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import HiCacheRequest, SpeculativeRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.choice import refuse_unknown_choice
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.hicache_in_force import (
    Beside,
    HiCacheFlags,
    hicache_in_force,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.compressed_versions import (
    compressed_facts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.hicache_versions import (
    COPIES,
    LAYOUTS_OF_HEADS,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts


def beside_of(attention: Attention, extra: Mapping[str, Any], speculative: SpeculativeRequest | None) -> Beside:
    """What HiCache looks at of a server; C(extra) are its settled flags that pass through."""
    decode = extra.get("decode-attention-backend")
    return Beside(
        decode_attention_backend=None if decode is None else str(decode),
        latent=attention.latent,
        speculative_algorithm=None if speculative is None else speculative.algorithm,
    )


def resolve_transfer(
    facts: VersionFacts, hicache: HiCacheRequest, beside: Beside | None = None, attention: Attention | None = None
) -> tuple[str | None, str | None]:
    """(io backend, memory layout) in force."""
    for option, value, choices in (
        ("io_backend", hicache.io_backend, facts.io_backends),
        ("mem_layout", hicache.mem_layout, facts.mem_layouts),
        ("write_policy", hicache.write_policy, facts.write_policies),
    ):
        if value is not None:
            refuse_unknown_choice(f"hicache.{option}", value, choices, facts)
    flags = HiCacheFlags(
        io_backend=hicache.io_backend, mem_layout=hicache.mem_layout, write_policy=hicache.write_policy
    )
    found = hicache_in_force(facts, flags, beside or Beside())
    asked = {
        "io_backend": hicache.io_backend or facts.default_io_backend,
        "mem_layout": hicache.mem_layout or facts.default_mem_layout,
    }
    if hicache.io_backend is not None and found.io_backend != hicache.io_backend:
        cause = (
            "mem_layout page_first_direct"
            if found.mem_layout == "page_first_direct"
            else "decode-attention-backend fa3 in extra_arguments"
        )
        raise Refusal(
            "hicache_io_backend_rewritten",
            f"hicache.io_backend {hicache.io_backend} does not go with {cause}: SGLang would switch to "
            f"{found.io_backend}.",
            f"Set hicache.io_backend to {found.io_backend}, or do without {cause}.",
            {**asked, "rewritten_io_backend": found.io_backend},
        )
    if hicache.mem_layout is not None and found.mem_layout != hicache.mem_layout:
        raise Refusal(
            "hicache_layout_rewritten",
            f"hicache.mem_layout {hicache.mem_layout} does not go with io_backend {found.io_backend}: SGLang would "
            f"switch to {found.mem_layout}.",
            f"Set hicache.mem_layout to {found.mem_layout} or layer_first, or hicache.io_backend to kernel.",
            {**asked, "rewritten_mem_layout": found.mem_layout},
        )
    _refuse_without_copy(facts, found.io_backend, found.mem_layout, attention)
    return found.io_backend, found.mem_layout


def _refuse_without_copy(
    facts: VersionFacts, backend: str | None, layout: str | None, attention: Attention | None
) -> None:
    if backend is None or layout is None:
        return
    compressed = attention is not None and attention.compressed is not None
    plain = attention is None or (not attention.latent and attention.state is None and not compressed)
    if compressed and compressed_facts(str(facts.version)).host_direct_only and backend != "direct":
        raise Refusal(
            "hicache_transfer_unsupported",
            f"SGLang {facts.version} copies this model's host pools by the direct io backend only, and "
            f"hicache.io_backend is {backend}: the first backup would end the scheduler.",
            "Set hicache.io_backend to direct.",
            {"io_backend": backend, "mem_layout": layout, "fitting": ["direct"]},
        )
    if (backend, layout) in COPIES and (plain or layout not in LAYOUTS_OF_HEADS):
        return
    known = sorted(
        f"{io} with {kept}"
        for io, kept in COPIES
        if kept in facts.mem_layouts and (plain or kept not in LAYOUTS_OF_HEADS)
    )
    raise Refusal(
        "hicache_transfer_unsupported",
        f"SGLang {facts.version} starts with hicache.io_backend {backend} and mem_layout {layout}, and has no copy "
        "for the two on NVIDIA cards and this model's cache: the first backup would end the scheduler.",
        f"Expected one of {', '.join(known)}.",
        {"io_backend": backend, "mem_layout": layout, "fitting": known},
    )
