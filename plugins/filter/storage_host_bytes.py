# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

DOCUMENTATION = r"""
name: storage_host_bytes
version_added: 0.1.0
short_description: Host memory that a third tier of the KV cache takes beside the host pools
description:
  - Memory that Mooncake's segments or LMCache inside the server pin, which a memory plan has to leave them.
options:
  _input:
    description: What is asked for, as C(sglang_hicache_storage) takes it; 0 bytes where it is empty.
    type: dict
    required: true
  version:
    description: Release of SGLang.
    type: str
    required: true
  tensor_parallel_size:
    description: Ranks of a pipeline stage.
    type: int
    default: 1
  pipeline_parallel_size:
    description: Pipeline stages.
    type: int
    default: 1
  token_groups:
    description: Groups of attention data parallelism.
    type: int
    default: 1
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Leave Mooncake its segments
  ansible.builtin.debug:
    msg: >-
      {{ {'backend': 'mooncake', 'extra_config': {'global_segment_size': '64gb'}}
         | gpufleet.sglang.storage_host_bytes('0.5.23', 8) }}
"""

RETURN = r"""
_value:
  description: The bytes.
  type: int
"""


def storage_host_bytes(
    storage: Mapping[str, Any],
    version: str,
    tensor_parallel_size: int = 1,
    pipeline_parallel_size: int = 1,
    token_groups: int = 1,
) -> int:
    from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import version_facts
    from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.request import (
        ServerSetup,
        storage_request,
    )
    from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.storage.tier import host_memory_bytes

    if not storage:
        return 0
    try:
        setup = ServerSetup(
            version=version_facts(version),
            instance="",
            tensor_parallel_size=int(tensor_parallel_size),
            pipeline_parallel_size=int(pipeline_parallel_size),
            token_groups=int(token_groups),
        )
        return host_memory_bytes(storage_request(storage), setup)
    except Refusal as refusal:
        raise AnsibleFilterError(f"{refusal} Nothing was changed.") from refusal


class FilterModule:
    def filters(self) -> dict[str, Callable[..., int]]:
        return {"storage_host_bytes": storage_host_bytes}
