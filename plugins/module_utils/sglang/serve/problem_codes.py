# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with a server that is to serve: code, severity, meaning, remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "answers_alike": ProblemCode(
        "warning",
        "All answers of the burn-in are the same, or empty texts, though the prompts differ.",
        "Read some answers: a model may do so with prompts that mean nothing, and one with wrong weights does.",
    ),
    "answers_garbage": ProblemCode(
        "error",
        "All answers of the burn-in consist of the vocabulary's first token, as logits that are no numbers give it.",
        "Look at the data type, the quantisation and the weights: they overflow, or do not belong together.",
    ),
    "burn_in_cut_short": ProblemCode(
        "warning",
        "The time for the burn-in ended it before all of its requests were sent; none was answered wrongly.",
        "Raise burn_in_max_seconds, or lower burn_in_requests.",
    ),
    "burn_in_failed": ProblemCode(
        "error",
        "A request of the burn-in was refused, aborted, or answered with fewer tokens than were asked for.",
        "Look at the log of the unit for what happened to it.",
    ),
    "burn_in_hang": ProblemCode(
        "error",
        "A request of the burn-in took many times longer than the first ones: the server has stopped generating.",
        "Restart it, and look in its log for a rank that stopped, a watchdog or a collective that waits.",
    ),
    "burn_in_outliers": ProblemCode(
        "warning",
        "Some requests of the burn-in took several times the median.",
        "Run it again when nothing else is served; if one rank is slow each time, look at its GPU's clocks and links.",
    ),
    "canary_cut_short": ProblemCode(
        "warning",
        "A bound of the churn ended it before the device pool was full, so that the host tier is not proven.",
        "Allow what the message names, or set canary to false.",
    ),
    "canary_failed": ProblemCode(
        "error",
        "A request of the canary was refused, or the server went away.",
        "Look at the log of the unit for what happened to it.",
    ),
    "canary_hang": ProblemCode(
        "error",
        "A request of the canary was not answered in the time for a request.",
        "Look at the log of the unit for what happened to it; a hit that hangs cannot load from the host pool.",
    ),
    "canary_host_tier_off": ProblemCode(
        "warning",
        "The server says that HiCache or the radix cache is off, and no host tier was planned, so that none is proven.",
        "Start it with enable_hierarchical_cache and without disable_radix_cache, or set canary to false.",
    ),
    "canary_impossible": ProblemCode(
        "warning",
        "The sizes of the pools, of a page or of the context let no canary prove the host tier.",
        "Give the host pool more room than the device pool, or set canary to false.",
    ),
    "canary_known": ProblemCode(
        "error",
        "A prompt that was never sent is said to be cached.",
        "Look at who answers: a proxy may answer from a cache of its own.",
    ),
    "canary_not_restored": ProblemCode(
        "error",
        "A prompt that left the device pool did not come back from the host tier.",
        "Look in the log for what HiCache was rewritten to and for failed copies; write_through stores all at once.",
    ),
    "canary_ranks_unproven": ProblemCode(
        "warning",
        "Not all data parallel ranks had a hit in their host tier.",
        "Raise churn_max_seconds and timeout_seconds, as the ranks are proven in turn.",
    ),
    "canary_size_unknown": ProblemCode(
        "warning",
        "Nothing tells the size of the device pool, which the canary has to fill.",
        "Give expected.max_total_num_tokens, set enable_metrics, or set canary to false.",
    ),
    "canary_source_unknown": ProblemCode(
        "warning",
        "The server does not say where cached tokens come from, so that the host tier is not proven.",
        "Set enable_metrics; SGLang 0.5.9 and newer say it in the answer itself.",
    ),
    "canary_stays": ProblemCode(
        "error",
        "The canary is still on the device after more prompts than the device pool holds.",
        "Raise churn_max_tokens and churn_max_requests, or look at what routes requests to another server.",
    ),
    "canary_text_differs": ProblemCode(
        "error",
        "What came back from the host tier gives another text at temperature 0, each time alike.",
        "Take another io backend or layout, or leave HiCache off, and report it.",
    ),
    "chat_failed": ProblemCode(
        "error",
        "A chat completion failed.",
        "Give the server a chat template, or set chat to false for a model without one.",
    ),
    "device_capacity_below_plan": ProblemCode(
        "error",
        "The device pool holds fewer tokens than planned.",
        "Free the GPUs of other processes and restart the instance, or plan anew with what this start has measured.",
    ),
    "draft_collapsed": ProblemCode(
        "error",
        "After a hit far fewer drafted tokens are accepted than after a cold prompt.",
        "Look in the log for what became of the draft's host pool; compare with HiCache off.",
    ),
    "draft_not_restored": ProblemCode(
        "warning",
        "After a hit in the host tier far fewer drafted tokens are accepted, as this release does not keep them there.",
        "Take 0.5.11 or newer, or expect slower answers after hits in the host tier.",
    ),
    "generation_failed": ProblemCode(
        "error",
        "The server is healthy and did not generate a token.",
        "Look at the log of the unit; if the message is not of SGLang, at who holds the port.",
    ),
    "generation_hangs": ProblemCode(
        "error",
        "The server calls itself healthy and does not answer a request for one token.",
        "Restart it, and look in its log for a rank that stopped, a watchdog or a collective that waits.",
    ),
    "generation_paused": ProblemCode(
        "error",
        "The server generates nothing, and /ready says that generation is paused or that it drains.",
        "Let it go on (/continue_generation), or wait until it has drained.",
    ),
    "header_malformed": ProblemCode(
        "error",
        "A key or header holds what HTTP cannot carry.",
        "Give printable ASCII without blanks or line breaks at its ends.",
    ),
    "health_lost": ProblemCode(
        "error",
        "The server was healthy, answered the burn-in and is not healthy after it.",
        "Look at the log of the unit.",
    ),
    "health_not_reached": ProblemCode(
        "error",
        "The server did not become healthy in time.",
        "Look at the log of the unit: 503 means that it starts, drains or does not answer its own request.",
    ),
    "host_tier_differs": ProblemCode(
        "error",
        "The host tier holds more or fewer tokens than planned.",
        "Compare hicache_ratio and hicache_size in the log with the plan, and restart the instance.",
    ),
    "host_tier_missing": ProblemCode(
        "error",
        "A host tier was planned, and the gauges show none.",
        "Start the server with enable_hierarchical_cache; look in its log for what switched HiCache off.",
    ),
    "host_tier_off": ProblemCode(
        "error",
        "A host tier was planned, and the server says that HiCache or the radix cache is off.",
        "Start it with enable_hierarchical_cache and without disable_radix_cache, or set canary to false.",
    ),
    "key_not_asked_for": ProblemCode(
        "error",
        "The server is to ask for a key and answers without one.",
        "Stop it, and look at how it was started: it runs without its key, or something in front adds it.",
    ),
    "key_rejected": ProblemCode(
        "error",
        "The server did not accept the API key.",
        "Give the server's own key as api_key.",
    ),
    "key_unreadable": ProblemCode(
        "error",
        "The file that holds the API key cannot be read.",
        "Give api_key_file as a file on the node, and run the task as root.",
    ),
    "listener_is_another": ProblemCode(
        "error",
        "Another process than the one that was started listens on the port.",
        "Look at who that is (listener_info), end it, and let the instance start again.",
    ),
    "metrics_off": ProblemCode(
        "warning",
        "The server has no metrics, so that the pools cannot be compared with the plan by gauge.",
        "Set enable_metrics.",
    ),
    "model_differs": ProblemCode(
        "error",
        "The server has loaded another model than the planned one.",
        "Look at who holds the port (listener_info), and restart the instance if it is an older start of it.",
    ),
    "model_not_served": ProblemCode(
        "error",
        "The server serves no model under the expected name.",
        "Give the name that the server was started with, or look at who holds the port.",
    ),
    "not_an_api_server": ProblemCode(
        "error",
        "What answers lists no models, although its health endpoint gives 200.",
        "Look at who holds the port: another program, a proxy, or a node above 0 of a replica.",
    ),
    "out_of_time": ProblemCode(
        "error",
        "The time for the whole check was up.",
        "Raise timeout_seconds, or look why the server is so slow.",
    ),
    "release_differs": ProblemCode(
        "error",
        "The server that answers is of another release than the planned one.",
        "Look at who holds the port (listener_info): another environment, or an older start.",
    ),
    "server_busy": ProblemCode(
        "warning",
        "Others keep the server busy, so that the burn-in or the canary was skipped.",
        "Run the check again when there is less traffic, or raise busy_requests.",
    ),
    "text_unsteady": ProblemCode(
        "warning",
        "The server does not say the same of the same state, so that texts prove nothing about the host tier.",
        "Run it again when nothing else is served; enable_deterministic_inference makes texts comparable.",
    ),
    "text_varied": ProblemCode(
        "info",
        "One text after the hit differed and most did not, which is chance and not the host tier.",
        "Nothing has to be done.",
    ),
    "tls_files_unreadable": ProblemCode(
        "error",
        "ca_path, client_cert or client_key cannot be read as PEM files.",
        "Give files that exist on the node.",
    ),
}
