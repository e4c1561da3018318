# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every problem and refusal of a memory plan: code, severity, what it means, what to do about it."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "architecture_unplanned": ProblemCode(
        "error",
        "The caches of this architecture, or of this shape of it, were not read, or not in this release.",
        "Take one of the models or releases that the message names, or plan from an observed start where it says so.",
    ),
    "arguments_invalid": ProblemCode(
        "error",
        "The options of a plan or of a search for capacity are not those that it takes.",
        "Correct the option that the message names, as ansible-doc describes it.",
    ),
    "attention_backend_overridden": ProblemCode(
        "error",
        "SGLang serves this model with one attention backend, whatever is asked for.",
        "Leave server.attention_backend out, or set it to the one that the message names.",
    ),
    "attention_data_parallel_rewritten": ProblemCode(
        "error",
        "The release would switch to another attention_data_parallel_size for this model.",
        "Set the size that the message names, or take a later release.",
    ),
    "attention_data_parallel_uneven": ProblemCode(
        "error",
        "attention_data_parallel_size does not divide tensor_parallel_size.",
        "Set one of the sizes that the message lists.",
    ),
    "change_threshold_out_of_range": ProblemCode(
        "error",
        "change_threshold is no share from 0 up to below 1.",
        "Give such a share, for example 0.02.",
    ),
    "choice_unknown": ProblemCode(
        "error",
        "A setting has a value that this release of SGLang does not know.",
        "Take one of the values that the message lists, or another release.",
    ),
    "context_exceeds_cache": ProblemCode(
        "warning",
        "context_length is more than the KV cache holds, so a request of full length cannot be served.",
        "Lower context_length or make room for more tokens.",
    ),
    "control_group_short": ProblemCode(
        "error",
        "The host pools do not fit into the memory limit of the control group of the service.",
        "Lower what the host tier asks for as the message says, or raise the limit.",
    ),
    "draft_in_reserve": ProblemCode(
        "warning",
        "The draft model takes its memory out of what mem_fraction_static leaves free for activations and graphs.",
        "Lower server.mem_fraction_static, or give observed.idle_bytes_per_gpu of a start with the draft.",
    ),
    "draft_not_planned": ProblemCode(
        "warning",
        "A draft model is asked for without its facts, so that what it takes is not counted.",
        "Give speculative.model as model_info reads it, or what a start with the draft measured.",
    ),
    "draft_weights_unknown": ProblemCode(
        "error",
        "The size of the draft's weights, which are loaded before the pools are sized, is not known.",
        "Give speculative.model with weights.total_bytes, or observed.available_after_load_bytes.",
    ),
    "environment_malformed": ProblemCode(
        "error",
        "A variable of server.environment has a value that SGLang cannot read and leaves for its default.",
        "Give a value as the message says.",
    ),
    "environment_owned": ProblemCode(
        "error",
        "server.environment sets a variable that the plan decides.",
        "Set the option that the message names.",
    ),
    "expert_parallel_uneven": ProblemCode(
        "error",
        "expert_parallel_size does not divide the experts of the model, or tensor_parallel_size.",
        "Set one of the sizes that the message lists.",
    ),
    "fraction_above_default": ProblemCode(
        "warning",
        "mem_fraction_static is above the release's own default and leaves less for activations and graphs.",
        "Watch the first start for memory errors, or leave mem_fraction_static out.",
    ),
    "fraction_below_default": ProblemCode(
        "info",
        "mem_fraction_static is below the release's own default and leaves memory of the GPUs unused.",
        "Raise it if nothing else needs the memory.",
    ),
    "goal_needs_gpu": ProblemCode(
        "error",
        "A goal for mem_fraction_static is given on a CPU, where the fraction decides nothing.",
        "Set server.max_total_tokens.",
    ),
    "gpu_memory_unknown": ProblemCode(
        "error",
        "The memory of the GPUs is not known.",
        "Give topology.gpus[].memory_total_bytes, or what an earlier start measured.",
    ),
    "guard_blind": ProblemCode(
        "warning",
        "SGLang's own check of the host memory would let pools start that do not fit.",
        "Do not rely on that check; lower the pools as the plan says.",
    ),
    "guard_refuses": ProblemCode(
        "error",
        "SGLang's own check of the host memory would end the start: the host pools are more than it allows.",
        "Lower what the host tier asks for as the message says, or free host memory.",
    ),
    "hicache_off_ignores": ProblemCode(
        "warning",
        "hicache.enabled is false beside options that size the host tier.",
        "Set hicache.enabled to true, or leave those options out.",
    ),
    "hicache_unsupported": ProblemCode(
        "error",
        "This release has no host tier for a pool of this model, or not in the way that it is asked for.",
        "Set hicache.enabled to false, or do what the message says.",
    ),
    "host_memory_short": ProblemCode(
        "error",
        "The host pools, or the caches and weights of a CPU server, do not fit into the available host memory.",
        "Lower what is asked for as the message says, or free host memory.",
    ),
    "host_memory_unknown": ProblemCode(
        "warning",
        "The available host memory is not known: nothing is checked against it, and a goal for the host tier is "
        "refused.",
        "Give topology.host.memory_available_bytes.",
    ),
    "host_pool_below_device": ProblemCode(
        "error",
        "The host pool would hold no more tokens than the GPUs, which the release refuses.",
        "Set a ratio above 1, within what the message says.",
    ),
    "host_pool_empty": ProblemCode(
        "error",
        "What is asked for gives a host pool of no tokens.",
        "Ask for more, or set hicache.enabled to false.",
    ),
    "host_target_tokens_out_of_reach": ProblemCode(
        "error",
        "hicache.target_tokens is more than the largest ratio that fits gives.",
        "Set as many tokens as the message says or fewer, or give the host more memory.",
    ),
    "hugepage_size_unknown": ProblemCode(
        "error",
        "hicache.hugepage_size is no size of huge pages that SGLang takes.",
        "Take one that the message lists, or leave it out.",
    ),
    "hugepages_short": ProblemCode(
        "error",
        "The host pools do not fit into the huge pages that are free.",
        "Reserve more huge pages, or lower what the host tier asks for.",
    ),
    "hugepages_unknown": ProblemCode(
        "warning",
        "The pools are to lie in huge pages, and how many are free on which node is not known.",
        "Give topology.numa_nodes[].hugepages as gpu_topology_info does.",
    ),
    "hugepages_unsupported": ProblemCode(
        "error",
        "This release takes no host pool from huge pages.",
        "Leave hicache.hugepage_size out, or take a later release.",
    ),
    "hugepages_unused": ProblemCode(
        "warning",
        "Memory lies in free huge pages that the plan does not use, and is not available to anybody else.",
        "Release those pages, or have the pools lie in them where the release can.",
    ),
    "io_backend_needs_gpu": ProblemCode(
        "warning",
        "The HiCache copies of this io backend are GPU kernels, and the device is a CPU.",
        "Set hicache.io_backend to direct, with the layout that the message names.",
    ),
    "kv_budget_empty": ProblemCode(
        "error",
        "Nothing, or less than a KV cache takes, is left of the GPUs at this mem_fraction_static.",
        "Raise mem_fraction_static, use more GPUs or a smaller model.",
    ),
    "kv_cache_dtype_ambiguous": ProblemCode(
        "error",
        "kv_cache_dtype is auto, and what SGLang makes of it depends on what is not known here.",
        "Set kv_cache_dtype, or give the compute capability where the message asks for it.",
    ),
    "kv_cache_dtype_unplanned": ProblemCode(
        "error",
        "The bytes of this data type of the KV cache are not planned for this model.",
        "Take one of the types that the message lists.",
    ),
    "leave_bytes_too_large": ProblemCode(
        "error",
        "With so much of each GPU left idle, nothing remains for the KV cache.",
        "Set the largest value that the message names, or less.",
    ),
    "mem_fraction_ambiguous": ProblemCode(
        "error",
        "mem_fraction_static and a goal for it, or two goals, are given together.",
        "Keep one.",
    ),
    "mem_fraction_static_out_of_range": ProblemCode(
        "error",
        "A fraction, given or the release's default for these settings, is not between 0 and 1.",
        "Set one between 0 and 1, or lower what the release keeps a reserve for.",
    ),
    "mem_fraction_static_rewritten": ProblemCode(
        "error",
        "The release would switch to another mem_fraction_static for this model.",
        "Set the one that the message names, leave it out, or take a later release.",
    ),
    "mem_fraction_static_unknown": ProblemCode(
        "error",
        "mem_fraction_static is not set, and its default cannot be computed from what is known.",
        "Set it, or give the facts or measurements that the message names.",
    ),
    "numa_node_overflows": ProblemCode(
        "warning",
        "The ranks of a NUMA node pin more memory than it has; the rest comes from other nodes.",
        "Lower hicache.ratio, or spread the ranks over the nodes.",
    ),
    "numa_node_short": ProblemCode(
        "error",
        "The host pools of the ranks bound to a NUMA node do not fit into its memory.",
        "Lower what the host tier asks for as the message says, or spread the ranks over the nodes.",
    ),
    "observed_fraction_missing": ProblemCode(
        "error",
        "Measurements of a start are given without the mem_fraction_static under which they were taken.",
        "Give observed.mem_fraction_static.",
    ),
    "observed_inconsistent": ProblemCode(
        "error",
        "A measured part is larger than the whole that it was measured of.",
        "Correct the two figures of observed.",
    ),
    "option_malformed": ProblemCode(
        "error",
        "An option that has options of its own is no mapping.",
        "Give a mapping with the keys that the message lists.",
    ),
    "option_unknown": ProblemCode(
        "error",
        "An option is not known.",
        "Take the name that the message gives as the closest, or leave it out.",
    ),
    "oversubscribed": ProblemCode(
        "error",
        "The plan is refused and was forced all the same.",
        "Do what the refusal in the message says.",
    ),
    "parallel_alloc_unsupported": ProblemCode(
        "error",
        "This release populates a host pool with one thread.",
        "Leave hicache.parallel_alloc_threads out, or take a later release.",
    ),
    "parallel_alloc_unused": ProblemCode(
        "error",
        "Several threads are asked for beside huge pages, which SGLang populates with one.",
        "Keep one of the two options.",
    ),
    "pipeline_parallel_uneven": ProblemCode(
        "error",
        "There are more pipeline stages than layers.",
        "Set as many stages as there are layers, or fewer.",
    ),
    "pipeline_parallel_unplanned": ProblemCode(
        "error",
        "In this release the pipeline stages end with different numbers of tokens.",
        "Set pipeline_parallel_size to 1, or take a later release.",
    ),
    "pipeline_stages_keep_all_layers": ProblemCode(
        "warning",
        "Each pipeline stage keeps the KV cache of all layers of this model.",
        "Spread the model with tensor_parallel_size, unless only the weights have to be divided.",
    ),
    "pipeline_unsupported": ProblemCode(
        "error",
        "This release does not run the model over pipeline stages.",
        "Set pipeline_parallel_size to 1, or take a release that does.",
    ),
    "pools_exceed_budget": ProblemCode(
        "warning",
        "SGLang allocates more for a token than it counts, so the pools take of what is kept for activations and "
        "graphs; an error where they take more than is kept.",
        "Lower max_total_tokens or mem_fraction_static as the message says.",
    ),
    "running_requests_missing": ProblemCode(
        "error",
        "Speculative decoding with this model keeps a state for each draft token of each request, and "
        "max_running_requests is not set.",
        "Set server.max_running_requests.",
    ),
    "speculative_incomplete": ProblemCode(
        "error",
        "Some of the speculative lengths are given, and SGLang takes all or none.",
        "Give num_steps, eagle_topk and num_draft_tokens, or none of them.",
    ),
    "speculative_layers_unknown": ProblemCode(
        "error",
        "How many layers of the model draft is not known, or there are none.",
        "Give model.structure.num_nextn_layers, or a draft model.",
    ),
    "speculative_lengths_rewritten": ProblemCode(
        "error",
        "SGLang would verify another number of draft tokens than is asked for.",
        "Set the number that the message names, or leave it out.",
    ),
    "speculative_lengths_unreal": ProblemCode(
        "error",
        "The draft tokens are more than the steps can draft, or than a request can use.",
        "Set the number that the message names, or less.",
    ),
    "speculative_model_missing": ProblemCode(
        "error",
        "The algorithm drafts with another model, and none is given.",
        "Set speculative.model_path and give its facts under speculative.model.",
    ),
    "speculative_unplanned": ProblemCode(
        "error",
        "This speculative algorithm, or the pools that it gives this model or draft, are not counted.",
        "Take an algorithm or a draft that the message names, or leave speculative out.",
    ),
    "speculative_with_attention_dp": ProblemCode(
        "error",
        "SGLang refuses this algorithm together with attention data parallelism.",
        "Set attention_data_parallel_size to 1, or take another algorithm.",
    ),
    "speculative_with_pipeline": ProblemCode(
        "error",
        "SGLang does not serve this algorithm over pipeline stages.",
        "Set pipeline_parallel_size to 1, or leave speculative out.",
    ),
    "state_pool_empty": ProblemCode(
        "error",
        "The budget does not hold the states of one request.",
        "Raise mem_fraction_static, use more GPUs, or lower max_running_requests or the draft tokens.",
    ),
    "state_slots_missing": ProblemCode(
        "error",
        "On a CPU there is no budget to divide between states and tokens, and the number of states is not given.",
        "Set max-mamba-cache-size in extra_arguments.",
    ),
    "target_tokens_out_of_reach": ProblemCode(
        "error",
        "server.target_tokens is more than the largest safe mem_fraction_static gives.",
        "Set as many tokens as the message says or fewer, or use more or larger GPUs.",
    ),
    "tensor_parallel_uneven": ProblemCode(
        "error",
        "The ranks do not divide the heads of the model evenly.",
        "Set one of the sizes that the message lists.",
    ),
    "token_cap_below_a_page": ProblemCode(
        "error",
        "max_total_tokens is less than a page of the KV cache.",
        "Set a page or more.",
    ),
    "token_cap_missing": ProblemCode(
        "error",
        "On a CPU there is no card to measure a budget on, and max_total_tokens is not set.",
        "Set server.max_total_tokens.",
    ),
    "token_cap_not_reached": ProblemCode(
        "warning",
        "max_total_tokens is more than the memory holds, and SGLang takes the smaller.",
        "Drop the cap, or raise mem_fraction_static.",
    ),
    "value_malformed": ProblemCode(
        "error",
        "A value is not of the kind that is expected.",
        "Give a value as the message says.",
    ),
    "value_negative": ProblemCode(
        "error",
        "A value is below 0.",
        "Give 0 or more.",
    ),
    "value_not_positive": ProblemCode(
        "error",
        "A value is not above 0.",
        "Give a value above 0, of the kind that the message says.",
    ),
    "value_out_of_range": ProblemCode(
        "error",
        "A value is outside of its range.",
        "Give a value within the range that the message names.",
    ),
    "version_not_verified": ProblemCode(
        "warning",
        "The rules of this release come from its source, or from that of the release that it amends, and were not "
        "held against a running server.",
        "Compare the first start with the plan.",
    ),
    "weights_unknown": ProblemCode(
        "error",
        "The size of the model's weights is not known.",
        "Give model.weights.total_bytes, or observed.available_after_load_bytes.",
    ),
    "window_pool_too_small": ProblemCode(
        "error",
        "The pool of the window layers cannot hold one request.",
        "Raise swa-full-tokens-ratio or mem_fraction_static.",
    ),
}
