#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: capacity_options
version_added: 0.1.0
short_description: What fits on a machine, and which GPUs a model needs
description:
  - The inverse of M(gpufleet.sglang.memory_plan). Given a model and a workload, so many requests of a certain length
    at once, it plans every layout on one machine (O(topology)), or the fewest boards of each kind that serve it
    (O(boards)).
  - Every option is planned as M(gpufleet.sglang.memory_plan) plans it, with the largest safe C(mem_fraction_static)
    and, where the host's memory is known, the largest HiCache ratio that fits, unless O(server) and O(hicache) say
    otherwise.
  - Left out are layouts whose ranks do not divide the attention heads, as the other layers rarely divide by them
    either.
  - It counts memory. How fast a board is, and whether the kernels of a model's quantisation run on it, it does not say.
  - Requests keep their tokens in whole pages and share none. Of window layers a request keeps a window and a page, of
    state layers as many slots as SGLang reserves for one.
  - Runs on the controller, needs no connection to any host and changes nothing. The same input gives the same options.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: all
options:
  sglang_version:
    description: Release of SGLang, quoted, for example V("0.5.23").
    type: str
    required: true
  models:
    description:
      - Facts of the models to weigh, each as O(gpufleet.sglang.memory_plan#module:model) takes them.
    type: list
    elements: dict
    required: true
  workload:
    description: What is to be served.
    type: dict
    required: true
    suboptions:
      context_tokens:
        description: Tokens of one request, prompt and output together.
        type: int
        required: true
      concurrent_requests:
        description: Requests that run at once.
        type: int
        default: 1
      host_cache_tokens:
        description:
          - Tokens that the host has to keep. An option whose host keeps fewer does not fit. Where the host's memory is
            not known, RV(options) says how much of it they take.
        type: int
  topology:
    description:
      - The machine, as O(gpufleet.sglang.memory_plan#module:topology) takes it. Layouts on every number of its usable
        GPUs are weighed.
      - Without it, boards of the catalogue are weighed.
    type: dict
  boards:
    description:
      - Boards of the catalogue, by the name that C(nvidia-smi) prints or what tells it apart, such as V(H100 NVL) or
        V(L40S). A name that fits several stands for all of them. Every board of the catalogue that SGLang serves when
        left out, that is from compute capability 7.5 on.
    type: list
    elements: str
  gpu_counts:
    description: Numbers of boards to weigh. Of each kind, no more are weighed once the workload is served.
    type: list
    elements: int
    default: [1, 2, 4, 8, 16]
  node_gpus:
    description:
      - Boards that a node holds. Larger numbers of O(gpu_counts) are left out, as an instance lives on one node.
    type: int
    default: 8
  host_memory_available_bytes:
    description: Host memory that is available on a node of O(boards), in bytes. Left out, it is unknown.
    type: int
  server:
    description:
      - What else is asked of the server, as O(gpufleet.sglang.memory_plan#module:server) takes it. The layout and the
        GPUs are what is weighed.
    type: dict
    default: {}
    suboptions:
      page_size:
        description: Tokens a page of the KV cache.
        type: int
      kv_cache_dtype:
        description: Data type of the KV cache.
        type: str
        default: auto
      dtype:
        description: Data type of the weights and activations.
        type: str
        default: auto
      max_total_tokens:
        description: Cap on the tokens of the device KV cache.
        type: int
      mem_fraction_static:
        description: Share of the GPU memory for weights and KV cache, in the place of the largest that is safe.
        type: float
      mem_fraction_auto:
        description: Choose the largest safe share. What is done unless another is asked for.
        type: bool
        default: false
      leave_bytes:
        description: Choose the largest share that leaves this many bytes of each GPU idle.
        type: int
      max_running_requests:
        description: Requests that the server runs at once, at most.
        type: int
      chunked_prefill_size:
        description: Tokens a prefill chunk.
        type: int
      context_length:
        description: Longest context, in tokens.
        type: int
      attention_backend:
        description: Attention backend.
        type: str
      extra_arguments:
        description: Further flags of the server, without the leading dashes.
        type: dict
        default: {}
  hicache:
    description: What is asked of HiCache, as O(gpufleet.sglang.memory_plan#module:hicache) takes it.
    type: dict
    default: {}
    suboptions:
      enabled:
        description: Whether HiCache is on.
        type: bool
        default: true
      ratio:
        description: Host pool as a multiple of the device pool, in the place of the largest that fits.
        type: float
      size_gb:
        description: Host pool in whole GB (1e9 bytes) per rank and pool.
        type: int
      host_memory_fraction:
        description: Share of the free host memory that the server sizes its pools by, from SGLang 0.5.21 on.
        type: float
      auto:
        description: Choose the largest ratio that fits. What is done unless another size is asked for.
        type: bool
        default: false
      leave_bytes:
        description: Choose the largest ratio that leaves this many bytes of host memory available.
        type: int
      target_tokens:
        description: Choose the smallest ratio whose host pool of a rank holds this many tokens.
        type: int
      io_backend:
        description: How pages travel between device and host.
        type: str
      mem_layout:
        description: Layout of the host pool.
        type: str
      write_policy:
        description: When pages are written to the host pool.
        type: str
  speculative:
    description: Speculative decoding, as O(gpufleet.sglang.memory_plan#module:speculative) takes it.
    type: dict
    suboptions:
      algorithm:
        description: Algorithm, for example V(EAGLE).
        type: str
        required: true
      model:
        description: Facts of the draft model.
        type: dict
      model_path:
        description: Folder of the draft model on the node.
        type: path
      num_steps:
        description: Steps of the draft for each verification.
        type: int
      eagle_topk:
        description: Tokens that the draft keeps at each step.
        type: int
      num_draft_tokens:
        description: Draft tokens that one verification takes.
        type: int
  observed:
    description:
      - What an earlier start measured, as O(gpufleet.sglang.memory_plan#module:observed) takes it. It replaces
        estimates of the layout that it was measured with, O(observed_layout), and says nothing of the others.
      - It belongs to one model on one machine, so it goes with O(topology) and a single entry of O(models). A ledger is
        not read.
    type: dict
    suboptions:
      kv_pool_bytes:
        description: KV budget of one GPU in bytes, of all its pools together where a model has several.
        type: int
      mem_fraction_static:
        description: The fraction under which O(observed.kv_pool_bytes) was measured.
        type: float
      available_before_load_bytes:
        description: Free memory of a GPU before the weights were loaded, in bytes.
        type: int
      available_after_load_bytes:
        description: Free memory of a GPU after the weights were loaded, in bytes.
        type: int
      idle_bytes_per_gpu:
        description: GPU memory that stays free while the server works under load, in bytes.
        type: int
      pin_bytes_per_second:
        description: Rate at which all ranks together pinned their pools, in bytes per second.
        type: float
      load_seconds:
        description: Time that loading the weights took.
        type: float
      rest_seconds:
        description: Time that a start took beside loading and pinning.
        type: float
      assumptions:
        description: Sentences about these values that are repeated where they are used.
        type: list
        elements: str
  observed_layout:
    description: The layout that was measured.
    type: dict
    suboptions:
      tensor_parallel_size:
        description: Ranks of a pipeline stage.
        type: int
        default: 1
      pipeline_parallel_size:
        description: Pipeline stages.
        type: int
        default: 1
      attention_data_parallel_size:
        description: Groups of attention data parallelism.
        type: int
        default: 1
  margin_bytes:
    description: As O(gpufleet.sglang.memory_plan#module:margin_bytes).
    type: int
    default: 2147483648
  host_reserve_bytes:
    description: As O(gpufleet.sglang.memory_plan#module:host_reserve_bytes).
    type: int
    default: 10737418240
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.memory_plan
  - module: gpufleet.sglang.model_info
  - module: gpufleet.sglang.gpu_topology_info
"""

EXAMPLES = r"""
- name: Which GPUs are needed for 16 requests of 32,768 tokens at once
  gpufleet.sglang.capacity_options:
    sglang_version: "0.5.23"
    models:
      - name: Qwen3-32B
        architecture: Qwen3ForCausalLM
        attention: {num_layers: 64, num_attention_heads: 64, num_kv_heads: 8, head_dim: 128}
        weights: {total_bytes: 65524246528}
    workload:
      context_tokens: 32768
      concurrent_requests: 16
    boards: [H100 80GB HBM3, L40S]
    host_memory_available_bytes: 500000000000
  register: weighed

- name: Which of these models fit on this machine, and how
  gpufleet.sglang.capacity_options:
    sglang_version: "0.5.23"
    models: "{{ models_read.results | map(attribute='model') }}"
    workload:
      context_tokens: 131072
      concurrent_requests: 4
      host_cache_tokens: 2000000
    topology: "{{ probe }}"
  register: weighed

- name: Show what was found
  gpufleet.sglang.summary:
    title: Capacity
    lines: "{{ weighed | gpufleet.sglang.capacity_summary }}"
"""

RETURN = r"""
options:
  description:
    - The options, best first. On a machine, those with the most requests come first; of boards, those with the least
      GPU memory in all. What does not fit follows, by what is missing.
    - Sizes are in bytes and of one GPU, but for C(host_bytes_total) and C(host_required_bytes), which are the host's;
      what is not known is null.
  returned: success
  type: list
  elements: dict
  contains:
    model:
      description: Name of the model.
      type: str
      sample: Qwen3-32B
    board:
      description: Name of the GPUs.
      type: str
      sample: NVIDIA H100 80GB HBM3
    gpus:
      description: Number of GPUs of the instance.
      type: int
      sample: 4
    gpu_memory_bytes:
      description: Memory of a GPU as C(nvidia-smi) prints it.
      type: int
      sample: 85520809984
    layout:
      description: The layout, as O(gpufleet.sglang.memory_plan#module:server) takes it.
      type: dict
      sample: {tensor_parallel_size: 4, pipeline_parallel_size: 1, attention_data_parallel_size: 1}
    fits:
      description: Whether it serves the workload.
      type: bool
      sample: true
    tokens:
      description: Tokens of the KV cache, those of all groups of attention data parallelism together.
      type: int
      sample: 778538
    requests_at_context:
      description: Requests of O(workload.context_tokens) that run at once.
      type: int
      sample: 23
    mem_fraction_static:
      description: The fraction that this is planned with.
      type: float
      sample: 0.819
    weights_bytes:
      description: Weights.
      type: int
      sample: 16381061632
    kv_bytes:
      description: The KV cache; below 0 where the weights lack room themselves.
      type: int
      sample: 51022266368
    needed_kv_bytes:
      description: The smallest KV cache that serves the workload, to the MiB.
      type: int
      sample: 34359738368
    idle_bytes:
      description: What the workload leaves of the KV cache. Null where it does not fit.
      type: int
      sample: 16662528000
    missing_bytes:
      description: What is missing of C(needed_kv_bytes). Null where it is not that which is missing.
      type: int
      sample: null
    reserved_bytes:
      description: What the server keeps for activations and graphs.
      type: int
      sample: 14896224797
    host_ratio_auto:
      description: HiCache ratio that the host allows. Null without HiCache.
      type: float
      sample: 1.35
    host_tokens:
      description: Tokens that the host keeps.
      type: int
      sample: 1051027
    host_bytes_total:
      description: Host memory that all ranks pin.
      type: int
      sample: 275520421888
    host_required_bytes:
      description: Host memory that has to be available for that.
      type: int
      sample: 286257840128
    observed:
      description: Whether O(observed) was measured with this layout and takes the place of estimates.
      type: bool
      sample: false
    refusal:
      description: Why it does not fit, with C(code), C(message) and C(remedy). Null where it does.
      type: dict
      sample: null
    explanation:
      description: The numbers in sentences; of the fewest boards that fit, also why fewer do not.
      type: list
      elements: str
      sample:
        - >-
          tp 4: 47.52 GiB of KV cache a GPU at mem_fraction_static 0.819 hold 778,538 tokens, or 23 requests of 32,768
          tokens at once
        - HiCache ratio 1.35 keeps 1,051,027 tokens on the host in 275.52 GB, for which 286.26 GB have to be available
        - "1 x NVIDIA H100 80GB HBM3 (tp 1) would not do: 123.75 GiB a GPU are missing"
        - "2 x NVIDIA H100 80GB HBM3 (tp 1, pp 2) would not do: 29.17 GiB a GPU are missing"
    assumptions:
      description: What the plan takes for granted because it was neither given nor measured.
      type: list
      elements: str
      sample:
        - >-
          CUDA context and collectives take 3.00 GiB of a GPU before the weights are loaded (give
          observed.available_before_load_bytes to replace this).
best:
  description: The first of RV(options), where it fits; null otherwise.
  returned: success
  type: dict
models_that_fit:
  description: Names of the models that an option fits.
  returned: success
  type: list
  elements: str
  sample: [Qwen3-32B]
nearest_miss:
  description:
    - Of the options that do not fit, the one that lacks the fewest bytes, with the longest context that as many
      requests may have on it, and with the number of requests of the wanted length. Null where memory of GPUs is not
      what is missing.
  returned: success
  type: dict
  sample:
    model: Qwen3-32B
    board: NVIDIA L40S
    gpus: 4
    layout: {tensor_parallel_size: 2, pipeline_parallel_size: 2, attention_data_parallel_size: 1}
    missing_bytes: 12734562304
    missing_bytes_total: 50938249216
    largest_context_tokens: 20623
    largest_concurrent_requests: 10
    message: >-
      4 x NVIDIA L40S (tp 2, pp 2) lack 11.86 GiB a GPU, 47.44 GiB in all; they serve 16 requests of 20,623 tokens or 10
      requests of 32,768 tokens.
excluded:
  description: Layouts that the model or the release does not allow, or that cannot be planned, whatever the memory.
  returned: success
  type: list
  elements: dict
  sample:
    - model: Qwen3-32B
      layout: {tensor_parallel_size: 2, pipeline_parallel_size: 1, attention_data_parallel_size: 1}
      refusal:
        code: tensor_parallel_uneven
        message: tensor_parallel_size 2 does not divide 64 attention heads and 3 KV heads evenly.
        remedy: Expected one of 1.
failure:
  description: Why nothing was weighed, with C(code), C(message), C(remedy) and C(evidence).
  returned: failure
  type: dict
  sample:
    code: board_unknown
    message: "'H1000' is no board of the catalogue."
    remedy: >-
      The closest: NVIDIA H100 NVL. State a board that is not there as topology.gpus with name, memory_total_bytes and
      compute_capability.
    evidence: {board: H1000, closest: [NVIDIA H100 NVL]}
"""
