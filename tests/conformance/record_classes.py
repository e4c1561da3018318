# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read out of SGLang's wheels which model classes each release serves, and write them to oracle/model-classes.json.

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_classes sglang-0.4.7-....whl ...

Nothing of SGLang is imported: the classes are the names in C(EntryClass) of srt/models/. Whether a class keeps states
per request is told by its file, which then names state-space, linear or short-convolution layers.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import re
import zipfile
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version

TARGET = Path(__file__).resolve().parent / "oracle" / "model-classes.json"
STATES = re.compile(
    r"RadixLinearAttention|MambaMixer|HybridLinearAttn|ShortConv|LightningAttention|mamba2_cache_params"
)


def entry_classes(source: str) -> set[str]:
    """The names that a model file registers."""
    names: set[str] = set()
    # One file of the older wheels begins with a byte order mark.
    for node in ast.parse(source.lstrip("\ufeff")).body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if any(isinstance(target, ast.Name) and target.id == "EntryClass" for target in targets):
            value = getattr(node, "value", None)
            names |= {item.id for item in ast.walk(value) if isinstance(item, ast.Name)} if value is not None else set()
    return names


def read_wheel(path: Path) -> tuple[str, dict[str, str]]:
    """(release, file of each model class)."""
    release = path.name.split("-")[1]
    found: dict[str, str] = {}
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if not name.startswith("sglang/srt/models/") or not name.endswith(".py"):
                continue
            source = archive.read(name).decode("utf-8", errors="replace")
            for model_class in entry_classes(source) if "EntryClass" in source else ():
                found[model_class] = source
    return release, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("wheels", nargs="+", type=Path)
    wheels = sorted(parser.parse_args().wheels, key=lambda path: parse_version(path.name.split("-")[1]))
    record: dict[str, Any] = {"releases": [], "states": []}
    before: set[str] = set()
    sources: dict[str, str] = {}
    for path in wheels:
        release, found = read_wheel(path)
        record["releases"].append(
            {
                "sglang": release,
                "wheel": path.name,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
                "added": sorted(set(found) - before),
                "removed": sorted(before - set(found)),
            }
        )
        before = set(found)
        sources.update(found)
    record["states"] = sorted(name for name, source in sources.items() if STATES.search(source))
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{TARGET.name}: {len(sources)} classes of {len(wheels)} releases, {len(record['states'])} with states")


if __name__ == "__main__":
    main()
