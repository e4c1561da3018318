#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: serving_check
version_added: 0.1.0
short_description: Prove that an SGLang server serves what was planned
description:
  - The gate asks for health (again until the deadline), for the name of the served model, for one token of its own,
    for what the server says of itself and for a chat completion, and compares the capacity of the device pool and of
    the host tier with the plan.
  - The burn-in sends a number of short prompts, all different, looks at each answer, and finds a server that stops
    after the first ones as soon as one request takes many times longer than those did. Health is asked for again after
    it.
  - The canary proves the host tier of HiCache. A prompt that was never sent is computed (cold) and answered again from
    the device (warm); other prompts then fill the device pool, which drives it out (churn); sent once more, it has to
    come back from the host tier (hit) with the same text at temperature 0. With data parallel ranks there is one canary
    a rank, as each has caches of its own. With a draft model the accepted lengths are compared as well.
  - It fails with the first check that fails. It changes nothing but the content of the cache.
  - All it sends is bounded in requests, tokens and seconds, and one churn request is under way at a time. When others
    keep the server busy, burn-in and canary are skipped, and RV(problems) says so.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
    details: Reports what it would check and send at most, and sends nothing.
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  url:
    description: Base URL of the server. Redirects are not followed, and no proxy of the environment is used.
    type: str
    default: http://127.0.0.1:30000
  api_key:
    description:
      - Key of the server, sent as a bearer token, and redacted wherever the server repeats it.
      - No endpoint that is asked for needs the key for administration.
    type: str
  api_key_file:
    description:
      - File on the node that holds the key, such as C(/run/credentials/sglang-main.service/api_key), instead of
        O(api_key). So the key is in no argument. A line break behind it is not of the key.
    type: path
  headers:
    description: Further headers, for a proxy in front. Their values are redacted as well.
    type: dict
    default: {}
  validate_certs:
    description: Whether to verify the server's certificate.
    type: bool
    default: true
  ca_path:
    description: PEM file of the authorities to verify it with, the system's if not given.
    type: path
  client_cert:
    description: PEM file of a certificate to show to the server, with its key unless O(client_key) is given.
    type: path
  client_key:
    description: PEM file of the key of O(client_cert), without a passphrase.
    type: path
  served_model_name:
    description: Name under which the model has to be served. Any name is right if not given.
    type: str
  sglang_version:
    description:
      - Release of the server, which it has to be if it says its own. Decides which witnesses are asked, for example
        the gauge of the host tier, which there is from 0.5.10 on.
      - Taken from the server if not given.
    type: str
  main_pid:
    description:
      - Process that was started to serve. What listens on the port has to be it or a descendant, so that no other
        server and no later start is taken for it. Only on the node itself.
    type: int
  expected:
    description: What the plan says.
    type: dict
    default: {}
    suboptions:
      max_total_num_tokens:
        description: Tokens that the device pool has to hold at least.
        type: int
      host_tokens:
        description: Tokens that the host pool of each rank has to hold exactly. With 0 no host tier is expected.
        type: int
      model_path:
        description: Path of the model that has to be loaded.
        type: str
      asks_for_key:
        description: Whether it has to be asked for a key, so that whoever shows none is turned away.
        type: bool
  chat:
    description: Whether to ask for a chat completion, which needs a chat template.
    type: bool
    default: true
  burn_in_requests:
    description:
      - How many prompts of 32 tokens the burn-in sends, for 16 tokens each; one for each data parallel rank at least.
      - Without a burn-in if 0.
    type: int
    default: 8
  burn_in_concurrency:
    description: How many of them are under way at a time; the first two go alone.
    type: int
    default: 2
  burn_in_max_seconds:
    description: After so long no further prompt of the burn-in is sent.
    type: float
    default: 120
  canary:
    description: Whether to run the canary.
    type: bool
    default: true
  canary_prompt_tokens:
    description: Length of the canary's prompt; a quarter of the device pool at most is used, and two pages at least.
    type: int
    default: 512
  churn_max_tokens:
    description:
      - Most tokens that may be sent to drive the canary out, for each data parallel rank. Three device pools if not
        given, and never more than the host pool keeps.
    type: int
  churn_max_requests:
    description: Most requests that may be sent to drive the canary out, for each data parallel rank.
    type: int
    default: 2000
  churn_max_seconds:
    description:
      - So long after the first canary has begun, nothing more is sent to drive one out; the canaries of all data
        parallel ranks are within it.
    type: float
    default: 600
  busy_requests:
    description: Burn-in and canary are skipped when others have more requests than these running or waiting.
    type: int
    default: 4
  draft_min_ratio:
    description:
      - With a draft model, the tokens that are accepted a verification after a hit have to be so much of those of a
        cold prompt at least. Differences below a quarter of a token do not count. With 0 any will do.
    type: float
    default: 0.7
  health_timeout_seconds:
    description: The server's own C(SGLANG_HEALTH_CHECK_TIMEOUT). Its answer is awaited for 5 s longer.
    type: float
    default: 20
  request_timeout_seconds:
    description:
      - Longest time for any other request. The server itself looks for an answer for 20 s, and a long prompt on a CPU
        takes longer.
    type: float
    default: 120
  timeout_seconds:
    description: Longest time for all of it.
    type: float
    default: 900
