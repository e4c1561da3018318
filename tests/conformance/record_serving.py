# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask the wheels how each release tells that it serves, and where cached tokens came from.

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_serving --wheels FOLDER

The health endpoints are executed as they stand in entrypoints/http_server.py of each wheel; replaced are the clocks,
the event loop and the state of the server that they look at. The rest is read: routes, fields, names of metrics and
thresholds. Nothing has to be installed.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import builtins
import hashlib
import json
import re
import types
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ANSWERS = HERE / "oracle" / "serving.json"
HTTP_SERVER = "sglang/srt/entrypoints/http_server.py"
_WHEEL = re.compile(r"^sglang-(\d+\.\d+\.\d+(?:rc\d+)?)-")
_THRESHOLD = re.compile(r"1\s+if\s+[\w.()]*hicache_write_policy\s*==\s*\"write_through\"\s+else\s+(\d+)")
ROUTES = frozenset(
    ("/health", "/health_generate", "/ready", "/get_load", "/v1/loads")
    + ("/server_info", "/get_server_info", "/model_info", "/get_model_info")
)
# Seconds since 1970, and since the machine was booted.
NOW, SINCE_BOOT = 1_790_000_000.0, 5_000.0
# What has been heard from the detokenizer: nothing ever, something before the endpoint was asked, something for
# somebody else a moment after that.
HEARD = ("never", "before", "meanwhile")


class Anything:
    """Stands for whatever an endpoint hands on without looking at it."""

    def __getattr__(self, name: str) -> Any:
        return Anything()

    def __call__(self, *args: Any, **options: Any) -> Any:
        return Anything()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


class Environment:
    """SGLang's envs with their defaults, as far as health looks at them."""

    def __getattr__(self, name: str) -> Any:
        return types.SimpleNamespace(get=lambda: name == "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION")


def answer_of(source: str, path: str, starting: bool, draining: bool, heard: str) -> int:
    """The status that a release answers with, on clocks that move by its own sleeping."""
    tree = ast.parse(source)
    (function,) = (one for one in tree.body if isinstance(one, ast.AsyncFunctionDef) and path in routes_of(one))
    function.decorator_list = []
    slept = 0.0
    never: float = 0
    state = types.SimpleNamespace(
        last_receive_tstamp={"never": never, "before": NOW - 60.0, "meanwhile": NOW - 60.0}[heard],
        gracefully_exit=draining,
        server_status="Starting" if starting else "Up",
        is_image_gen=False,
        is_generation=True,
        rid_to_state={},
        generate_request=Anything(),
        server_args=types.SimpleNamespace(disaggregation_mode="null"),
    )

    async def sleep(seconds: float) -> None:
        nonlocal slept
        slept += seconds
        if heard == "meanwhile" and slept >= 2.0:
            state.last_receive_tstamp = NOW + slept

    def create_task(work: Any) -> Any:
        work.close()
        return Anything()

    given: dict[str, Any] = {
        "_global_state": types.SimpleNamespace(tokenizer_manager=state),
        "get_disagg": lambda: types.SimpleNamespace(disaggregation_mode="null"),
        "DisaggregationMode": types.SimpleNamespace(NULL=types.SimpleNamespace(value="null")),
        "ServerStatus": types.SimpleNamespace(Starting="Starting", Up="Up", UnHealthy="UnHealthy"),
        "envs": Environment(),
        "asyncio": types.SimpleNamespace(sleep=sleep, create_task=create_task),
        "time": types.SimpleNamespace(
            time=lambda: NOW + slept,
            perf_counter=lambda: SINCE_BOOT + slept,
            strftime=lambda *_given: "",
            localtime=lambda *_given: None,
        ),
        "Response": lambda status_code, **_rest: types.SimpleNamespace(status=status_code),
        "HEALTH_CHECK_TIMEOUT": 20,
    }
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)} - set(dir(builtins))
    given = {**dict.fromkeys(names, Anything()), **given}
    code = compile(
        ast.Module([*ast.parse("from __future__ import annotations").body, function], []), "endpoint", "exec"
    )
    exec(code, given)
    request = types.SimpleNamespace(url=types.SimpleNamespace(path=path))
    takes = [request] if function.args.args else []
    return int(asyncio.run(given[function.name](*takes)).status)


def routes_of(function: ast.AsyncFunctionDef | ast.FunctionDef) -> list[str]:
    calls = [one for one in function.decorator_list if isinstance(one, ast.Call) and one.args]
    return [str(one.args[0].value) for one in calls if isinstance(one.args[0], ast.Constant)]


def routes_in(sources: dict[str, str]) -> set[str]:
    found = set()
    for name, source in sources.items():
        if "/entrypoints/" in name:
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, (ast.AsyncFunctionDef, ast.FunctionDef)):
                    found.update(routes_of(node))
    return found


def fields_of(source: str, name: str) -> list[str]:
    (found,) = (node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == name)
    return [str(getattr(node.target, "id", "")) for node in found.body if isinstance(node, ast.AnnAssign)]


def asked(sources: dict[str, str]) -> dict[str, Any]:
    """What one release says."""
    http = sources[HTTP_SERVER]
    manager = sources["sglang/srt/managers/tokenizer_manager.py"]
    fields = fields_of(sources["sglang/srt/managers/io_struct.py"], "GenerateReqInput")
    everything = "\n".join(sources.values())
    # What keeps the tree of prompts; others of the folder are of other caches.
    trees = [text for name, text in sources.items() if re.search(r"mem_cache/(hiradix_cache|unified)", name)]
    return {
        "health": [
            {
                "path": path,
                "starting": starting,
                "draining": draining,
                "heard": heard,
                "status": answer_of(http, path, starting, draining, heard),
            }
            for path in ("/health", "/health_generate")
            for starting, draining in ((False, False), (True, False), (False, True))
            for heard in HEARD
        ],
        "routes": sorted(routes_in(sources) & ROUTES),
        "rank_fields": sorted(one for one in fields if one in ("data_parallel_rank", "routed_dp_rank")),
        "tells_source": '"cached_tokens_details"]' in manager,
        "tells_verifications": 'meta_info["spec_verify_ct"]' in manager,
        "counts_load_back": '"sglang:load_back_tokens_total"' in everything,
        "selective_hits": sorted({int(one) for text in trees for one in _THRESHOLD.findall(text)}),
        "load_back_tokens": sorted(
            {int(one) for text in trees for one in re.findall(r"load_back_threshold = (\d+)", text)}
        ),
    }


def wheels(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in folder.glob("sglang-*.whl"):
        match = _WHEEL.match(path.name)
        if match is not None:
            yield match.group(1), path


def sources_of(path: Path) -> dict[str, str]:
    wanted = re.compile(r"^sglang/srt/(entrypoints|managers|mem_cache|metrics|observability)/.*\.py$")
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name).decode() for name in wheel.namelist() if wanted.match(name)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path, required=True, help="folder with sglang-X.Y.Z wheels")
    arguments = parser.parse_args()
    releases = [
        {
            "sglang_version": version,
            "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            **asked(sources_of(path)),
        }
        for version, path in wheels(arguments.wheels)
    ]

    def order(release: dict[str, Any]) -> list[int]:
        return [int(part) for part in re.findall(r"\d+", release["sglang_version"].replace("rc", ".-1."))]

    releases.sort(key=order)
    rows = ",\n".join(json.dumps(release) for release in releases)
    ANSWERS.write_text(f"[{rows}]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
