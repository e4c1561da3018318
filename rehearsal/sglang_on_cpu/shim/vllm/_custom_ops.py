# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rotary position embedding in plain torch, in place as the kernel does it."""

from __future__ import annotations

from typing import Any

import torch


def _rotate(states: Any, cosine: Any, sine: Any, head_size: int, is_neox: bool) -> None:
    """Turns each pair of the rotary part of every head by its token's angles."""
    heads = states.view(cosine.shape[0], -1, head_size)
    rotary = heads[..., : 2 * cosine.shape[-1]]
    # The kernel computes in float32 whatever the states are stored in.
    pairs = rotary.float()
    # GPT-NeoX pairs the two halves of a head; GPT-J pairs neighbours.
    first, second = pairs.chunk(2, dim=-1) if is_neox else (pairs[..., 0::2], pairs[..., 1::2])
    turned = (first * cosine - second * sine, second * cosine + first * sine)
    rotary.copy_(torch.cat(turned, dim=-1) if is_neox else torch.stack(turned, dim=-1).flatten(start_dim=-2))


def rotary_embedding(
    positions: Any, query: Any, key: Any, head_size: int, cos_sin_cache: Any, is_neox: bool = True
) -> None:
    """``cos_sin_cache`` holds a row a position: the cosines, then the sines, of half the rotary dimension each."""
    angles = cos_sin_cache.index_select(0, positions.flatten().long()).float()
    cosine, sine = angles.unsqueeze(1).chunk(2, dim=-1)
    for states in (query, key):
        if states is not None:
            _rotate(states, cosine, sine, head_size, is_neox)