seealso:
  - module: gpufleet.sglang.memory_plan
  - module: gpufleet.sglang.wait_for_startup
  - module: gpufleet.sglang.listener_info
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Check that the server serves what was planned
  gpufleet.sglang.serving_check:
    url: http://127.0.0.1:30000
    served_model_name: rehearsal-llama
    expected:
      max_total_num_tokens: "{{ sglang_plan.device.max_total_num_tokens }}"
      host_tokens: "{{ sglang_plan.host.tokens }}"

- name: Look at a server in service, gently
  gpufleet.sglang.serving_check:
    url: https://gpu-01.example.org
    api_key: "{{ vault_sglang_key }}"
    ca_path: /etc/ssl/certs/example.pem
    burn_in_requests: 4
    burn_in_concurrency: 1
    busy_requests: 0
    canary: false
"""

RETURN = r"""
checks:
  description: Every check that was made, in order. RV(checks[].ok) is null where it could not be told.
  returned: when it was not a check mode run
  type: list
  elements: dict
  contains:
    name:
      description: Name of the check.
      type: str
    ok:
      description: Whether it passed.
      type: bool
    found:
      description: What was found.
      type: raw
    expected:
      description: What was expected.
      type: raw
    rank:
      description: The data parallel rank that it is about, null where it is about all.
      type: str
  sample:
    - {name: health, ok: true, found: 200, expected: 200, rank: null}
    - {name: host_tokens, ok: true, found: 262145, expected: 262145, rank: null}
server:
  description: What the server says of itself; no key is among it. Null where it was not asked.
  returned: when it was not a check mode run
  type: dict
  sample:
    version: 0.5.23
    model_path: /srv/models/rehearsal-llama
    served_model_name: rehearsal-llama
    data_parallel_ranks: 1
    page_size: 1
    hicache: true
    write_policy: write_through
    speculative_algorithm: null
    deterministic: false
burn_in:
  description: What the burn-in saw, null if it did not run.
  returned: when it was not a check mode run
  type: dict
  sample:
    asked: 8
    answered: 8
    at_once: 2
    tokens: 384
    elapsed_seconds: 2.417
    median_seconds: 0.436
    slowest_seconds: 0.512
    hang_seconds: 20.0
    outliers: []
canary:
  description: What the canary saw, null if it did not run; of the rank that failed, or of the first.
  returned: when it was not a check mode run
  type: dict
  sample:
    rank: null
    prompt_tokens: 512
    cold: {cached_tokens: 0}
    warm: {cached_tokens: 511, device: 511, host: 0}
    churn: {requests: 5, tokens: 10240, seconds: 6.1}
    hit: {cached_tokens: 511, device: 0, host: 511, proof: cached_tokens_details}
    same_text: true
    same_text_as_cold: true
    accept_length: null
canaries:
  description: The canaries of all data parallel ranks, in the order in which they ran.
  returned: when it was not a check mode run
  type: list
  elements: dict
metrics:
  description: Gauges and counters of the cache before the canary, each with a value for every data parallel rank.
  returned: when it was not a check mode run
  type: dict
  sample:
    "sglang:max_total_num_tokens": [8192.0, 8192.0]
    "sglang:hicache_host_total_tokens": [262145.0]
problems:
  description: What could not be proven, and why; each with C(code), C(severity), C(message) and C(remedy).
  returned: always
  type: list
  elements: dict
would_check:
  description: Names of the checks that a run would make.
  returned: in check mode
  type: list
  elements: str
