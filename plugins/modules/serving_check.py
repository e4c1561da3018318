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
    for a chat completion, and compares the capacity of the device pool and of the host tier with the plan.
  - The canary proves the host tier of HiCache. A prompt that was never sent is computed (cold) and answered again from
    the device (warm); other prompts then fill the device pool, which drives it out (churn); sent once more, it has to
    come back from the host tier (hit) with the same text at temperature 0.
  - It fails with the first check that fails. It changes nothing but the content of the cache.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
    details: Reports what it would check, and sends nothing.
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  url:
    description: Base URL of the server.
    type: str
    default: http://127.0.0.1:30000
  api_key:
    description: Key of the server, sent as a bearer token.
    type: str
  validate_certs:
    description: Whether to verify the server's certificate.
    type: bool
    default: true
  served_model_name:
    description: Name under which the model has to be served. Any name is right if not given.
    type: str
  sglang_version:
    description:
      - Release of the server. Before 0.5.10 there is no gauge of the host tier, and its size is then not compared.
      - Taken as having the gauge if not given.
    type: str
  expected:
    description: Capacities of the plan.
    type: dict
    default: {}
    suboptions:
      max_total_num_tokens:
        description: Tokens that the device pool has to hold at least.
        type: int
      host_tokens:
        description: Tokens that the host pool of each rank has to hold exactly. With 0 no host tier is expected.
        type: int
  chat:
    description: Whether to ask for a chat completion, which needs a chat template.
    type: bool
    default: true
  canary:
    description: Whether to run the canary.
    type: bool
    default: true
  canary_prompt_tokens:
    description: Length of the canary's prompt; a quarter of the device pool at most is used.
    type: int
    default: 512
  churn_max_tokens:
    description: Most tokens that may be sent to drive the canary out. Three device pools if not given.
    type: int
  churn_max_requests:
    description: Most requests that may be sent to drive the canary out.
    type: int
    default: 2000
  timeout_seconds:
    description: Longest time for all of it.
    type: float
    default: 600
seealso:
  - module: gpufleet.sglang.memory_plan
  - module: gpufleet.sglang.wait_for_startup
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
"""

RETURN = r"""
checks:
  description: Every check that was made, in order. RV(checks[].ok) is null where the server does not tell.
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
  sample:
    - {name: health, ok: true, found: 200, expected: 200}
    - {name: host_tokens, ok: true, found: 262145, expected: 262145}
canary:
  description: What the canary saw, null if it did not run.
  returned: when it was not a check mode run
  type: dict
  sample:
    prompt_tokens: 512
    cold: {cached_tokens: 0}
    warm: {cached_tokens: 511, device: 511, host: 0}
    churn: {requests: 5, tokens: 10240}
    hit: {cached_tokens: 511, device: 0, host: 511}
    same_text: true
    same_text_as_cold: true
metrics:
  description: Gauges and counters of the cache before the canary, each with a value for every data parallel rank.
  returned: when it was not a check mode run
  type: dict
  sample:
    "sglang:max_total_num_tokens": [8192.0, 8192.0]
    "sglang:hicache_host_total_tokens": [262145.0]
problems:
  description: What could not be compared, and why.
  returned: always
  type: list
  elements: dict
would_check:
  description: Names of the checks that a run would make.
  returned: in check mode
  type: list
  elements: str
failure:
  description: The check that failed, with C(code), C(message), C(remedy) and C(evidence).
  returned: on failure
  type: dict
