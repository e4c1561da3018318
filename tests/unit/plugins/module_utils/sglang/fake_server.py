# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server with two tiers of cache, as far as a client can tell: prefixes by token, least recently used goes first.

Each data parallel rank has a cache of its own. A time that a request takes is said, not spent.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer

Prompt = tuple[int, ...]
# One that never comes.
NEVER = float("inf")


@dataclass
class RankCache:
    """C(seen): how often each prompt was, for policies that count; C(spoilt): loaded from a host that garbles."""

    device: OrderedDict[Prompt, None] = field(default_factory=OrderedDict)
    host: OrderedDict[Prompt, None] = field(default_factory=OrderedDict)
    seen: dict[Prompt, int] = field(default_factory=dict)
    spoilt: set[Prompt] = field(default_factory=set)


@dataclass
class FakeServer:
    """C(device_tokens) and C(host_tokens) are capacities; the other fields are what can be wrong with a server."""

    device_tokens: int = 4096
    host_tokens: int = 16_385
    model: str = "rehearsal-llama"
    context: int | None = 2048
    ready_after: int = 0
    metrics: bool = True
    gauge_after: int = 0
    tells_source: bool = True
    counts_load_back: bool = False
    stores_on_host: bool = True
    stores_after: int = 1
    spoils_host: bool = False
    remembers_everything: bool = False
    chat: bool = True
    generates: bool = True
    api_key: str | None = None
    info: Mapping[str, Any] = field(default_factory=dict)
    others: int = 0
    ranks: int = 1
    hangs_after: int | None = None
    hanging_rank: int | None = None
    paused: bool = False
    hidden_paths: tuple[str, ...] = ()
    health_after_requests: int = 200
    accept: Mapping[str, float] = field(default_factory=dict)
    changes: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[int, float] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    bodies: list[Mapping[str, Any]] = field(default_factory=list)
    loaded_back: int = 0
    caches: dict[int, RankCache] = field(default_factory=dict)

    @property
    def generated(self) -> int:
        return len(self.bodies)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None, key: str | None = None) -> Answer:
        self.asked.append((method, path))
        if path in self.hidden_paths:
            return Answer(404, '{"detail":"Not Found"}')
        if path in ("/health", "/health_generate"):
            if self.generated:
                return Answer(self.health_after_requests, "")
            waits = [one for one in self.asked if one[1] == path]
            return Answer(200 if len(waits) > self.ready_after else 503, "")
        if path == "/ready":
            return Answer(503 if self.paused else 200, "")
        if path == "/metrics":
            return self._metrics()
        if self.api_key is not None and key != self.api_key:
            return Answer(401, '{"error": "Unauthorized"}')
        if path == "/v1/models":
            return _json({"data": [{"id": self.model, "max_model_len": self.context}]})
        if path == "/server_info":
            states = [{"memory_usage": {"token_capacity": self.device_tokens}}] * self.ranks
            told = {"api_key": "sk-secret", "max_total_num_tokens": self.device_tokens, "internal_states": states}
            return _json({**told, **self.info})
        if path == "/v1/loads":
            return _json({"loads": [{"dp_rank": 0, "num_running_reqs": self.others, "num_waiting_reqs": 0}]})
        if path == "/v1/chat/completions":
            if not self.chat:
                return Answer(400, '{"object": "error", "message": "no chat template"}')
            return _json({"choices": [{"message": {"content": "yes"}}], "usage": {"completion_tokens": 4}})
        if path == "/generate" and body is not None:
            if not self.generates:
                return Answer(500, '{"error": {"message": "scheduler is gone"}}')
            return self._routed(body)
        return Answer(404, '{"detail":"Not Found"}')

    def _metrics(self) -> Answer:
        if not self.metrics:
            return Answer(404, "")
        asked = len([one for one in self.asked if one[1] == "/metrics"])
        text = "# HELP sglang:max_total_num_tokens Maximum total number of tokens in the KV cache pool.\n"
        for rank in range(2):
            text += (
                f'sglang:max_total_num_tokens{{model_name="{self.model}",tp_rank="{rank}"}} {self.device_tokens}.0\n'
            )
            text += f'sglang:num_running_reqs{{model_name="{self.model}",tp_rank="{rank}"}} {self.others}.0\n'
        if self.host_tokens and asked > self.gauge_after:
            text += f'sglang:hicache_host_total_tokens{{model_name="{self.model}",tp_rank="0"}} {self.host_tokens}.0\n'
        if self.counts_load_back and self.loaded_back:
            text += f'sglang:load_back_tokens_total{{model_name="{self.model}"}} {self.loaded_back}.0\n'
        return Answer(200, text)

    def _routed(self, body: Mapping[str, Any]) -> Answer:
        self.bodies.append(body)
        rank = body.get("routed_dp_rank", body.get("data_parallel_rank"))
        # Without a rank, in turn.
        rank = self.generated % self.ranks if rank is None else int(rank)
        hangs = self.hangs_after is not None and self.generated > self.hangs_after
        if hangs and self.hanging_rank in (None, rank):
            return Answer(0, "", NEVER, late=True)
        cache = self.caches.setdefault(rank, RankCache())
        answer = self._generate(cache, tuple(body["input_ids"]), int(body["sampling_params"]["max_new_tokens"]))
        return Answer(200, json.dumps(answer), self.seconds.get(self.generated, 0.1))

    def _generate(self, cache: RankCache, prompt: Prompt, answer_tokens: int) -> dict[str, Any]:
        device = max((_common(prompt, known) for known in cache.device), default=0)
        host = max((_common(prompt, known) for known in cache.host), default=0)
        # The last token is always computed, so that there is something to compute.
        device = min(device, len(prompt) - 1)
        from_host = max(0, min(host, len(prompt) - 1) - device)
        self.loaded_back += from_host
        if self.spoils_host and from_host > 16:
            cache.spoilt.add(prompt)
        elif not device:
            cache.spoilt.discard(prompt)
        self._keep(cache, prompt)
        value = sum(prompt) + (prompt in cache.spoilt)
        source = "hit" if from_host > 16 else "warm" if device > 16 else "cold"
        meta = {
            "prompt_tokens": len(prompt),
            "cached_tokens": device + from_host,
            "completion_tokens": answer_tokens,
            "finish_reason": {"type": "length", "length": answer_tokens},
            "cached_tokens_details": {"device": device, "host": from_host} if self.tells_source else None,
            **({"spec_verify_ct": max(1, round(answer_tokens / self.accept[source]))} if self.accept else {}),
        }
        answer = {"text": f"{value}", "output_ids": [value % 250], "meta_info": meta}
        changed = {**answer, **self.changes}
        return {**changed, "meta_info": {**meta, **self.changes.get("meta_info", {})}}

    def _keep(self, cache: RankCache, prompt: Prompt) -> None:
        cache.device[prompt] = None
        cache.device.move_to_end(prompt)
        cache.seen[prompt] = cache.seen.get(prompt, 0) + 1
        if self.stores_on_host and self.host_tokens and cache.seen[prompt] >= self.stores_after:
            cache.host[prompt] = None
            cache.host.move_to_end(prompt)
        while not self.remembers_everything and sum(len(known) for known in cache.device) > self.device_tokens:
            cache.device.popitem(last=False)
        while sum(len(known) for known in cache.host) > self.host_tokens:
            cache.host.popitem(last=False)


def _common(one: Prompt, other: Prompt) -> int:
    count = 0
    for left, right in zip(one, other):
        if left != right:
            break
        count += 1
    return count


def _json(data: Any) -> Answer:
    return Answer(200, json.dumps(data))
