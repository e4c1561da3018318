#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: memory_plan
version_added: 0.1.0
short_description: Plan the GPU and host memory of an SGLang instance before it starts
description:
  - Computes, from a model, a machine and what is asked of the server, how many tokens the GPU holds, how much host
    memory HiCache pins per rank, per NUMA node and in all, whether it fits, whether the server's own check agrees, how
    long the start takes, and the arguments to start with.
  - Refuses what does not fit, with the largest value that does, and whatever SGLang would silently rewrite.
  - Runs on the controller, needs no connection to the host and changes nothing. The same input gives the same plan.
  - Plans SGLang 0.4.7 to 0.5.23, before 0.5.9 models of plain heads and of latent caches only. Releases that were not
    held against a running server, all but 0.5.9 and 0.5.23, are planned by the rules in their source, with a warning.
  - Releases before 0.5.3 cannot read a configuration file. They are planned all the same, with a problem that says that
    this collection cannot start them.
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
  model:
    description:
      - Facts of the model, as RV(gpufleet.sglang.model_info#module:model) gives them, or a part of them on paper.
      - Needed are C(architecture), C(attention) and, unless O(observed.kv_pool_bytes) is given, C(weights.total_bytes).
    type: dict
    required: true
  topology:
    description:
      - Facts of the machine, as M(gpufleet.sglang.gpu_topology_info) gives them, or a part of them on paper.
      - Used are C(gpus) with C(index), C(memory_total_bytes), C(numa_node), C(compute_capability) and C(usable),
        C(gpu_links), C(numa_nodes) with C(id), C(memory_total_bytes), C(memory_available_bytes), C(has_cpus), C(kind),
        C(usable) and C(distances), and C(host) with C(memory_available_bytes), C(cgroup_limit_bytes),
        C(cgroup_available_bytes) and C(cpus_usable).
      - What is left out is unknown. A GPU is usable, and a NUMA node has CPUs and memory, unless said otherwise.
      - On paper, C(assumptions) may hold sentences that the plan repeats among its own.
    type: dict
    required: true
  server:
    description: What is asked of the server. What is left out is left to SGLang's own default.
    type: dict
    default: {}
    suboptions:
      device:
        description: What the ranks compute on. V(cpu) needs O(server.max_total_tokens).
        type: str
        choices: [cuda, cpu]
        default: cuda
      tensor_parallel_size:
        description: Number of ranks, each on one GPU. Of each pipeline stage, where there are several.
        type: int
        default: 1
      pipeline_parallel_size:
        description:
          - Number of pipeline stages. Each has a part of the layers, and the stage with the fewest tokens decides for
            all.
          - From SGLang 0.5.2 on, and not together with O(speculative).
        type: int
        default: 1
      attention_data_parallel_size:
        description:
          - Number of groups into which attention data parallelism divides the ranks. Each group keeps the KV cache of
            its own requests, so that C(max_total_num_tokens) of the plan is that of one group.
        type: int
        default: 1
      expert_parallel_size:
        description: Number of groups between which the routed experts are divided.
        type: int
        default: 1
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
        description: Share of the GPU memory for weights and KV cache, between 0 and 1.
        type: float
      mem_fraction_auto:
        description:
          - Choose the largest O(server.mem_fraction_static), in thousandths, that leaves O(margin_bytes) of each GPU
            idle.
          - What is idle is taken from O(observed.idle_bytes_per_gpu), measured under
            O(observed.mem_fraction_static). Without it, the release's own default is the largest that is safe.
          - Of O(server.mem_fraction_static), this, O(server.leave_bytes) and O(server.target_tokens) one can be given.
        type: bool
        default: false
      leave_bytes:
        description:
          - Choose the largest O(server.mem_fraction_static) that leaves this many bytes of each GPU idle.
          - Without O(observed.idle_bytes_per_gpu) they stay idle beside the reserve that the release's own default
            keeps for activations and graphs.
        type: int
      target_tokens:
        description:
          - Choose the smallest O(server.mem_fraction_static) whose KV cache holds this many tokens, of one rank, which
            under attention data parallelism are those of one group. Refused above the fraction that
            O(server.mem_fraction_auto) would choose.
        type: int
      max_running_requests:
        description:
          - Requests that the server runs at once, at most. With O(speculative) the server takes 48 where it is left
            out.
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
      gpus:
        description:
          - Indexes of the GPUs in rank order. When empty they are chosen as
            P(gpufleet.sglang.placement#filter) does for one instance, without regard to who uses them now.
        type: list
        elements: int
        default: []
      numa_nodes:
        description:
          - NUMA node of each rank, in rank order, which SGLang is told by C(--numa-node). When empty it is the node of
            the rank's GPU, and SGLang is told only where it would not find it by itself.
        type: list
        elements: int
        default: []
      host:
        description: Address that the server binds.
        type: str
      port:
        description: TCP port that the server binds.
        type: int
      served_model_name:
        description: Name under which clients ask for the model.
        type: str
      model_path:
        description: Folder of the model on the node. That of O(model) when left out.
        type: path
      enable_metrics:
        description: Whether the server exposes C(/metrics).
        type: bool
        default: true
      extra_arguments:
        description:
          - Further flags of the server, without the leading dashes. Flags that the plan decides, or that change the
            memory in ways it does not count, are refused.
        type: dict
        default: {}
      environment:
        description:
          - Environment variables of the service that change what the plan computes. They are not set by the plan, which
            only has to know of them.
          - C(SGLANG_ENABLE_POST_CAPTURE_KV_SIZING) and C(SGLANG_MOONCAKE_CUSTOM_MEM_POOL) decide on the default of
            O(server.mem_fraction_static), C(SGLANG_VLM_CACHE_SIZE_MB), C(SGLANG_MM_FEATURE_CACHE_MB) and
            C(SGLANG_USE_CUDA_IPC_TRANSPORT) on what a model with a vision tower takes off the KV budget.
          - Any other variable is refused, and so are those that the plan sets itself.
        type: dict
        default: {}
  hicache:
    description: What is asked of the hierarchical KV cache.
    type: dict
    default: {}
    suboptions:
      enabled:
        description: Whether HiCache is on.
        type: bool
        default: true
      ratio:
        description: Host pool as a multiple of the device pool, above 0.
        type: float
      size_gb:
        description: Host pool in whole GB (1e9 bytes) per rank and pool.
        type: int
      host_memory_fraction:
        description: Share of the free host memory that the server sizes its pools by, from SGLang 0.5.21 on.
        type: float
      auto:
        description:
          - Choose the largest O(hicache.ratio), in hundredths, that every bound of the host allows beside
            O(host_reserve_bytes), the server's own check and strictly bound NUMA nodes included, and a slack of 1 % of
            what is available there, at least 2 GiB.
          - The slack is for what available memory falls by once the pools are there, as page tables and the lists of
            pinned pages take up to 0.8 % of them, and for what comes and goes on a host. A ratio that O(ledger) has in
            force may use it up - while every bound allows that ratio it stays, unless twice the slack and
            O(change_threshold) allow a larger one, or another argument changes anyway. It is lowered at once when a
            bound no longer allows it.
          - Where no ratio leaves the slack, it is the smallest that the release takes. Refused where none fits at all,
            with the largest O(server.max_total_tokens) beside which one does.
          - Of O(hicache.ratio), O(hicache.size_gb), O(hicache.host_memory_fraction), this, O(hicache.leave_bytes) and
            O(hicache.target_tokens) one can be given.
        type: bool
        default: false
      leave_bytes:
        description: The same as O(hicache.auto) with this in the place of O(host_reserve_bytes).
        type: int
      target_tokens:
        description: Choose the smallest O(hicache.ratio) whose host pool holds this many tokens a rank.
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
      hugepage_size:
        description:
          - Take the host pools from huge pages of this size, which have to be reserved beforehand on the NUMA nodes
            that they will lie on. From SGLang 0.5.13 on.
          - Reserved huge pages are not available memory, and the server's own check of available memory does not look
            at them. So it asks for as much available memory as before, though the pools take none of it.
        type: str
        choices: [2MB, 1GB]
      parallel_alloc_threads:
        description:
          - Populate each host pool with this many threads, in private memory with transparent huge pages. From SGLang
            0.5.23 on, and not together with O(hicache.hugepage_size).
        type: int
  speculative:
    description: Speculative decoding. Off when left out.
    type: dict
    suboptions:
      algorithm:
        description: Algorithm, for example V(EAGLE), V(EAGLE3), V(NEXTN), V(STANDALONE) or V(NGRAM).
        type: str
        required: true
      model:
        description:
          - Facts of the draft model, in the form of O(model). Left out where the target's own layers draft, whose
            number is C(structure.num_nextn_layers) of O(model).
          - Where a draft model is needed and its facts are left out, its weights and its caches are not counted. The
            plan says so, and refuses where a release takes them off the budget.
        type: dict
      model_path:
        description: Folder of the draft model on the node.
        type: path
      num_steps:
        description:
          - Steps of the draft for each verification. This, O(speculative.eagle_topk) and
            O(speculative.num_draft_tokens) are given together or left to the release, which chooses them by the model
            class.
        type: int
      eagle_topk:
        description: Tokens that the draft keeps at each step.
        type: int
      num_draft_tokens:
        description: Draft tokens that one verification takes.
        type: int
  observed:
    description: Measured values of an earlier start of the same instance. Each replaces an estimate.
    type: dict
    default: {}
    suboptions:
      kv_pool_bytes:
        description: KV budget of one GPU in bytes, of all its pools together where a model has several.
        type: int
      mem_fraction_static:
        description: The fraction under which O(observed.kv_pool_bytes) was measured. That of O(server) when left out.
        type: float
      available_before_load_bytes:
        description: Free memory of a GPU before the weights were loaded, minimum over the ranks, in bytes.
        type: int
      available_after_load_bytes:
        description:
          - Free memory of a GPU after the weights were loaded, minimum over the ranks, in bytes. With O(speculative)
            from SGLang 0.5.14 on, after those of the draft were, too.
        type: int
      idle_bytes_per_gpu:
        description: GPU memory that stays free while the server works under load, in bytes.
        type: int
      own_pinned_bytes:
        description:
          - Host memory that the ranks of the running instance of this plan hold now, pinned or private, in bytes. It
            is added to what is available, because a restart frees it first.
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
        description: Sentences about these values that the plan repeats among its own assumptions.
        type: list
        elements: str
  ledger:
    description:
      - Record of the last proven start of the instance, as RV(gpufleet.sglang.startup_status_info#module:ledger) gives
        it. What it measured takes the place of estimates, but for what O(observed) gives, as far as it holds for what
        is asked now.
      - With another release, model, layout or other GPUs only the rate of pinning holds, and that only if both releases
        allocate alike. With another O(server.dtype) or O(speculative), the memory before the weights does too. With
        other settings of how the server runs, all but the idle memory does. Under another O(server.mem_fraction_static)
        the KV budget moves by the memory before the weights times the difference.
      - C(in_force) in it tells whether that start runs now. Only then the GPUs in O(topology) tell what serving leaves
        idle of what was free at the end of the start, and only if no other process is on them. PyTorch keeps what it
        once took, so that is the least since the start; it is remembered in RV(plan.last_start) from plan to plan.
    type: dict
    default: {}
  change_threshold:
    description:
      - Share of the tokens in force that a setting which is chosen for a goal has to gain before it takes the place of
        the one in force, 0 or more and below 1. A ratio of HiCache has to leave twice its slack as well.
      - A setting in force that no longer fits is left whatever the gain, where it is short by more than the 0.02 GiB to
        which memory of GPUs is known.
    type: float
    default: 0.02
  margin_bytes:
    description: GPU memory in bytes that stays idle when a higher O(server.mem_fraction_static) is proposed or chosen.
    type: int
    default: 2147483648
  host_reserve_bytes:
    description: Host memory in bytes that stays free beside the pools. SGLang itself keeps 10 GiB.
    type: int
    default: 10737418240
  allow_oversubscription:
    description: Plan even where the host pools do not fit. The refusal becomes a warning in the plan.
    type: bool
    default: false
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.gpu_topology_info
  - module: gpufleet.sglang.model_info
"""

EXAMPLES = r"""
- name: Plan an instance on what was probed and read
  gpufleet.sglang.memory_plan:
    sglang_version: "0.5.23"
    model: "{{ model_read.model }}"
    topology: "{{ probe }}"
    server:
      tensor_parallel_size: 8
      mem_fraction_static: 0.88
    hicache:
      ratio: 4.0
  register: planned

- name: Hand idle memory to the KV cache, and the host the largest pools that are safe
  gpufleet.sglang.memory_plan:
    sglang_version: "0.5.23"
    model: "{{ model_read.model }}"
    topology: "{{ probe }}"
    server:
      tensor_parallel_size: 8
      mem_fraction_auto: true
    hicache:
      auto: true
    observed:
      mem_fraction_static: 0.88
      idle_bytes_per_gpu: 7000000000
  register: planned

- name: Plan on paper what a machine that is not there yet would do
  gpufleet.sglang.memory_plan:
    sglang_version: "0.5.9"
    model:
      architecture: Qwen3ForCausalLM
      attention:
        num_layers: 64
        num_attention_heads: 64
        num_kv_heads: 8
        head_dim: 128
      weights:
        total_bytes: 65524246528
    topology:
      gpus:
        - {index: 0, memory_total_bytes: 85520809984, numa_node: 0, compute_capability: "9.0"}
        - {index: 1, memory_total_bytes: 85520809984, numa_node: 0, compute_capability: "9.0"}
      numa_nodes:
        - {id: 0}
      host:
        memory_available_bytes: 500000000000
    server:
      tensor_parallel_size: 2
  register: planned
"""

RETURN = r"""
plan:
  description: The plan. Sizes are in bytes, times in seconds; what is not known is null.
  returned: success
  type: dict
  contains:
    sglang_version:
      description: The release that was planned for.
      type: str
      sample: 0.5.9
    model:
      description: Name of the model and family of its attention.
      type: dict
      sample: {name: Kimi-K2.5, family: mla}
    machine:
      description:
        - What the plan is for - boards with count and memory in bytes, NUMA nodes with their memory in all, host memory
          in all and available.
      type: dict
      sample:
        gpus:
          - {name: NVIDIA RTX PRO 6000 Blackwell Server Edition, memory_total_bytes: 102641958912, count: 8}
        numa_nodes: [0, 1]
        numa_memory_bytes: [null, null]
        memory_total_bytes: null
        memory_available_bytes: 396000000000
    device:
      description:
        - Memory of one GPU (or of one rank on a CPU). C(raise) is what idle memory would give through a higher
          fraction; it is a proposal and not applied, and null where the fraction was chosen for a goal.
          C(mem_fraction_source) tells V(given), V(observed) or V(default), or the goal, V(auto), V(leave_bytes) or
          V(target_tokens). C(headroom_bytes) is what stays idle under this fraction, by what was observed.
        - C(pools) are the pools of one rank by C(kind), V(kv), V(swa) (windows), V(indexer) (keys of sparse attention)
          V(mamba) (states of requests) and V(draft) (the draft of speculative decoding); those of compressed attention
          are V(swa), V(c4) and V(c128) (a row for 4 or 128 tokens), V(c4_indexer), V(c4_state), V(c4_indexer_state) and
          V(c128_state). C(slots) are tokens, rows or states; what is allocated has a page or a state more.
          C(bytes_per_token) is that of a token in all layers that keep every token.
        - C(stages) holds pools and weights of a rank by pipeline stage; C(pools) and C(weights_bytes) are those of the
          stage that takes most of each.
        - C(max_total_num_tokens) is that of one of C(token_groups), which attention data parallelism makes, and
          C(total_num_tokens) that of all of them. C(draft_weights_bytes) is 0 without a draft that loads any.
        - C(reserve) is what SGLang itself would keep of each GPU when C(mem_fraction_static) is left to it, and for
          what - C(constant_bytes) of attention backends, C(activations_bytes) of the largest step of prefill,
          C(graphs_bytes) of decode and prefill graphs, C(parallel_bytes) for each rank, C(attention_dp_bytes),
          C(speculative_bytes), C(experts_exchange_bytes), C(vision_bytes) of a vision tower, C(by_card_bytes) in
          releases that do not tell purposes apart, C(floor_bytes) what the least reserve adds, and C(rest_bytes) the
          rounding. They add up to C(total_bytes). Null on a CPU, and where the default is not known.
        - C(attention) is the attention backend that is named or that the release takes by itself, for prefill and
          decode, with the page size that it insists on and the type of cache that it sets. Null on a CPU.
      type: dict
      sample:
        device: cuda
        weights_bytes: 68375000000
        draft_weights_bytes: 0
        reserved_bytes: 12317966205
        available_before_load_bytes: 102649718374
        pools:
          - {kind: kv, slots: 159277, bytes_per_slot: 70272, allocated_bytes: 11192783616}
        budget_bytes: 11192713344
        kv_pool_bytes: 11192713344
        bytes_per_token: 70272
        page_size: 1
        max_total_num_tokens: 159277
        token_groups: 1
        total_num_tokens: 159277
        stages:
          - stage: 0
            first_layer: 0
            last_layer: 60
            weights_bytes: 68375000000
            pools:
              - {kind: kv, slots: 159277, bytes_per_slot: 70272, allocated_bytes: 11192783616}
        mem_fraction_static: 0.88
        mem_fraction_source: given
        reserve: null
        attention:
          {backend: triton, prefill: triton, decode: triton, page_size: 1, kv_cache_dtype: auto, given: false}
        headroom_bytes: 7000000000
        raise:
          idle_bytes_per_gpu: 7000000000
          margin_bytes: 2147483648
          mem_fraction_static: 0.927
          gained_bytes: 4824536763
          gained_tokens: 68655
          budget_bytes: 16017250107
          kv_pool_bytes: 16017237504
          max_total_num_tokens: 227932
          largest_ratio: 3.0
    host:
      description:
        - Host pools of all ranks. C(required_available_bytes) is what has to be available in truth;
          C(guard.required_bytes) is what the release's own check asks for (variant A of one rank's pool by itself, the
          others of the last pool to arrive); C(guard.verdict) is V(passes), V(depends_on_arrival_order), V(refuses) or
          V(unknown), of C(guard.available_bytes), which is what the check takes for available. Before SGLang 0.5.21 it
          does not look at control groups.
        - C(pools) are the pools of one rank by kind, in the order in which they are built; a size is shared by the KV,
          window and state pools from SGLang 0.5.17 on and is that of each before. Where pipeline stages differ, they
          are those of the stage with most bytes, and C(stages) holds the ranks of each with their bytes.
        - C(pinned_bytes) is more than C(bytes_per_rank) where the allocator rounds up, to powers of two (to SGLang
          0.5.4) or to whole huge pages; C(pinned_bytes_total) is that of all ranks.
        - C(unique_bytes) are those of caches that no other rank holds as well, and C(duplication_factor) says how many
          times they are pinned. C(remedies) are what the release has against it, each with C(code)
          (V(attention_data_parallel), V(pipeline_parallel), V(decode_context_parallel), V(storage)), C(message), the
          server's C(flags), the C(options) of this module that set them (empty where it plans no such thing), and
          C(unique_bytes_then) and C(factor_then), at the same bytes a rank.
        - C(limits) are all bounds on what one rank may pin, tightest first, in the proportions that the pools have in
          this plan. C(largest_ratio), C(largest_size_gb) and, where a fraction sizes the pools,
          C(largest_host_memory_fraction) respect them all.
        - C(numa) holds the NUMA nodes with CPUs and memory for a service; pools lie on no others. C(numa_binding) is
          V(strict), where a node's memory is the limit of its ranks, V(preferred) or V(none), which it is on machines
          with one node too. C(hugepages_free_bytes) are the node's free huge pages of C(hugepage_size).
        - C(meter) tells where pinned bytes show, V(shmem), V(anon), V(hugetlb) or V(available).
      type: dict
      sample:
        enabled: true
        sizing: ratio
        ratio: 4.0
        size_gb: null
        host_memory_fraction: null
        pools:
          - kind: kv
            tokens: 637109
            bytes_per_token: 70272
            bytes_per_rank: 44770923648
            pinned_bytes: 44770923648
        stages:
          - {ranks: [0, 1, 2, 3, 4, 5, 6, 7], bytes_per_rank: 44770923648, pinned_bytes_per_rank: 44770923648}
        tokens: 637109
        ranks: 8
        bytes_per_rank: 44770923648
        bytes_total: 358167389184
        pinned_bytes_total: 358167389184
        unique_bytes: 44770923648
        duplication_factor: 8.0
        remedies:
          - code: attention_data_parallel
            message: >-
              Attention data parallelism of 8: 8 groups of ranks keep the caches of requests of their own, 5,096,872
              host tokens instead of 637,109 at the same bytes a rank, 358.17 GB of them unique instead of 44.77 GB. A
              request finds what its own group keeps; attention weights are whole in each group, which takes tokens
              off the device.
            unique_bytes_then: 358167389184
            factor_then: 1.0
            flags: {enable-dp-attention: true, dp-size: 8}
            options: {server.attention_data_parallel_size: 8}
        numa:
          - node: 0
            ranks: [0, 1, 2, 3]
            pinned_bytes: 179083694592
            available_bytes: 198000000000
            left_bytes: 18916305408
            hugepages_free_bytes: null
          - node: 1
            ranks: [4, 5, 6, 7]
            pinned_bytes: 179083694592
            available_bytes: 198000000000
            left_bytes: 18916305408
            hugepages_free_bytes: null
        numa_binding: preferred
        reserve_bytes: 10737418240
        held_by_device_bytes: 0
        required_available_bytes: 368904807424
        available_bytes: 396000000000
        guard:
          variant: A
          verdict: passes
          required_bytes: 55508341888
          best_order_bytes: 55508341888
          worst_order_bytes: 368904807424
          available_bytes: 396000000000
        left_bytes: 37832610816
        limits:
          - name: host
            bytes_per_rank: 48157822720
            explanation: (396.00 GB available - 10.74 GB reserve) / 8 ranks
        largest_ratio: 4.3
        largest_size_gb: 48
        largest_host_memory_fraction: null
        hugepage_size: null
        meter: anon
        io_backend: kernel
        mem_layout: layer_first
        write_policy: write_through
    placement:
      description:
        - Which rank runs on which GPU and lives on which NUMA node with its threads and its pool. That is the GPU's own
          node or, where this has no CPUs or no memory for a service, the nearest that has; null where it is not known.
      type: list
      elements: dict
      sample:
        - {rank: 0, gpu: 0, numa_node: 0}
    timing:
      description:
        - How long loading, pinning, the rest and the whole start take, and where the rate of pinning comes from.
      type: dict
      sample:
        load_seconds: 547.0
        pin_seconds: 88.8
        rest_seconds: 120.0
        start_seconds: 755.8
        pin_bytes_per_second: 4032258064.5
        source: field rates of sgl-project/sglang#31424
    unit:
      description:
        - What the systemd unit needs to know, with the environment that puts ranks on their GPUs.
        - C(timeout_start_seconds) is 600 s and four times what is expected, C(timeout_stop_seconds) 300 s for requests
          to end, what the release itself waits for, and twice the time to unpin. Each is the one in force as long as
          that is not far from it.
        - C(limit_memlock) is V(infinity), as the driver pins without regard to it while RDMA and C(mlock) are bound
          by it; C(limit_memlock_bytes) is the least for a rank that locks its whole pool.
        - C(ports) are all TCP ports that the server takes, C(ports_one_of) ranges out of which it takes one that is
          free.
      type: dict
      sample:
        timeout_start_seconds: 3624
        timeout_stop_seconds: 382
        limit_memlock: infinity
        limit_memlock_bytes: 45844665472
        ports:
          http: {first: 30000, last: 30000, address: 127.0.0.1}
        ports_one_of:
          nccl: {first: 32768, last: 60999, address: 127.0.0.1}
        success_exit_status: [SIGKILL]
        environment: {}
    arguments:
      description: Flags without dashes and their values, for the file that SGLang reads with C(--config).
      type: dict
      sample:
        device: cuda
        enable-hierarchical-cache: true
        enable-metrics: true
        hicache-ratio: 4.0
        mem-fraction-static: 0.88
        model-path: /srv/models/Kimi-K2.5
        tp-size: 8
    settings:
      description:
        - What was asked for, in the parts that decide whether what a start measured holds for another plan,
          C(identity), C(loading) and C(running).
      type: dict
      sample:
        loading: {dtype: auto, speculative: null}
    last_start:
      description:
        - What was used of O(ledger), null without one. C(observed) took the place of estimates,
          C(load_bytes_per_gpu) is the most that serving was seen to take of a GPU beside what the start took,
          C(notes) say what was not used and why.
      type: dict
      sample:
        observed:
          pin_bytes_per_second: 3918594905.2
          available_before_load_bytes: 102649718374
          kv_pool_bytes: 11192713344
          mem_fraction_static: 0.88
        load_bytes_per_gpu: null
        notes: []
    accuracy:
      description:
        - By how much the plan in O(ledger) was off, empty without one. C(difference) is C(measured) less C(planned),
          C(percent) its share of C(planned); a measured figure is known to C(resolution). Bytes, tokens or seconds, as
          C(figure) says.
      type: list
      elements: dict
      sample:
        - figure: available_before_load_bytes
          planned: 99419684864
          measured: 102649718374
          resolution: 10737418
          difference: 3230033510
          percent: 3.25
    warnings:
      description: What is allowed but should be known, each with C(code), C(severity), C(message) and C(remedy).
      type: list
      elements: dict
      sample: []
    assumptions:
      description: What was taken for granted because it was neither given nor measured.
      type: list
      elements: str
      sample:
        - The weights divide evenly over the ranks.
    explanation:
      description: The arithmetic, one formula a line.
      type: list
      elements: str
      sample:
        - tokens = 11,192,713,344 bytes // 70,272 = 159,277
failure:
  description: Why there is no plan. C(evidence) holds the computed values, such as C(largest_ratio).
  returned: failure
  type: dict
  sample:
    code: host_memory_short
    message: >-
      HiCache ratio 8.0 pins 89.54 GB a rank, 716.33 GB with 8 ranks; the host allows 48.16 GB a rank:
      (396.00 GB available - 10.74 GB reserve) / 8 ranks.
    remedy: Set hicache.ratio to 4.3 or less (or hicache.size_gb 48).
    evidence:
      largest_ratio: 4.3
      largest_size_gb: 48
      required_available_bytes: 727071634432
      available_bytes: 396000000000
"""
