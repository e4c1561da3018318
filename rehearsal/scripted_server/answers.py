# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the scripted server answers: a cache of two tiers as a client sees it, health, metrics. No sockets."""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import Scenario

# entrypoints/http_server.py: SGLANG_HEALTH_CHECK_TIMEOUT.
HEALTH_TIMEOUT_SECONDS = 20.0


class Answer(NamedTuple):
    """C(status) 0: nothing is ever answered."""

    status: int
    body: str = ""
    kind: str = "application/json"


# entrypoints/http_server.py, AuthLevel.ADMIN_OPTIONAL: asks for the administrator's key where there is one.
ADMINISTERING = ("/flush_cache",)
NOT_FOUND = Answer(404, '{"detail":"Not Found"}')
NEVER = Answer(0)


class Cache:
    """Prompts as prefixes by token; the least recently used one leaves the device first."""

    def __init__(self, device_tokens: int, host_tokens: int, http: Mapping[str, Any]) -> None:
        self._device_tokens = device_tokens
        self._stores = bool(http["stores_on_host"]) and host_tokens > 0
        self._remembers = bool(http["remembers_everything"])
        self._device: OrderedDict[tuple[int, ...], None] = OrderedDict()
        self._host: set[tuple[int, ...]] = set()

    def take(self, prompt: tuple[int, ...]) -> tuple[int, int]:
        """(tokens found on the device, tokens found on the host alone); the prompt is stored after that."""
        # The last token is always computed, so that there is something to compute.
        most = len(prompt) - 1
        device = min(most, max((_common(prompt, known) for known in self._device), default=0))
        host = min(most, max((_common(prompt, known) for known in self._host), default=0))
        self._device[prompt] = None
        self._device.move_to_end(prompt)
        if self._stores:
            self._host.add(prompt)
        while not self._remembers and sum(map(len, self._device)) > self._device_tokens and len(self._device) > 1:
            self._device.popitem(last=False)
        return device, max(0, host - device)

    def flush(self) -> None:
        self._device.clear()
        self._host.clear()


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    count = 0
    for left, right in zip(one, other):
        if left != right:
            break
        count += 1
    return count


