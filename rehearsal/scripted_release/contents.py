# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the release consists of: its wheel with the scripted server in it, and a torch that is nothing but a name.

The modules of sglang have the names and the functions that the role's import check and its key launcher ask for, and
that is all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.wheel import Wheel
from ansible_collections.gpufleet.sglang.rehearsal.scripted_server.scenario import version_of

HERE = Path(__file__).resolve().parent
PACKAGE = "ansible_collections/gpufleet/sglang/rehearsal"
# Only on the controller, where it is made and installed.
NOT_CARRIED = {"installing.py", "play.py", "__main__.py", "contents.py", "wheel.py"}
# The first release that reads a configuration file, and the last that the scripted server knows the lines of.
OLDEST, NEWEST = "0.5.3", "0.5.23"
TORCH = "2.13.0+scripted"
SUMMARY = "Stand-in that plays a start of SGLang; serves no model"

_ENGINE = "ansible_collections.gpufleet.sglang.rehearsal.scripted_release"
_LAUNCH_SERVER = """\
import sys

from sglang.srt.server_args import prepare_server_args


def run_server(server_args):
    from sglang.srt.entrypoints.http_server import launch_server

    launch_server(server_args)


if __name__ == "__main__":
    run_server(prepare_server_args(sys.argv[1:]))
"""
_SERVER_ARGS = """\
from {engine}.arguments import prepare


def prepare_server_args(argv):
    return prepare(argv, admin_key={admin})
"""
# From 0.5.8 on: utils/auth.py, with a key for administration.
_AUTH = """\
from {engine}.serving import guard_app


def add_api_key_middleware(app, *, api_key, admin_api_key):
    guard_app(app, api_key, admin_api_key)
"""
_HTTP_SERVER = """\
from {engine}.serving import app_of, serve

from sglang.version import __version__


def launch_server(server_args):
    app = app_of(__version__, server_args)
    if server_args.api_key or server_args.admin_api_key:
        from sglang.srt.utils.auth import add_api_key_middleware

        add_api_key_middleware(app, api_key=server_args.api_key, admin_api_key=server_args.admin_api_key)
    serve(app)
"""
# To 0.5.7: utils (utils/common.py), with one key.
_OLD_AUTH = """\
from {engine}.serving import guard_app


def add_api_key_middleware(app, api_key):
    guard_app(app, api_key, None)
"""
_OLD_HTTP_SERVER = """\
from {engine}.serving import app_of, serve

from sglang.srt.utils import add_api_key_middleware
from sglang.version import __version__


def launch_server(server_args):
    app = app_of(__version__, server_args)
    if server_args.api_key:
        add_api_key_middleware(app, server_args.api_key)
    serve(app)
"""


def _carried() -> dict[str, bytes]:
    """The scripted server and what turns arguments into its scenario."""
    return {
        f"{PACKAGE}/{folder.name}/{source.name}": source.read_bytes()
        for folder in (HERE, HERE.parent / "scripted_server")
        for source in folder.glob("*.py")
        if source.name not in NOT_CARRIED
    }


def sglang_wheel(release: str) -> Wheel:
    """Raises C(ValueError) for a release that cannot be played."""
    version = version_of(release)
    if not version_of(OLDEST) <= version <= version_of(NEWEST):
        raise ValueError(f"SGLang {release} is not played; expected {OLDEST} to {NEWEST}.")
    admin = version >= (0, 5, 8)
    modules = {
        "sglang/__init__.py": "from sglang.version import __version__\n",
        "sglang/version.py": f'__version__ = "{release}"\n',
        "sglang/launch_server.py": _LAUNCH_SERVER,
        "sglang/srt/__init__.py": "",
        "sglang/srt/server_args.py": _SERVER_ARGS,
        "sglang/srt/entrypoints/__init__.py": "",
        "sglang/srt/entrypoints/http_server.py": _HTTP_SERVER if admin else _OLD_HTTP_SERVER,
        "sglang/srt/utils/__init__.py": "" if admin else _OLD_AUTH,
    }
    if admin:
        modules["sglang/srt/utils/auth.py"] = _AUTH
    texts = {path: text.format(engine=_ENGINE, admin=admin).encode() for path, text in modules.items()}
    return Wheel("sglang", release, SUMMARY, {**texts, **_carried()}, requires=("torch",))


def torch_wheel() -> Wheel:
    """The import check asks for it by name (module_utils/installation/imports.py); nothing else does."""
    return Wheel(
        "torch",
        TORCH,
        "Stand-in without a single function",
        {"torch/__init__.py": f'__version__ = "{TORCH}"\n'.encode()},
    )


def wheelhouse(release: str) -> Mapping[str, bytes]:
    """Content by file name, with the pins that belong to the wheels and the digests of all of them."""
    wheels = [sglang_wheel(release), torch_wheel()]
    files = {wheel.file_name: wheel.content() for wheel in wheels}
    files["requirements.txt"] = "".join(f"{wheel.name}=={wheel.version}\n" for wheel in wheels).encode()
    sums = [f"{hashlib.sha256(content).hexdigest()}  {name}\n" for name, content in sorted(files.items())]
    return {**files, "SHA256SUMS": "".join(sums).encode()}
