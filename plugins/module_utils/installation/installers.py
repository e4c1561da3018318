# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How pip and uv are called, so that both leave the same environment. Pure.

pip: https://pip.pypa.io/en/stable/cli/pip_install/ and https://pip.pypa.io/en/stable/topics/authentication/ (netrc)
uv: https://docs.astral.sh/uv/reference/cli/#uv-pip-install, https://docs.astral.sh/uv/reference/environment/ and
https://docs.astral.sh/uv/concepts/authentication/http/ (netrc)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Where wheels come from; with C(wheelhouse) from nowhere else."""

    wheelhouse: str | None = None
    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()


@dataclass(frozen=True)
class Job:
    """An installation into an environment that is there and empty."""

    environment: str
    requirements: str
    source: Source
    resolve: bool
    hashed: bool


def pip_command(job: Job) -> list[str]:
    return [
        f"{job.environment}/bin/python",
        "-m",
        "pip",
        "install",
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar=off",
        *([] if job.resolve else ["--no-deps"]),
        *(["--require-hashes"] if job.hashed else []),
        *_sources(job.source, "--index-url"),
        "--requirement",
        job.requirements,
    ]


def uv_command(job: Job, uv: str) -> list[str]:
    return [
        uv,
        "pip",
        "install",
        "--no-progress",
        # The service may not write there, and would compile every module at every start.
        "--compile-bytecode",
        "--python",
        f"{job.environment}/bin/python",
        # Of several indexes pip takes the best match of all, and so do wheels of a CUDA line beside those of PyPI.
        *(["--index-strategy", "unsafe-best-match"] if job.source.extra_index_urls else []),
        *([] if job.resolve else ["--no-deps"]),
        *(["--require-hashes"] if job.hashed else []),
        *_sources(job.source, "--default-index"),
        "--requirements",
        job.requirements,
    ]


def _sources(source: Source, index_option: str) -> list[str]:
    if source.wheelhouse:
        return ["--no-index", "--find-links", source.wheelhouse]
    extra_option = "--extra-index-url" if index_option == "--index-url" else "--index"
    return [
        *([index_option, source.index_url] if source.index_url else []),
        *(word for url in source.extra_index_urls for word in (extra_option, url)),
    ]


def environment_of(before: Mapping[str, str], scratch: str, source: Source, netrc: str | None = None) -> dict[str, str]:
    """What the installer's process sees: in an air gap nothing of how the node installs otherwise.

    C(scratch) is on the file system of the environment, since /tmp may be small, in memory or noexec.
    """
    dropped = ("PIP_", "UV_") if source.wheelhouse else ()
    kept = {
        name: value
        for name, value in before.items()
        if not name.startswith(dropped) and name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "PIP_TARGET")
    }
    kept.update(LC_ALL="C.UTF-8", TMPDIR=scratch, UV_CACHE_DIR=f"{scratch}/uv", UV_PYTHON_DOWNLOADS="never")
    if source.wheelhouse:
        kept.update(PIP_CONFIG_FILE="/dev/null", PIP_NO_CACHE_DIR="1", UV_NO_CONFIG="1")
    if netrc:
        kept["NETRC"] = netrc
    return kept


def netrc_text(credentials: Iterable[Mapping[str, str]]) -> str:
    """https://www.gnu.org/software/inetutils/manual/html_node/The-_002enetrc-file.html"""
    return "".join(
        f"machine {one['machine']} login {_quoted(one['login'])} password {_quoted(one['password'])}\n"
        for one in credentials
    )


def _quoted(word: str) -> str:
    """As Python's netrc module reads it, which pip and requests use."""
    if word and not set(word) & set(' \t\n\r"\\#'):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def chosen_installer(asked: str, uv_on_path: str | None, wheel_files: Sequence[str], uv_version: str | None) -> str:
    """pip or uv. By itself uv only where it need not be fetched from an index first."""
    if asked != "auto":
        return asked
    at_hand = any(one.startswith(f"uv-{uv_version}-") for one in wheel_files)
    return "uv" if uv_on_path or at_hand else "pip"
