# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Read what the releases of SGLang can print while they start: oracle/log-lines.json.

Run with any Python and with the folder above ansible_collections on PYTHONPATH. Nothing of SGLang is imported, and the
wheels are read as they are:

    python -m ansible_collections.gpufleet.sglang.tests.conformance.record_log_lines --wheels FOLDER

Of tens of thousands of texts it keeps those about a start (NEAR), and the counts of the rest. A text is listed with the
file that prints it and the releases in which it does, as [first, last].
"""

import argparse
import hashlib
import json
import re
import warnings
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import EXAMINED
from ansible_collections.gpufleet.sglang.tests.conformance.log_templates import Template, templates_of

TARGET = Path(__file__).resolve().parent / "oracle" / "log-lines.json"
SERVER = "sglang/srt/"
# Words of lines about a start, and of others that come near to them.
NEAR = re.compile(
    r"captur|load(?:ing)? weight|checkpoint (?:shards|files)|loading shards|avail[_ ]mem|allocat|host (?:memory|pool)"
    r"|kv (?:cache|pool)|memory (?:pool|baseline|saver)|torch distributed|init parallel|warm ?up|ready to roll|startup"
    r"|server process|uvicorn|granian|health check server|tree cache|pool stack|auto-siz|max_total_num_tokens|kv sizing"
    r"|sliding window|mamba c|pool sizes|gated launch|headroom|dummy mode|server_args=|scheduler|replayssm|upper bound"
    r"|streamer|autotun|deepgemm|compiling|mhc |kda prefill|(?:plain|page-size|prefaulted) mmap|terminated with",
    re.IGNORECASE,
)
# Longer ones are paragraphs of advice; their beginning is what could be mistaken.
LONGEST = 330
_PARTS = re.compile(r'prefix \+= f" ([A-Z_]+)\{')


def read_wheel(path: Path, known: dict[str, list[Template]]) -> tuple[dict[Template, str], list[str], int]:
    """({template: its file}, parts of the prefix in their order, how many others were found)."""
    found: dict[Template, str] = {}
    parts: list[str] = []
    others = 0
    with zipfile.ZipFile(path) as archive:
        for file in sorted(archive.namelist()):
            if not file.startswith(SERVER) or not file.endswith(".py"):
                continue
            content = archive.read(file)
            digest = hashlib.sha256(content).hexdigest()
            if digest not in known:
                known[digest] = templates_of(content.decode("utf-8", errors="replace").lstrip("\ufeff"))
            for template in known[digest]:
                if template.how == "setproctitle" or NEAR.search(template.text):
                    found[Template(template.how, template.text[:LONGEST])] = file.removeprefix(SERVER)
                else:
                    others += 1
            if file == f"{SERVER}managers/scheduler.py":
                source = content.decode("utf-8")
                parts = _PARTS.findall(source[source.rindex('prefix = ""') :])
    return found, parts, others


def spans(releases: Iterable[str]) -> list[list[str]]:
    """Releases as [first, last] of every run without a gap."""
    order = [str(one) for one in EXAMINED]
    found: list[list[str]] = []
    for release in sorted(releases, key=order.index):
        if found and order.index(found[-1][1]) + 1 == order.index(release):
            found[-1][1] = release
        else:
            found.append([release, release])
    return found


def record(folder: Path) -> dict[str, Any]:
    warnings.simplefilter("ignore", SyntaxWarning)
    known: dict[str, list[Template]] = {}
    source: dict[str, dict[str, str]] = {}
    files: dict[Template, str] = {}
    releases: dict[Template, list[str]] = {}
    prefixes: dict[tuple[str, ...], list[str]] = {}
    others = {}
    for release in map(str, EXAMINED):
        (wheel,) = folder.glob(f"sglang-{release}-*.whl")
        source[release] = {"wheel": wheel.name, "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest()}
        found, parts, others[release] = read_wheel(wheel, known)
        files.update(found)
        for template in found:
            releases.setdefault(template, []).append(release)
        prefixes.setdefault(tuple(parts), []).append(release)
        print(f"{release}: {len(found)} texts about a start, {others[release]} others, prefix {' '.join(parts)}")
    return {
        "source": source,
        "others": others,
        "prefixes": [[" ".join(parts), spans(held)] for parts, held in prefixes.items()],
        "templates": sorted([one.text, one.how, files[one], spans(held)] for one, held in releases.items()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Read what the releases of SGLang can print while they start")
    parser.add_argument("--wheels", type=Path, required=True)
    recorded = record(parser.parse_args().wheels)
    lines = ",\n".join(json.dumps(row) for row in recorded.pop("templates"))
    head = json.dumps(recorded, indent=0)[:-2]
    TARGET.write_text(f'{head},\n"templates": [\n{lines}\n]\n}}\n', encoding="utf-8")
    print(f"{TARGET.name}: {lines.count(chr(10)) + 1} texts, {TARGET.stat().st_size} bytes")


if __name__ == "__main__":
    main()
