# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An attention backend in the place of one that cannot even be made without a GPU.

SGLang chooses the backend of sparse latent attention by itself (arg_groups/overrides.py), and that one imports CUDA's
kernels when it is made. With this one in its place such a model gets its pools, device and host, and attends nothing.
"""

from __future__ import annotations

from types import ModuleType

# layers/attention/attention_registry.py
_NEEDS_A_GPU = "dsa"
_ON_A_CPU = "torch_native"


def stand_in(registry: ModuleType) -> None:
    """Has the CPU's backend made where the other is asked for."""
    backends = registry.ATTENTION_BACKENDS
    # A release that has renamed one of them must not be left without in silence.
    missing = {_NEEDS_A_GPU, _ON_A_CPU} - set(backends)
    if missing:
        raise RuntimeError(
            f"{registry.__name__} has no {', '.join(sorted(missing))}; this stand-in knows SGLang 0.5.23"
        )
    backends[_NEEDS_A_GPU] = backends[_ON_A_CPU]
