# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts sglang_router with arguments out of a file and keys that systemd hands over.

sglang-router takes a key as a flag alone, which everybody reads in /proc/PID/cmdline until it has renamed itself. Here
its own parser is given the arguments within the process. With --check nothing is started: the file is read as the
release would.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

RUNTIME = Path("/run/sglang-router")
# Credential, flag, and whether the flag takes the path of the file or what it holds.
CREDENTIALS = (
    ("api_key", "--api-key", False),
    ("admin_api_key", "--control-plane-api-keys", False),
    ("tls_key", "--tls-key-path", True),
    ("client_key", "--client-key-path", True),
)


def words_of(arguments: dict[str, Any]) -> list[str]:
    """The arguments as a command line has them. A flag that is true stands alone, one that is false or null is none."""
    words: list[str] = []
    for name, value in arguments.items():
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif isinstance(value, list):
            words += [flag, *map(str, value)]
        elif value is not None and value is not False:
            words += [flag, str(value)]
    return words


def words_of_credentials(folder: Path) -> list[str]:
    words: list[str] = []
    for name, flag, takes_path in CREDENTIALS:
        path = folder / name
        if not path.exists():
            continue
        if takes_path:
            words += [flag, str(path)]
            continue
        key = path.read_text(encoding="utf-8").rstrip("\r\n")
        # id:name:role:key
        words += [flag, f"gpufleet:gpufleet:admin:{key}" if name == "admin_api_key" else key]
    return words


def parse(words: list[str]) -> Any:
    from sglang_router.router_args import RouterArgs

    parser = argparse.ArgumentParser(prog="sglang-router", allow_abbrev=False)
    RouterArgs.add_cli_args(parser)
    return RouterArgs.from_cli_args(parser.parse_args(words))


def main() -> None:
    own = argparse.ArgumentParser()
    own.add_argument("--config", type=Path, required=True)
    own.add_argument("--check", action="store_true")
    given = own.parse_args()
    words = words_of(json.loads(given.config.read_text(encoding="utf-8"))["arguments"])
    if given.check:
        parse(words)
        return
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    arguments = parse(words + (words_of_credentials(Path(folder)) if folder else []))
    # What this process runs by; gone with the unit's folder when it ends.
    (RUNTIME / "generation").write_text(os.environ.get("GPUFLEET_GENERATION", "") + "\n", encoding="utf-8")
    (RUNTIME / "generation").chmod(0o644)
    from sglang_router.launch_router import launch_router

    launch_router(arguments)


if __name__ == "__main__":
    sys.exit(main())