class Answers:
    """C(alive) says whether the ranks still compute; C(ready) is set by the start."""

    def __init__(self, scenario: Scenario, alive: Callable[[], bool], sleep: Callable[[float], None]) -> None:
        self._scenario = scenario
        self._http = scenario.http
        self._alive = alive
        self._sleep = sleep
        self._lock = threading.Lock()
        self._requests = 0
        self._spoilt: set[tuple[int, ...]] = set()
        # Requests that are computed now, as the schedulers tell it.
        self.running = 0
        self.ready = False
        self.stopping = False
        pool = next(iter(scenario.host_pools), None)
        self._device_tokens = int(self._http["device_tokens"] or scenario.capacity_tokens)
        told = self._http["host_tokens"]
        self._host_tokens = int(told if told is not None else (pool.tokens if pool else 0))
        self._cache = Cache(scenario.capacity_tokens, pool.tokens if pool else 0, self._http)
        self._name = str(self._http["served_model_name"] or scenario.model["name"])

    @property
    def computes(self) -> bool:
        limit = self._http["hang_after_requests"]
        return self._alive() and (limit is None or self._requests < int(limit))

    def answer(self, method: str, path: str, body: Mapping[str, Any] | None, key: str | None) -> Answer:
        if path in ("/health", "/health_generate", "/ready"):
            return self._health(path)
        if path == "/metrics":
            return self._metrics()
        wanted = self._http["api_key"]
        if path in ADMINISTERING and self._http["admin_api_key"] is not None:
            wanted = self._http["admin_api_key"]
        if wanted is not None and key != wanted:
            return Answer(401, '{"error":"Unauthorized"}')
        if path == "/v1/models":
            row = {"id": self._name, "object": "model", "max_model_len": self._scenario.model["context_tokens"]}
            return _json({"object": "list", "data": [row]})
        if path in ("/model_info", "/get_model_info"):
            return _json({"model_path": self._scenario.model["name"], "is_generation": True})
        if path in ("/server_info", "/get_server_info"):
            told = {"max_total_num_tokens": self._device_tokens, "version": self._scenario.release}
            return _json({**self._scenario.arguments, **told})
        if path == "/v1/loads":
            return _json({"loads": [{"dp_rank": 0, "num_running_reqs": self.running, "num_waiting_reqs": 0}]})
        if path == "/flush_cache":
            self._cache.flush()
            return Answer(200, "Cache flushed.", "text/plain")
        if method == "POST" and body is not None and path in ("/generate", "/v1/chat/completions"):
            with self._lock:
                self.running += 1
            try:
                return self._compute(path, body)
            finally:
                with self._lock:
                    self.running -= 1
        return NOT_FOUND

    def _health(self, path: str) -> Answer:
        kind = self._http["health"]
        # entrypoints/http_server.py: to 0.5.0rc1 the plain endpoint answers as soon as there is one.
        if kind == "early" or (kind == "real" and path == "/health" and self._scenario.version < (0, 5, 0)):
            return Answer(200)
        if kind == "never" or not self.ready or self.stopping:
            return Answer(503)
        if path == "/ready":
            return Answer(200) if self._scenario.version >= (0, 5, 20) else NOT_FOUND
        if kind == "stale":
            return Answer(200)
        began = time.monotonic()
        while time.monotonic() - began < HEALTH_TIMEOUT_SECONDS:
            self._sleep(float(self._http["health_seconds"]))
            if self.computes:
                return Answer(200)
        return Answer(503)

    def _compute(self, path: str, body: Mapping[str, Any]) -> Answer:
        if not self.computes:
            return NEVER
        with self._lock:
            self._requests += 1
            count = self._requests
        limit = self._http["fail_after_requests"]
        if not self._http["generates"] or (limit is not None and count > int(limit)):
            return Answer(500, '{"error":{"message":"The scheduler is gone."}}')
        self._sleep(float(self._http["request_seconds"]))
        if path == "/v1/chat/completions":
            if not self._http["chat"]:
                return Answer(400, '{"object":"error","message":"no chat template"}')
            choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
            return _json({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 1}})
        return self._generate(body)

    def _generate(self, body: Mapping[str, Any]) -> Answer:
        ids = body.get("input_ids")
        prompt = tuple(int(one) for one in ids) if ids else tuple(str(body.get("text", "")).encode())
        wanted = int((body.get("sampling_params") or {}).get("max_new_tokens", 1))
        with self._lock:
            device, host = self._cache.take(prompt)
        meta: dict[str, Any] = {
            "id": f"scripted-{self._requests}",
            "finish_reason": {"type": "length", "length": wanted},
            "prompt_tokens": len(prompt),
            "completion_tokens": wanted,
            "cached_tokens": device + host,
            "e2e_latency": float(self._http["request_seconds"]),
        }
        if self._http["tells_source"]:
            meta["cached_tokens_details"] = {"device": device, "host": host}
        accept = self._http["accept_length"]
        if accept:
            source = "hit" if host > 16 else "warm" if device > 16 else "cold"
            meta["spec_accept_length"] = float(accept[source])
            meta["spec_verify_ct"] = max(1, round(wanted / float(accept[source])))
        # What was loaded wrongly stays wrong while it lies on the device.
        if self._http["spoils_host"] and host > 16:
            self._spoilt.add(prompt)
        elif device <= 16:
            self._spoilt.discard(prompt)
        value = sum(prompt) + (prompt in self._spoilt)
        return _json({"text": str(value), "output_ids": [value % 250] * wanted, "meta_info": meta})

    def _metrics(self) -> Answer:
        if not self._http["metrics"]:
            return NOT_FOUND
        labels = f'model_name="{self._name}"'
        text = "# HELP sglang:max_total_num_tokens Maximum total number of tokens in the KV cache pool.\n"
        text += "# TYPE sglang:max_total_num_tokens gauge\n"
        for index in range(len(self._scenario.ranks)):
            text += f'sglang:max_total_num_tokens{{{labels},tp_rank="{index}"}} {float(self._device_tokens)}\n'
        gauge = self._scenario.version >= (0, 5, 10) and self._requests >= int(self._http["gauge_after_requests"])
        if self._host_tokens and gauge:
            text += f'sglang:hicache_host_total_tokens{{{labels},tp_rank="0"}} {float(self._host_tokens)}\n'
            text += f'sglang:hicache_host_used_tokens{{{labels},tp_rank="0"}} 0.0\n'
        text += f'sglang:num_running_reqs{{{labels},tp_rank="0"}} {float(self.running)}\n'
        text += f'sglang:num_queue_reqs{{{labels},tp_rank="0"}} 0.0\n'
        return Answer(200, text, "text/plain; version=0.0.4")


def _json(data: Any) -> Answer:
    return Answer(200, json.dumps(data))