"""

import json
import time
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.error import HTTPError

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import has_host_gauge
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Answer, Ask
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.canary import CanaryLimits
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.serving import Wanted, prove, would_check

# The server's own patience with a request that checks its health is 20 s; a long prompt on a CPU takes longer.
REQUEST_TIMEOUT_SECONDS = 120.0
LARGEST_ANSWER_BYTES = 32 * (1 << 20)


def asker(url: str, api_key: str | None, validate_certs: bool, deadline: float) -> Ask:
    """Makes one HTTP request at a time and never raises."""
    base = url.rstrip("/")
    headers = {"Content-Type": "application/json"}
    if api_key:
        headers["Authorization"] = f"Bearer {api_key}"

    def ask(method: str, path: str, body: Mapping[str, Any] | None) -> Answer:
        left = max(1.0, min(REQUEST_TIMEOUT_SECONDS, deadline - time.monotonic()))
        try:
            with open_url(
                base + path,
                method=method,
                data=None if body is None else json.dumps(body),
                headers=headers,
                timeout=left,
                use_proxy=False,
                validate_certs=validate_certs,
            ) as answer:
                return Answer(int(answer.status), answer.read(LARGEST_ANSWER_BYTES).decode("utf-8", "replace"))
        except HTTPError as error:
            return Answer(int(error.code), error.read().decode("utf-8", "replace"))
        except Exception as error:  # refused, reset, timed out, not HTTP: all of them are "no answer"
            return Answer(0, f"no answer ({error})")

    return ask


def _checked(params: Mapping[str, Any]) -> Wanted:
    for name, least in (("canary_prompt_tokens", 64), ("churn_max_requests", 1), ("timeout_seconds", 1)):
        if params[name] < least:
            raise Refusal(
                "out_of_range", f"{name} is {params[name]:g}.", f"Expected {least} or more.", {name: params[name]}
            )
    if not params["url"].startswith(("http://", "https://")):
        raise Refusal(
            "url_malformed", f"url is '{params['url']}'.", "Expected http://HOST:PORT.", {"url": params["url"]}
        )
    expected = params["expected"] or {}
    return Wanted(
        served_model_name=params["served_model_name"],
        max_total_num_tokens=expected.get("max_total_num_tokens"),
        host_tokens=expected.get("host_tokens"),
        canary=params["canary"],
        chat=params["chat"],
        host_gauge=params["sglang_version"] is None or has_host_gauge(params["sglang_version"]),
        limits=CanaryLimits(params["canary_prompt_tokens"], params["churn_max_tokens"], params["churn_max_requests"]),
        timeout_seconds=params["timeout_seconds"],
    )


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "url": {"type": "str", "default": "http://127.0.0.1:30000"},
            "api_key": {"type": "str", "no_log": True},
            "validate_certs": {"type": "bool", "default": True},
            "served_model_name": {"type": "str"},
            "sglang_version": {"type": "str"},
            "expected": {
                "type": "dict",
                "default": {},
                "options": {
                    "max_total_num_tokens": {"type": "int", "no_log": False},
                    "host_tokens": {"type": "int", "no_log": False},
                },
            },
            "chat": {"type": "bool", "default": True},
            "canary": {"type": "bool", "default": True},
            "canary_prompt_tokens": {"type": "int", "default": 512, "no_log": False},
            "churn_max_tokens": {"type": "int", "no_log": False},
            "churn_max_requests": {"type": "int", "default": 2000},
            "timeout_seconds": {"type": "float", "default": 600},
        },
        supports_check_mode=True,
    )
    try:
        wanted = _checked(module.params)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    if module.check_mode:
        module.exit_json(changed=False, would_check=would_check(wanted), problems=[])
    deadline = time.monotonic() + wanted.timeout_seconds
    ask = asker(module.params["url"], module.params["api_key"], module.params["validate_certs"], deadline)
    proof = prove(ask, wanted, time.monotonic, time.sleep, seed=uuid.uuid4().hex)
    result: dict[str, Any] = {
        "changed": False,
        "checks": [check.as_dict() for check in proof.checks],
        "canary": proof.canary,
        "metrics": proof.metrics,
        "problems": proof.problems,
    }
    failed = proof.failed
    if failed is not None:
        message = (
            f"{failed.name} of {module.params['url']}: found {failed.found}, expected {failed.expected}. "
            f"{failed.problem or ''}".strip()
        )
        failure = {
            "code": failed.name,
            "message": message,
            "remedy": failed.problem,
            "evidence": {"found": failed.found, "expected": failed.expected},
        }
        module.fail_json(msg=message, failure=failure, **result)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
