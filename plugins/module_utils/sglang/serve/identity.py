# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a server says of itself. Its answer holds keys, so fields are picked by name and nothing else is kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import count, flag, rows, text_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import Check, Client

# The newer path first: the other one is answered with a warning in the log as long as it is there (0.5.6).
SERVER_INFO = ("/server_info", "/get_server_info")
MODEL_INFO = ("/model_info", "/get_model_info")
# It asks the schedulers, so that it hangs with them; it has little to do.
INFO_SECONDS = 30.0
MOST_RANKS = 256


@dataclass(frozen=True)
class ServerFacts:
    """Unknown is None. C(ranks): data parallel ranks, each with a cache of its own."""

    version: str | None = None
    model_path: str | None = None
    served_model_name: str | None = None
    ranks: int | None = None
    page_size: int | None = None
    device_tokens: tuple[int, ...] = ()
    radix_cache: bool | None = None
    hicache: bool | None = None
    write_policy: str | None = None
    draft: str | None = None
    deterministic: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "model_path": self.model_path,
            "served_model_name": self.served_model_name,
            "data_parallel_ranks": self.ranks,
            "page_size": self.page_size,
            "hicache": self.hicache,
            "write_policy": self.write_policy,
            "speculative_algorithm": self.draft,
            "deterministic": self.deterministic,
        }


def ask_server(client: Client) -> ServerFacts:
    """From C(/server_info); from C(/model_info) the path of the model at least, where a proxy hides the other one."""
    for path in SERVER_INFO:
        answer = client.get(path, INFO_SECONDS)
        data = answer.mapping()
        if data:
            return read_server_info(data, answer.hidden)
    for path in MODEL_INFO:
        answer = client.get(path, INFO_SECONDS)
        data = answer.mapping()
        if data:
            return ServerFacts(
                model_path=text_of(data.get("model_path"), answer.hidden),
                served_model_name=text_of(data.get("served_model_name"), answer.hidden),
            )
    return ServerFacts()


def read_server_info(data: Mapping[str, Any], hidden: tuple[str, ...] = ()) -> ServerFacts:
    states = rows(data.get("internal_states"))
    usages = [state.get("memory_usage") for state in states]
    capacities = [count(usage.get("token_capacity")) for usage in usages if isinstance(usage, Mapping)]
    found = [count(data.get("max_total_num_tokens")), *capacities]
    without_radix = flag(data.get("disable_radix_cache"))
    return ServerFacts(
        version=text_of(data.get("version"), hidden, 40),
        model_path=text_of(data.get("model_path"), hidden),
        served_model_name=text_of(data.get("served_model_name"), hidden),
        # One state for each of them, in every release.
        ranks=min(len(states), MOST_RANKS) or count(data.get("dp_size")) or None,
        page_size=count(data.get("page_size")) or None,
        device_tokens=tuple(one for one in found if one),
        radix_cache=None if without_radix is None else not without_radix,
        hicache=flag(data.get("enable_hierarchical_cache")),
        write_policy=text_of(data.get("hicache_write_policy"), hidden, 40),
        draft=text_of(data.get("speculative_algorithm"), hidden, 40),
        deterministic=flag(data.get("enable_deterministic_inference")),
    )


def judge_identity(facts: ServerFacts, version: str | None, model_path: str | None) -> list[Check]:
    """Whether it is the server that was planned. What it does not say is not held against it."""
    checks = []
    if version is not None:
        same = None if facts.version is None else _same_release(facts.version, version)
        checks.append(
            Check(
                "sglang_version",
                same,
                facts.version,
                version,
                "release_differs",
                f"The server that answers is SGLang {facts.version}, and {version} was planned.",
                "Look at who holds the port (listener_info): a server of another environment, or one that was started "
                "before the release changed.",
            )
        )
    if model_path is not None:
        same = None if facts.model_path is None else facts.model_path.rstrip("/") == model_path.rstrip("/")
        checks.append(
            Check(
                "model_path",
                same,
                facts.model_path,
                model_path,
                "model_differs",
                f"The server that answers has loaded {facts.model_path}, and {model_path} was planned.",
                "Look at who holds the port (listener_info), and restart the instance if it is an older start of it.",
            )
        )
    return checks


def _same_release(found: str, wanted: str) -> bool | None:
    """None for a build between releases, which names itself after the next one whatever it was made of."""
    known = known_release(None, found)
    if known is None:
        return None
    version = parse_version(known)
    same = version == parse_version(wanted)
    return same if same or version.final else None


def known_release(given: str | None, told: str | None) -> str | None:
    """As given, else as the server says; None where that is no version."""
    if given is not None or told is None:
        return given
    try:
        parse_version(told)
    except Refusal:
        return None
    return told
