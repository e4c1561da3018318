# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask the wheels' own C(PortArgs.init_new) which TCP ports it gives to the processes of a server.

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_ports --wheels FOLDER

The class is executed as it stands in server_args.py of each wheel. Replaced is what it asks its machine: whether a port
is free (all are that exist), what the kernel hands out, and names of temporary files. Nothing has to be installed.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import hashlib
import itertools
import json
import logging
import random
import re
import types
import typing
import uuid
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ANSWERS = HERE / "oracle" / "ports.json"
SOURCE = "sglang/srt/server_args.py"
PORTS = (30000, 64000, 65295, 65296, 65297, 65298, 65299, 65300, 65301, 65302, 65303, 65400, 65535)
ATTENTION_DP = (1, 2, 8)
# What stands for a port that the kernel chooses, and for one that is sought below those.
EPHEMERAL, BELOW = 45555, 25555
_WHEEL = re.compile(r"^sglang-(\d+\.\d+\.\d+)-")
_TCP = re.compile(r"^tcp://127\.0\.0\.1:(\d+)$")


class Address:
    """Stands for SGLang's NetworkAddress."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def to_tcp(self) -> str:
        return f"tcp://{self.host}:{self.port}"


class Environment:
    """Stands for SGLang's envs: nothing is set."""

    def __getattr__(self, name: str) -> Any:
        return types.SimpleNamespace(get=lambda: None)


def port_args(source: str, waited: list[int]) -> Any:
    """The class of a release; C(waited) collects the ports that it wants to be free."""
    kept = [
        node
        for node in ast.parse(source).body
        if (isinstance(node, ast.ClassDef) and node.name == "PortArgs")
        or (isinstance(node, ast.Assign) and str(getattr(node.targets[0], "id", "")).endswith("PORT_DELTA"))
    ]
    lazy = ast.parse("from __future__ import annotations").body
    names: dict[str, Any] = {
        "dataclasses": dataclasses,
        "dataclass": dataclasses.dataclass,
        "random": random,
        "tempfile": types.SimpleNamespace(NamedTemporaryFile=lambda delete: types.SimpleNamespace(name="/tmp/ipc")),
        "uuid": uuid,
        "logger": logging.getLogger(__name__),
        "Optional": typing.Optional,
        "List": list,
        "NetworkAddress": Address,
        "envs": Environment(),
        "is_port_available": lambda port: port <= 65535,
        "wait_port_available": lambda port, name, **others: None if name == "nccl_port" else waited.append(port),
        "get_free_port": lambda: EPHEMERAL,
        "get_free_port_below_ephemeral": lambda: BELOW,
        "resolving_view": lambda arguments: arguments,
        "attn_dp_enabled_of": lambda arguments: arguments.enable_dp_attention,
        "num_dp_ranks_of": lambda arguments: arguments.dp_size,
        "ep_scale_joiner_of": lambda arguments: False,
        "ep_joiner_of": lambda arguments: False,
    }
    exec(compile(ast.Module([*lazy, *kept], []), SOURCE, "exec"), names)
    return names["PortArgs"]


def answer(source: str, port: int, attention_dp: int) -> dict[str, Any]:
    waited: list[int] = []
    init = port_args(source, waited).init_new
    arguments = types.SimpleNamespace(
        port=port,
        enable_dp_attention=attention_dp > 1,
        dp_size=attention_dp,
        nnodes=1,
        dist_init_addr=None,
        nccl_port=None,
        tokenizer_worker_num=1,
        decoupled_spec_role="null",
        is_ep_scale_joiner=False,
        is_ep_joiner=False,
    )
    random.seed(0)
    given = init(arguments)
    taken = {*waited, *_tcp(given)}
    # To 0.5.3 each rank derives a port of its own; later ones are told theirs, which any socket was bound to.
    if attention_dp > 1 and "worker_ports" not in init.__code__.co_varnames:
        for rank in range(attention_dp):
            taken.update(_tcp(init(arguments, rank)))
    return {"port": port, "attention_dp": attention_dp, "taken": sorted(taken), "nccl": given.nccl_port}


def _tcp(given: Any) -> Iterator[int]:
    for field in dataclasses.fields(given):
        match = _TCP.match(str(getattr(given, field.name)))
        if match is not None:
            yield int(match.group(1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wheels", type=Path, required=True)
    releases = []
    for wheel in parser.parse_args().wheels.glob("sglang-*.whl"):
        match = _WHEEL.match(wheel.name)
        if match is None:
            continue
        with zipfile.ZipFile(wheel) as archive:
            source = archive.read(SOURCE).decode()
        releases.append(
            {
                "sglang_version": match.group(1),
                "wheel": wheel.name,
                "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
                "answers": [answer(source, *case) for case in itertools.product(PORTS, ATTENTION_DP)],
            }
        )
    releases.sort(key=lambda one: [int(part) for part in one["sglang_version"].split(".")])
    lines = [json.dumps(one) for one in releases]
    ANSWERS.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
