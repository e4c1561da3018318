# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with how a server is to be started: code, severity, meaning, remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "attention_backend_without_sinks": ProblemCode(
        "error",
        "The attention backend does not know the attention sinks of the model, so the server would end its start.",
        "Take one that the message lists, or leave the choice to the server.",
    ),
    "config_file_unsupported": ProblemCode(
        "error",
        "This release cannot read its arguments from a file, so this collection can plan it and not start it.",
        "Take a later release to start servers.",
    ),
    "draft_not_in_host_tier": ProblemCode(
        "warning",
        "HiCache of this release does not keep the draft's cache, so that fewer drafted tokens are accepted after a "
        "hit.",
        "Take a release that keeps it, or compare accepted lengths of a cold prompt and of a hit.",
    ),
    "extra_argument_absent": ProblemCode(
        "error",
        "The release does not know a flag of extra_arguments.",
        "Correct or leave out the flag, or take a release that has it.",
    ),
    "extra_argument_excludes_hicache": ProblemCode(
        "error",
        "A flag of extra_arguments cannot be had together with HiCache.",
        "Leave it out, or set hicache.enabled to false.",
    ),
    "extra_argument_malformed": ProblemCode(
        "error",
        "A key of extra_arguments is no flag, or its value is not of the kind that the flag takes.",
        "Give a flag without leading dashes, and a value as the message says.",
    ),
    "extra_argument_not_in_file": ProblemCode(
        "error",
        "The release takes the flag on its command line and refuses it in the configuration file.",
        "Leave it out, or take a release that reads it.",
    ),
    "extra_argument_owned": ProblemCode(
        "error",
        "The plan decides what this flag of extra_arguments sets.",
        "Set the option that the message names.",
    ),
    "extra_argument_shortened": ProblemCode(
        "error",
        "A key of extra_arguments is the beginning of a flag, which the server may take for that flag.",
        "Write the flag in full.",
    ),
    "extra_argument_translated": ProblemCode(
        "info",
        "The release has another name for what a flag of extra_arguments sets, and the plan gives that one.",
        "Write it so in extra_arguments.",
    ),
    "extra_argument_twice": ProblemCode(
        "error",
        "Two keys of extra_arguments set the same flag.",
        "Keep one of the two.",
    ),
    "extra_argument_uncounted": ProblemCode(
        "warning",
        "A flag of extra_arguments takes memory beside what the plan counts; how much shows in a start only.",
        "Leave more of each GPU free (a lower mem_fraction_static, or leave_bytes) until a start has measured it.",
    ),
    "extra_argument_unplanned": ProblemCode(
        "error",
        "A flag of extra_arguments changes how much memory is taken, or by whom, in a way that the plan does not "
        "count.",
        "Leave it out, or give the measurements that the message asks for.",
    ),
    "extra_argument_unweighed": ProblemCode(
        "info",
        "A flag of extra_arguments is not weighed by the plan: what it takes of GPUs or host memory was not read.",
        "Compare what a start with it takes with the plan, or leave it out.",
    ),
    "gpus_on_cpu": ProblemCode(
        "error",
        "server.gpus is given and server.device is cpu.",
        "Drop one of the two.",
    ),
    "hicache_attention_dp_hangs": ProblemCode(
        "error",
        "HiCache of this release hangs with attention data parallelism.",
        "Take SGLang 0.4.8 or newer, or do without one of the two.",
    ),
    "hicache_direct_small_pages": ProblemCode(
        "warning",
        "The direct io backend copies page by page, and a page is one token.",
        "Set server.page_size to 64, or hicache.io_backend to kernel.",
    ),
    "hicache_fraction_out_of_range": ProblemCode(
        "error",
        "hicache.host_memory_fraction is not above 0 and up to 1.",
        "Give such a share, for example 0.8.",
    ),
    "hicache_fraction_unsupported": ProblemCode(
        "error",
        "This release cannot size the host pool as a share of the host memory.",
        "Set hicache.ratio or hicache.size_gb, or take a later release.",
    ),
    "hicache_io_backend_rewritten": ProblemCode(
        "error",
        "SGLang would switch to another io backend than the one that is asked for.",
        "Set the one that the message names, or do without what causes it.",
    ),
    "hicache_layout_rewritten": ProblemCode(
        "error",
        "SGLang would switch to another memory layout than the one that is asked for.",
        "Set the layout that the message names, or another io backend.",
    ),
    "hicache_layout_unsupported": ProblemCode(
        "error",
        "This release keeps no host pool of this kind in the memory layout that is asked for, and would end its start.",
        "Set a layout that the message names.",
    ),
    "hicache_ratio_not_positive": ProblemCode(
        "error",
        "hicache.ratio is not above 0.",
        "Give a number above 0, or set hicache.enabled to false.",
    ),
    "hicache_refused_by_server": ProblemCode(
        "error",
        "The release refuses HiCache with these settings.",
        "Do what the message says.",
    ),
    "hicache_registration_unchecked": ProblemCode(
        "warning",
        "The release does not look whether a host pool could be pinned.",
        "Take SGLang 0.5.13 or newer, or compare the pinned bytes of the start with the plan.",
    ),
    "hicache_selective_write": ProblemCode(
        "info",
        "With write_through_selective a prompt is copied to the host when it is met for the second time.",
        "Set write_through where every prompt is to be kept.",
    ),
    "hicache_size_not_positive": ProblemCode(
        "error",
        "hicache.size_gb is not above 0, and SGLang would ignore it.",
        "Give a whole number of GB (1e9 bytes) a rank above 0.",
    ),
    "hicache_sizing_ambiguous": ProblemCode(
        "error",
        "Several options size the host pools, and one would win silently.",
        "Keep one.",
    ),
    "hicache_states_restored": ProblemCode(
        "warning",
        "Host hits of a model with states were reported to answer otherwise than a cold prompt.",
        "Keep the canary of serving_check on, which compares the two.",
    ),
    "hicache_transfer_unsupported": ProblemCode(
        "error",
        "The release starts with this io backend and layout, and has no copy for them: the first backup would end "
        "the scheduler.",
        "Set one of the values that the message lists.",
    ),
    "hicache_with_ngram": ProblemCode(
        "warning",
        "NGRAM was reported to fail with HiCache, which the release does not refuse.",
        "Let serving_check prove the server before it serves, or leave speculative out.",
    ),
    "port_handed_out": ProblemCode(
        "info",
        "A port of the server is among those that the kernel or SGLang hands out to anybody.",
        "Choose a port outside, such as 30000, or reserve it.",
    ),
    "port_out_of_range": ProblemCode(
        "error",
        "A port of the server is not from 1 to 65535.",
        "Set server.port or the flag so that all its ports exist.",
    ),
    "ports_clash": ProblemCode(
        "error",
        "Two parts of one server would bind the same port.",
        "Give each a port of its own.",
    ),
    "ports_exhausted": ProblemCode(
        "error",
        "No range of ports is left for an instance that leaves its port open.",
        "Set sglang_port for it.",
    ),
    "secret_in_arguments": ProblemCode(
        "error",
        "A flag of extra_arguments holds a secret, and SGLang prints its arguments.",
        "Leave it out. The role sglang hands keys over as credentials (sglang_api_key, sglang_admin_api_key).",
    ),
    "sglang_version_malformed": ProblemCode(
        "error",
        "sglang_version is no version number.",
        "Give one such as 0.5.23, quoted.",
    ),
    "sglang_version_unknown": ProblemCode(
        "error",
        "The release is not known to this collection.",
        "Take one of the range that the message names, or a newer collection.",
    ),
    "states_need_gpu": ProblemCode(
        "error",
        "The release keeps the states of this model by a strategy that no CPU can do.",
        "Give the flags that the message names.",
    ),
    "states_overlap_schedule": ProblemCode(
        "error",
        "The strategy that keeps the states goes with no overlapped schedule in this release.",
        "Give disable-overlap-schedule in extra_arguments, or leave the strategy out.",
    ),
    "states_page_size": ProblemCode(
        "error",
        "The strategy that keeps the states takes pages of one token only.",
        "Set server.page_size to 1, or another strategy.",
    ),
}
