# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts sglang.launch_server with keys that systemd hands over, and shows them to nobody.

SGLang takes a key as a flag, which everybody reads in /proc/PID/cmdline, or from its configuration file; in both cases
it prints the key in its log (server_args=) and answers it under /server_info, in every release from 0.4.7 to 0.5.23.
Here the arguments hold a word in the place of each key, and so does everything that is made of them: log, answers and
what child processes are told. The key itself is in three places: the credential, the middleware that compares it, and
the header of the server's own warm-up.

Not used by whoever has no keys. Child processes import this file as their main module, which does nothing then.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import runpy
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

HIDDEN = "<hidden>"
NAMES = ("api_key", "admin_api_key")


class HiddenKey(str):
    """A word in the place of a key. Formatted into a header it is the key, whatever else is done with it the word."""

    __slots__ = ("_key",)
    _key: str

    def __new__(cls, key: str) -> HiddenKey:
        made = super().__new__(cls, HIDDEN)
        made._key = key
        return made

    def __format__(self, spec: str) -> str:
        return format(self._key, spec)

    def __radd__(self, before: str) -> str:
        return before + self._key

    def __str__(self) -> str:
        return HIDDEN

    def __copy__(self) -> HiddenKey:
        return self

    def __deepcopy__(self, _memo: object) -> str:
        return HIDDEN

    def __reduce_ex__(self, _protocol: object) -> tuple[type[str], tuple[str]]:
        # Other processes compare no keys, so that they are told none.
        return (str, (HIDDEN,))


def read_keys(folder: Path) -> dict[str, str]:
    """The keys that systemd has put there, by the name of the argument."""
    keys = {}
    for name in NAMES:
        with contextlib.suppress(FileNotFoundError):
            keys[name] = (folder / name).read_text(encoding="utf-8").rstrip("\r\n")
    for name, key in keys.items():
        if not key or not key.isascii() or not key.isprintable() or " " in key or key == HIDDEN:
            sys.exit(f"The credential {name} is no key: expected printable ASCII without blanks.")
    return keys


def with_hidden_keys(prepare: Callable[..., Any], keys: Mapping[str, str]) -> Callable[..., Any]:
    """The function that makes the arguments, and puts a word for each key into them."""

    def prepared(*words: Any, **options: Any) -> Any:
        arguments = prepare(*words, **options)
        for name, key in keys.items():
            if not hasattr(arguments, name):
                sys.exit(f"This release of SGLang takes no {name}.")
            if getattr(arguments, name):
                sys.exit(f"{name} is among the arguments already; expected it in the credential alone.")
            setattr(arguments, name, HiddenKey(key))
        if (getattr(arguments, "tokenizer_worker_num", 1) or 1) > 1:
            sys.exit("Keys are not asked for with tokenizer_worker_num above 1; expected 1.")
        return arguments

    return prepared


def guarded_by(add_middleware: Callable[..., Any], keys: Mapping[str, str]) -> Callable[..., Any]:
    """The function that makes the server ask for keys, with the keys themselves whatever it is given."""
    takes_admin = "admin_api_key" in inspect.signature(add_middleware).parameters

    def guarded(app: Any, *_words: Any, **_options: Any) -> Any:
        if takes_admin:
            return add_middleware(app, api_key=keys.get("api_key"), admin_api_key=keys.get("admin_api_key"))
        return add_middleware(app, keys["api_key"])

    return guarded


def guard(keys: Mapping[str, str]) -> None:
    """Lets every module that adds the middleware add the one that knows the keys, or ends where none does."""
    # entrypoints/http_server.py takes it from utils (to 0.5.7) or utils/auth.py (from 0.5.8 on).
    importlib.import_module("sglang.srt.entrypoints.http_server")
    with contextlib.suppress(ImportError):
        importlib.import_module("sglang.srt.utils.auth")
    name = "add_api_key_middleware"
    holders = [
        module for path, module in list(sys.modules.items()) if path.startswith("sglang.") and name in vars(module)
    ]
    if not holders:
        sys.exit("This release of SGLang has no add_api_key_middleware; expected 0.4.7 to 0.5.23.")
    for module in holders:
        setattr(module, name, guarded_by(vars(module)[name], keys))


def main() -> None:
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    keys = read_keys(Path(folder)) if folder else {}
    if not keys:
        sys.exit("There is no credential; expected api_key, admin_api_key or both in the folder CREDENTIALS_DIRECTORY.")
    arguments: Any = importlib.import_module("sglang.srt.server_args")
    arguments.prepare_server_args = with_hidden_keys(arguments.prepare_server_args, keys)
    guard(keys)
    runpy.run_module("sglang.launch_server", run_name="__main__")


if __name__ == "__main__":
    main()
