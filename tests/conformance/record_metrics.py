# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read which metrics each release of SGLang has: oracle/metrics.json.

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_metrics --wheels FOLDER

Nothing of SGLang is imported. A metric is listed with its kind and the releases that have it, as [first, last].
"""

from __future__ import annotations

import argparse
import ast
import json
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED

METRICS = Path(__file__).resolve().parent / "oracle" / "metrics.json"
KINDS = ("Counter", "Gauge", "Histogram", "Summary")
PREFIX = "sglang:"


def metrics_of(source: str) -> Iterator[tuple[str, str]]:
    """(name, kind) of each that is made with a name that stands there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(source)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        kind = next((kind for kind in KINDS if called.lstrip("_").endswith(kind)), None)
        names = [one.value for one in node.keywords if one.arg == "name"] or list(node.args[:1])
        if kind and names and isinstance(names[0], ast.Constant) and str(names[0].value).startswith(PREFIX):
            yield str(names[0].value), kind.lower()


def of_wheel(path: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    with zipfile.ZipFile(path) as wheel:
        for name in wheel.namelist():
            if name.startswith("sglang/srt/") and name.endswith(".py"):
                source = wheel.read(name)
                if PREFIX.encode() in source:
                    found.update(metrics_of(source.decode("utf-8").lstrip("\ufeff")))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", type=Path, required=True, help="folder with sglang-X.Y.Z wheels")
    folder = parser.parse_args().wheels
    spans: dict[tuple[str, str], list[list[str]]] = {}
    before: set[tuple[str, str]] = set()
    for release in map(str, EXAMINED):
        (path,) = folder.glob(f"sglang-{release}-*.whl")
        found = set(of_wheel(path).items())
        for one in sorted(found):
            if one in before:
                spans[one][-1][1] = release
            else:
                spans.setdefault(one, []).append([release, release])
        before = found
    rows = (json.dumps({"name": name, "kind": kind, "releases": spans[name, kind]}) for name, kind in sorted(spans))
    METRICS.write_text("[\n" + ",\n".join(rows) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