would_send:
  description: What a run would send at most, for one data parallel rank; null where only the server can tell.
  returned: in check mode
  type: dict
  sample: {requests: 2008, tokens: 24960, seconds: 900.0}
failure:
  description: The check that failed, or the option that cannot be.
  returned: on failure
  type: dict
  contains:
    code:
      description: What is wrong, stable and documented.
      type: str
    message:
      description: The same in a sentence, with the values of the case at hand.
      type: str
    rank:
      description: The data parallel rank that it is about, null where it is about all.
      type: str
    evidence:
      description: The check, what it found and what it expected.
      type: dict
    remedy:
      description: What to do.
      type: str
    computed:
      description: The numbers behind it.
      type: dict
  sample:
    code: host_tier_differs
    message: >-
      The host tier holds 8,193 tokens a rank where 16,385 were planned: the server runs with another ratio or size than
      the plan.
    rank: null
    evidence: {check: host_tokens, found: 8193, expected: 16385}
    remedy: >-
      Compare hicache_ratio and hicache_size in the server_args line of the log with the plan, and restart it.
    values: {found_tokens: [8193], planned_tokens: 16385}
"""

import math
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import shown, without_secrets
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Check, Proof
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.burn_in import BurnInLimits
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.churn import CanaryLimits
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.client import (
    Target,
    check_headers,
    make_client,
    parse_url,
    read_key_file,
    tls_context,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.owner import find_holders, judge_owner
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.serving import (
    Wanted,
    prove,
    would_check,
    would_send,
)

# Least and most of each number. Less than the server's own 20 s for a request would call it dead before it does so.
RANGES: Mapping[str, tuple[float, float]] = {
    "burn_in_requests": (0, 10_000),
    "burn_in_concurrency": (1, 16),
    "burn_in_max_seconds": (1, 86_400),
    "canary_prompt_tokens": (64, 1_000_000),
    "churn_max_tokens": (1, 1 << 40),
    "churn_max_requests": (1, 1_000_000),
    "churn_max_seconds": (1, 86_400),
    "busy_requests": (0, 1_000_000),
    "draft_min_ratio": (0, 1),
    "health_timeout_seconds": (1, 3600),
    "request_timeout_seconds": (21, 86_400),
    "timeout_seconds": (1, 86_400),
    "main_pid": (1, 1 << 22),
}
# Values of headers that are shorter are words of HTTP and no secrets.
SHORTEST_SECRET = 6


def _check_ranges(params: Mapping[str, Any]) -> None:
    for name, (least, most) in RANGES.items():
        value = params[name]
        if value is not None and not (math.isfinite(value) and least <= value <= most):
            raise Refusal(
                "out_of_range", f"{name} is {value:g}.", f"Expected {least:g} to {most:g}.", {name: params[name]}
            )


def _key(params: Mapping[str, Any]) -> str | None:
    path = params["api_key_file"]
    if path is None:
        return None if params["api_key"] is None else str(params["api_key"])
    return read_key_file(path)


def _target(params: Mapping[str, Any]) -> Target:
    parts = parse_url(params["url"])
    headers = {str(name): str(value) for name, value in params["headers"].items()}
    key = _key(params)
    if key is not None:
        check_headers({"Authorization": key})
        headers["Authorization"] = f"Bearer {key}"
    check_headers(headers)
    secrets = [key or "", *(value for value in headers.values() if len(value) >= SHORTEST_SECRET)]
    secure = parts.scheme == "https"
    files = (params["ca_path"], params["client_cert"], params["client_key"])
    return Target(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or (443 if secure else 80),
        base=parts.path.rstrip("/"),
        headers=headers,
        tls=tls_context(params["validate_certs"], *files) if secure else None,
        hidden=tuple(secret for secret in secrets if secret),
    )


def _wanted(params: Mapping[str, Any]) -> Wanted:
    _check_ranges(params)
    if params["sglang_version"] is not None:
        parse_version(params["sglang_version"])
    expected = params["expected"]
    return Wanted(
        served_model_name=params["served_model_name"],
        max_total_num_tokens=expected.get("max_total_num_tokens"),
        host_tokens=expected.get("host_tokens"),
        model_path=expected.get("model_path"),
        asks_for_key=bool(expected.get("asks_for_key")),
        sglang_version=params["sglang_version"],
        canary=params["canary"],
        chat=params["chat"],
        limits=CanaryLimits(
            prompt_tokens=params["canary_prompt_tokens"],
            churn_max_tokens=params["churn_max_tokens"],
            churn_max_requests=params["churn_max_requests"],
            churn_max_seconds=params["churn_max_seconds"],
            busy_requests=params["busy_requests"],
            draft_ratio=params["draft_min_ratio"],
        ),
        burn_in=BurnInLimits(params["burn_in_requests"], params["burn_in_concurrency"], params["burn_in_max_seconds"]),
        health_seconds=params["health_timeout_seconds"],
        request_seconds=params["request_timeout_seconds"],
        timeout_seconds=params["timeout_seconds"],
    )


def _proven(params: Mapping[str, Any], target: Target, wanted: Wanted) -> Proof:
    client = make_client(target, wanted.request_seconds, wanted.timeout_seconds)
    main_pid = params["main_pid"]
    others = {name: value for name, value in target.headers.items() if name != "Authorization"}
    stranger = make_client(replace(target, headers=others), wanted.request_seconds, wanted.timeout_seconds)

    def listener() -> Check:
        return judge_owner(find_holders(target.port, target.host), main_pid, target.port)

    return prove(client, wanted, uuid.uuid4().hex, None if main_pid is None else listener, stranger)


def _said(failed: Check, url: str) -> str:
    return f"{failed.name} of {url}: found {failed.found}, expected {failed.expected}. {failed.problem} {failed.remedy}"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "default": "http://127.0.0.1:30000"},
            "api_key": {"type": "str", "no_log": True},
            "api_key_file": {"type": "path", "no_log": False},
            "headers": {"type": "dict", "default": {}, "no_log": True},
            "validate_certs": {"type": "bool", "default": True},
            "ca_path": {"type": "path"},
            "client_cert": {"type": "path"},
            "client_key": {"type": "path", "no_log": False},
            "served_model_name": {"type": "str"},
            "sglang_version": {"type": "str"},
            "main_pid": {"type": "int"},
            "expected": {
                "type": "dict",
                "default": {},
                "options": {
                    "max_total_num_tokens": {"type": "int", "no_log": False},
                    "host_tokens": {"type": "int", "no_log": False},
                    "model_path": {"type": "str"},
                    "asks_for_key": {"type": "bool", "no_log": False},
                },
            },
            "chat": {"type": "bool", "default": True},
            "burn_in_requests": {"type": "int", "default": 8},
            "burn_in_concurrency": {"type": "int", "default": 2},
            "burn_in_max_seconds": {"type": "float", "default": 120},
            "canary": {"type": "bool", "default": True},
            "canary_prompt_tokens": {"type": "int", "default": 512, "no_log": False},
            "churn_max_tokens": {"type": "int", "no_log": False},
            "churn_max_requests": {"type": "int", "default": 2000},
            "churn_max_seconds": {"type": "float", "default": 600},
            "busy_requests": {"type": "int", "default": 4},
            "draft_min_ratio": {"type": "float", "default": 0.7},
            "health_timeout_seconds": {"type": "float", "default": 20},
            "request_timeout_seconds": {"type": "float", "default": 120},
            "timeout_seconds": {"type": "float", "default": 900},
        },
        required_by={"client_key": ("client_cert",)},
        mutually_exclusive=[("api_key", "api_key_file")],
        supports_check_mode=True,
    )
    try:
        wanted = _wanted(module.params)
        target = _target(module.params)
    except Refusal as refusal:
        failure = {**refusal.as_dict(), "rank": None, "computed": refusal.evidence}
        module.fail_json(msg=str(refusal), failure=failure)
    if module.check_mode:
        names = would_check(wanted)
        if module.params["main_pid"] is not None:
            names.insert(1, "listener")
        module.exit_json(changed=False, would_check=names, would_send=would_send(wanted), problems=[])
    proof = _proven(module.params, target, wanted)
    result: dict[str, Any] = without_secrets(
        {
            "changed": False,
            "checks": [check.as_dict() for check in proof.checks],
            "server": proof.server,
            "burn_in": proof.burn_in,
            "canary": proof.canary,
            "canaries": proof.canaries,
            "metrics": proof.metrics,
            "problems": [problem.as_dict() for problem in proof.problems],
        },
        target.hidden,
    )
    failed = proof.failed
    if failed is not None:
        failure = without_secrets(failed.failure(), target.hidden)
        module.fail_json(msg=shown(_said(failed, module.params["url"]), target.hidden, 2000), failure=failure, **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
