# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The gate: health, the name of the model, a token of one's own, a chat completion. No I/O.

Health alone proves little: it is answered by any output for anybody, by proxies, and by the nodes above 0 of a replica.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.memory.units import format_seconds
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.serving_versions import (
    GENERATING_HEALTH,
    PLAIN_HEALTH,
    ServingFacts,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import Answer, count, rows, shown
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.asking import (
    TOKEN_IDS,
    Call,
    Check,
    Client,
    generate_call,
    read_generation,
    unique_prompt,
)

# It looks once a second and takes a token each time: asked again only when it has answered, and not at once.
HEALTH_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 5.0
PAUSE_GROWS = 1.5
# Beyond the server's own patience, so that its answer is read and not a timeout of ours.
HEALTH_MARGIN_SECONDS = 5.0
MODELS_SECONDS = 30.0
# entrypoints/http_server.py: from 0.5.20 on.
READY = "/ready"
READY_SECONDS = 5.0
MOST_NAMES = 8


def ask_health(client: Client, seconds: float) -> tuple[Answer, str]:
    """The path that generates in every release; the plain one where something in front passes only that on."""
    answer = client.get(GENERATING_HEALTH, seconds + HEALTH_MARGIN_SECONDS)
    if answer.status != 404:
        return answer, GENERATING_HEALTH
    return client.get(PLAIN_HEALTH, seconds + HEALTH_MARGIN_SECONDS), PLAIN_HEALTH


def check_health(client: Client, seconds: float, patience: float) -> Check:
    """Again until it is healthy or the time is up; each answer is awaited before the next is asked for."""
    asked, pause = 0, HEALTH_PAUSE_SECONDS
    while True:
        answer, path = ask_health(client, seconds)
        asked += 1
        if answer.status == 200:
            return Check("health", True, 200, 200)
        if client.left_seconds() <= pause:
            break
        client.sleep(pause)
        pause = min(pause * PAUSE_GROWS, LONGEST_PAUSE_SECONDS)
    found = answer.words()
    return Check(
        "health",
        False,
        answer.status or found,
        200,
        "health_not_reached",
        f"The server did not become healthy within {format_seconds(patience)}; {path} last gave {found}.",
        _health_remedy(answer),
        values={"asked": asked, "last_status": answer.status or None, "patience_seconds": patience},
    )


def _health_remedy(answer: Answer) -> str:
    """What to do about an answer that is no health; some show that it is no server of SGLang that answers."""
    if "WRONG_VERSION_NUMBER" in answer.body:
        return "What listens there speaks plain HTTP: give url with http://."
    if "BadStatusLine" in answer.body:
        return (
            "What listens there speaks no plain HTTP: give url with https:// if it is the server, else see who it is "
            "with `ss -ltnp`."
        )
    if 300 <= answer.status < 400:
        return "Something in front of the server sends one elsewhere: give url with the server's own address."
    return (
        "Look at the log of the unit: 503 means that it starts, drains or does not answer its own request, and no "
        "answer that nobody listens."
    )


def check_health_again(client: Client, seconds: float, facts: ServingFacts) -> Check:
    """After the burn-in. A server that has answered all of it and is unhealthy is dying."""
    answer, path = ask_health(client, seconds)
    found = answer.words()
    return Check(
        "health_after_burn_in",
        answer.status == 200,
        answer.status or found,
        200,
        "health_lost",
        f"The server was healthy, answered the burn-in and is not healthy now: {path} gave {found}.",
        f"Look at the log of the unit. In this release, 200 means no more than that {facts.health_means}.",
        values={"last_status": answer.status or None},
    )


def model_names(answer: Answer) -> list[str]:
    """As the server says them: to compare and to ask for, not to show."""
    ids = [row.get("id") for row in rows(answer.mapping().get("data"))]
    return [one for one in ids if isinstance(one, str) and one]


def context_tokens(answer: Answer) -> int | None:
    """Longest sequence that the server takes."""
    lengths = [count(row.get("max_model_len")) for row in rows(answer.mapping().get("data"))]
    return next((length for length in lengths if length), None)


def check_model_name(answer: Answer, expected: str | None) -> Check:
    """C(answer): to /v1/models, which answers before anything is loaded, so that it proves the name and no more."""
    name = "served_model_name"
    names = model_names(answer)
    said = shown(", ".join(names[:MOST_NAMES]), answer.hidden)
    found = said or answer.words()
    if answer.status in (401, 403):
        return Check(
            name,
            False,
            answer.status,
            expected,
            "key_rejected",
            f"The API key was not accepted (status {answer.status}).",
            "Give the server's own key as api_key; the key for administration does not open this endpoint.",
        )
    if not names:
        return Check(
            name,
            False,
            found,
            expected or "a model",
            "not_an_api_server",
            f"What answers under that port lists no models ({found}), although its health endpoint gives 200.",
            "Look at who holds the port: another program, a proxy in front that answers by itself, or a node above 0 "
            "of a replica, which serves health alone.",
        )
    return Check(
        name,
        expected is None or expected in names,
        said,
        expected or "any",
        "model_not_served",
        f"The server serves {said} under that port, and {expected} is expected: another server, or another name.",
        "Give the name that the server was started with, or look at who holds the port.",
    )


def check_asks_for_key(stranger: Client) -> Check:
    """Whether whoever shows no key is turned away, from what lists models as from what generates."""
    calls = (Call("GET", "/v1/models", None, MODELS_SECONDS), generate_call([TOKEN_IDS[0]], 1, seconds=MODELS_SECONDS))
    for call in calls:
        answer = stranger.send(call)
        if answer.status not in (401, 403):
            found = answer.status or answer.words()
            return Check(
                "asks_for_key",
                False,
                found,
                401,
                "key_not_asked_for",
                f"The server is to ask for a key, and {call.path} without one gave {found}.",
                "Stop it, and look at how it was started: it runs without its key, or something in front adds it.",
                values={"status": answer.status or None},
            )
    return Check("asks_for_key", True, 401, 401)


def check_own_token(client: Client, dice: random.Random, facts: ServingFacts) -> Check:
    call = generate_call(unique_prompt(dice, 8), 1)
    answer = client.send(call)
    done = read_generation(answer)
    if done is not None and done.completion_tokens >= 1:
        return Check("generate", True, done.completion_tokens, 1)
    if answer.late:
        return _hang(answer, client.get(READY, READY_SECONDS).status, facts)
    found: Any = answer.words() if done is None else done.completion_tokens
    return Check(
        "generate",
        False,
        found,
        1,
        "generation_failed",
        f"The server did not generate a token ({found})." if done is None else "The server generated no token.",
        "Look at the log of the unit; if the message is not of SGLang, at who holds the port.",
    )


def _hang(answer: Answer, ready: int, facts: ServingFacts) -> Check:
    """C(ready): what /ready gives where there is one; 503 while generation is paused, as health does not tell."""
    paused = ready == 503
    return Check(
        "generate",
        False,
        answer.words(),
        1,
        "generation_paused" if paused else "generation_hangs",
        f"The server calls itself healthy and generates no token: {answer.words()}."
        + (f" {READY} gives 503: generation is paused, or the server drains." if paused else ""),
        "Let it go on (/continue_generation), or wait until it has drained."
        if paused
        else f"Restart it. In this release, health means no more than that {facts.health_means}; look in the log for a "
        "rank that stopped, a watchdog or a collective that waits.",
        values={"waited_seconds": answer.seconds, "ready_status": ready or None},
    )


def check_chat(client: Client, model: str) -> Check:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Say yes."}],
        "max_tokens": 4,
        "temperature": 0,
    }
    answer = client.send(Call("POST", "/v1/chat/completions", body))
    data = answer.mapping()
    usage = data.get("usage")
    tokens = count(usage.get("completion_tokens")) if isinstance(usage, Mapping) else None
    answered = bool(rows(data.get("choices")))
    what = "no token" if answered else answer.words()
    return Check(
        "chat_completion",
        answered and bool(tokens),
        tokens if answered else what,
        "1 or more",
        "chat_failed",
        f"A chat completion failed ({what}).",
        "Give the server a chat template, or set chat to false for a model without one.",
    )
