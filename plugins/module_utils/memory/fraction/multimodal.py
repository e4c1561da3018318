# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a server serves a model with its vision tower, which some it does only when asked.

Source: SGLang, configs/model_config.py C(ModelConfig.__init__) (C(mm_disabled_models)); the tables by release are in
sglang/releases/memory_versions.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.environment import (
    EMBEDDING_CACHE,
    FEATURE_CACHE,
    FEATURES_BY_IPC,
    size_mib,
    switched_on,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.request import ServerRequest
from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import MIB
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import ModelFacts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.launch.extra_arguments import flag_name
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.memory_versions import (
    FEATURES_BUSY_REQUESTS,
    FEATURES_MIB,
    FEATURES_MIB_BUSY,
    keeps_features_on_gpu,
    towers_off_by_default,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import VersionFacts

# Checkpoints of language alone have the same name, and no tower in their configuration.
_TOWER_IS_OPTIONAL = frozenset({"MiMoV2ForCausalLM"})


def flags_of(server: ServerRequest) -> dict[str, Any]:
    """The extra arguments by the names of their flags."""
    return {flag_name(key): value for key, value in server.extra_arguments.items()}


def is_set(flags: Mapping[str, Any], name: str) -> bool:
    """Whether a switch without a value is given."""
    return flags.get(name) in (True, "true", "True", "yes", 1)


def multimodal_in_force(release: str, model: ModelFacts, server: ServerRequest) -> bool:
    """Whether the server loads the model's tower."""
    if not model.multimodal or (model.architecture in _TOWER_IS_OPTIONAL and model.vision is None):
        return False
    return model.architecture not in towers_off_by_default(release) or is_set(flags_of(server), "enable-multimodal")


def multimodal_reservation(
    facts: VersionFacts,
    model: ModelFacts,
    server: ServerRequest,
    capability: tuple[int, int] | None,
    card_mib: int | None,
) -> int:
    """Bytes that a release takes off the KV budget of a model that is served with its tower: a cache of embeddings,
    and features of pictures where they travel through GPU memory (C(mm_runtime_reservation_gb))."""
    release = str(facts.version)
    if not facts.multimodal_reservation_bytes or not multimodal_in_force(release, model, server):
        return 0
    flags, environment = flags_of(server), server.environment
    embeddings, features = size_mib(environment, EMBEDDING_CACHE), size_mib(environment, FEATURE_CACHE)
    transport = flags.get("mm-feature-transport")
    if keeps_features_on_gpu(release, model.architecture, capability, card_mib):
        embeddings = embeddings or 0
        retained = embeddings > 0 or int(flags.get("mm-preprocess-cache-size-mb") or 0) > 0
        if transport is None and not retained:
            transport = "cuda_ipc"
        busy = (server.max_running_requests or 0) >= FEATURES_BUSY_REQUESTS
        if features is None and busy and transport == "cuda_ipc" and not retained:
            features = FEATURES_MIB_BUSY
    if transport is None and switched_on(environment, FEATURES_BY_IPC):
        transport = "cuda_ipc"
    if is_set(flags, "enable-deterministic-inference"):
        embeddings = 0
    reserved = facts.multimodal_reservation_bytes if embeddings is None else embeddings * MIB
    if transport in ("cuda_ipc", "cuda_vmm"):
        reserved += (FEATURES_MIB if features is None else features) * MIB
    return reserved
