# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A server with two tiers of cache, as far as a client can tell: prefixes by token, least recently used goes first."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Answer


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
    stores_on_host: bool = True
    spoils_host: bool = False
    remembers_everything: bool = False
    chat: bool = True
    generates: bool = True
    api_key: str | None = None
    asked: list[tuple[str, str]] = field(default_factory=list)
    _device: OrderedDict[tuple[int, ...], None] = field(default_factory=OrderedDict)
    _host: set[tuple[int, ...]] = field(default_factory=set)

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None, key: str | None = None) -> Answer:
        self.asked.append((method, path))
        if path == "/health":
            waits = [one for one in self.asked if one[1] == "/health"]
            return Answer(200 if len(waits) > self.ready_after else 503, "")
        if path == "/metrics":
            return self._metrics()
        if self.api_key is not None and key != self.api_key:
            return Answer(401, '{"error": "Unauthorized"}')
        if path == "/v1/models":
            return _json({"data": [{"id": self.model, "max_model_len": self.context}]})
        if path == "/server_info":
            return _json({"api_key": "sk-secret", "max_total_num_tokens": self.device_tokens})
        if path == "/v1/chat/completions":
            if not self.chat:
                return Answer(400, '{"object": "error", "message": "no chat template"}')
            return _json({"choices": [{"message": {"content": "yes"}}], "usage": {"completion_tokens": 4}})
        if path == "/generate" and body is not None:
            if not self.generates:
                return Answer(500, '{"error": {"message": "scheduler is gone"}}')
            return self._generate(tuple(body["input_ids"]), int(body["sampling_params"]["max_new_tokens"]))
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
        if self.host_tokens and asked > self.gauge_after:
            text += f'sglang:hicache_host_total_tokens{{model_name="{self.model}",tp_rank="0"}} {self.host_tokens}.0\n'
        return Answer(200, text)

    def _generate(self, prompt: tuple[int, ...], answer_tokens: int) -> Answer:
        device = max((_common(prompt, known) for known in self._device), default=0)
        host = max((_common(prompt, known) for known in self._host), default=0)
        # The last token is always computed, so that there is something to compute.
        device = min(device, len(prompt) - 1)
        from_host = max(0, min(host, len(prompt) - 1) - device)
        spoilt = self.spoils_host and from_host > 16
        self._device[prompt] = None
        self._device.move_to_end(prompt)
        if self.stores_on_host and self.host_tokens:
            self._host.add(prompt)
        while not self.remembers_everything and sum(len(known) for known in self._device) > self.device_tokens:
            self._device.popitem(last=False)
        meta = {
            "prompt_tokens": len(prompt),
            "cached_tokens": device + from_host,
            "completion_tokens": answer_tokens,
            "cached_tokens_details": {"device": device, "host": from_host} if self.tells_source else None,
        }
        return _json({"text": f"{sum(prompt) + spoilt}", "output_ids": [sum(prompt) % 250], "meta_info": meta})


def _common(one: tuple[int, ...], other: tuple[int, ...]) -> int:
    count = 0
    for left, right in zip(one, other):
        if left != right:
            break
        count += 1
    return count


def _json(data: Any) -> Answer:
    return Answer(200, json.dumps(data))
