# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How wheels are resolved and fetched for a Python that is not the one that runs. Pure.

pip downloads for another platform but judges the markers of dependencies by the Python that runs it
(https://pip.pypa.io/en/stable/cli/pip_download/); uv resolves for another
(https://docs.astral.sh/uv/reference/cli/#uv-pip-compile, --python-version and --python-platform). So uv resolves, and
pip fetches what is pinned.
"""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.wheels import Target


@dataclass(frozen=True)
class Origin:
    """Where wheels are fetched from. C(find_links): folders or pages with wheels."""

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False


def _pip_origin(origin: Origin) -> list[str]:
    return [
        *(["--no-index"] if origin.no_index else []),
        *(["--index-url", origin.index_url] if origin.index_url else []),
        *(word for url in origin.extra_index_urls for word in ("--extra-index-url", url)),
        *(word for place in origin.find_links for word in ("--find-links", place)),
    ]


def _uv_origin(origin: Origin) -> list[str]:
    return [
        *(["--no-index"] if origin.no_index else []),
        *(["--default-index", origin.index_url] if origin.index_url else []),
        *(word for url in origin.extra_index_urls for word in ("--index", url)),
        *(word for place in origin.find_links for word in ("--find-links", place)),
    ]


def pip_target(target: Target) -> list[str]:
    """Every older platform has to be named: pip derives none from the newest."""
    platforms = []
    if target.glibc is not None:
        major, newest = target.glibc
        platforms = [f"manylinux_{major}_{minor}_{target.machine}" for minor in range(newest, 4, -1)]
        platforms += [f"manylinux{name}_{target.machine}" for name in ("2014", "2010", "1")]
    platforms.append(f"linux_{target.machine}")
    return [
        *("--python-version", f"{target.python[0]}.{target.python[1]}", "--implementation", "cp"),
        *(word for abi in (target.tag, "abi3", "none") for word in ("--abi", abi)),
        *(word for platform in platforms for word in ("--platform", platform)),
    ]


def download_command(python: str, requirements: str, folder: str, origin: Origin, target: Target) -> list[str]:
    return [
        *(python, "-m", "pip", "download", "--no-input", "--disable-pip-version-check", "--progress-bar=off"),
        # Else folders that this machine's settings name would be asked beside those that are given.
        *(["--isolated"] if origin.no_index else []),
        *("--no-deps", "--only-binary=:all:", "--dest", folder),
        *pip_target(target),
        *_pip_origin(origin),
        *("--requirement", requirements),
    ]


def compile_command(uv: str, requirements: str, output: str, origin: Origin, target: Target) -> list[str]:
    python = f"{target.python[0]}.{target.python[1]}"
    return [
        *(uv, "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--only-binary", ":all:"),
        *("--python-version", python, "--python-platform", uv_platform(target)),
        *(["--index-strategy", "unsafe-best-match"] if origin.extra_index_urls else []),
        # Pins of SGLang are of pre-releases now and then.
        *("--prerelease", "if-necessary-or-explicit"),
        *_uv_origin(origin),
        *("--output-file", output, requirements),
    ]


def uv_platform(target: Target) -> str:
    """C(x86_64-manylinux_2_36): the name that uv has for the target."""
    if target.glibc is None:
        return f"{target.machine}-unknown-linux-gnu"
    return f"{target.machine}-manylinux_{target.glibc[0]}_{target.glibc[1]}"


def prove_command(python: str, requirements: str, folder: str, scratch: str, target: Target) -> list[str]:
    """The far side's installation without doing it: no index, every hash, the target's tags."""
    return [
        # Isolated: wheels that this machine's settings add would prove nothing.
        *(
            python,
            "-m",
            "pip",
            "install",
            "--isolated",
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar=off",
        ),
        *(
            "--dry-run",
            "--ignore-installed",
            "--target",
            scratch,
            "--only-binary=:all:",
            "--no-deps",
            "--require-hashes",
        ),
        *pip_target(target),
        *("--no-index", "--find-links", folder, "--requirement", requirements),
    ]
