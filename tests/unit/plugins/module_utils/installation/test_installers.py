# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import netrc
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.installer_words import read_failure
from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.installers import (
    Job,
    Source,
    chosen_installer,
    environment_of,
    netrc_text,
    pip_command,
    uv_command,
)

HOUSE = Source("/srv/wheelhouse")
INDEX = Source(None, "https://pypi.example.com/simple", ("https://download.pytorch.org/whl/cu130",))


def test_both_installers_are_asked_for_the_same() -> None:
    job = Job("/opt/e", "/opt/e/requirements.txt", HOUSE, resolve=False, hashed=True)
    for command in (pip_command(job), uv_command(job, "/usr/bin/uv")):
        assert {"--no-deps", "--require-hashes", "--no-index"} <= set(command)
        assert command[command.index("--find-links") + 1] == "/srv/wheelhouse"


def test_what_is_needed_is_resolved_only_where_nothing_is_pinned() -> None:
    job = Job("/opt/e", "/opt/e/requirements.txt", INDEX, resolve=True, hashed=False)
    for command in (pip_command(job), uv_command(job, "/usr/bin/uv")):
        assert not {"--no-deps", "--require-hashes", "--no-index"} & set(command)
        assert set(INDEX.extra_index_urls) <= set(command)


def test_in_an_air_gap_the_settings_of_the_node_do_not_count() -> None:
    before = {"PIP_INDEX_URL": "https://x", "UV_INDEX": "y", "PATH": "/usr/bin", "PYTHONPATH": "/root/lib"}
    gap = environment_of(before, "/opt/e/.scratch", HOUSE)
    assert "PIP_INDEX_URL" not in gap
    assert "UV_INDEX" not in gap
    assert (gap["PATH"], gap["PIP_CONFIG_FILE"]) == ("/usr/bin", "/dev/null")
    assert "PYTHONPATH" not in gap
    assert environment_of(before, "/opt/e/.scratch", INDEX)["PIP_INDEX_URL"] == "https://x"


def test_a_password_reaches_the_installer_as_it_is(tmp_path: Path) -> None:
    secret = 'a "b" \\c#d'
    path = tmp_path / "netrc"
    path.write_text(netrc_text([{"machine": "pypi.example.com", "login": "node", "password": secret}]))
    path.chmod(0o600)
    assert netrc.netrc(str(path)).authenticators("pypi.example.com") == ("node", "", secret)


@pytest.mark.parametrize(
    ("asked", "on_path", "files", "expected"),
    [
        ("auto", None, [], "pip"),
        ("auto", "/usr/bin/uv", [], "uv"),
        ("auto", None, ["uv-0.13.9-py3-none-manylinux_2_17_x86_64.whl"], "uv"),
        ("auto", None, ["uv-0.4.0-py3-none-manylinux_2_17_x86_64.whl"], "pip"),
        ("pip", "/usr/bin/uv", [], "pip"),
        ("uv", None, [], "uv"),
    ],
)
def test_the_installer_is_chosen(asked: str, on_path: str | None, files: list[str], expected: str) -> None:
    assert chosen_installer(asked, on_path, files, "0.13.9") == expected


# As pip 24.2 and uv 0.13.9 say it, shortened.
SAID = {
    "install_hash_differs": [
        (
            "pip",
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated ...\n"
            "    einops==0.8.2 from file:///srv/w/einops-0.8.2-py3-none-any.whl (from -r bad.txt (line 1)):\n"
            "        Expected sha256 aaaa\n             Got        5405\n",
            "einops==0.8.2",
        ),
        (
            "uv",
            "error: Failed to download `einops==0.8.2`\n  cause: Hash mismatch for `einops==0.8.2`\n",
            "einops==0.8.2",
        ),
    ],
    "install_hash_missing": [
        (
            "pip",
            "ERROR: Hashes are required in --require-hashes mode, but they are missing from some requirements. Here\n"
            "    einops==0.8.2 --hash=sha256:5405\n",
            "einops==0.8.2",
        ),
        (
            "uv",
            "error: In `--require-hashes` mode, all requirements must have a hash, "
            "but none were provided for: einops==1\n",
            "einops==1",
        ),
    ],
    "install_not_found": [
        (
            "pip",
            "ERROR: Could not find a version that satisfies the requirement einops==0.8.9 (from versions: 0.8.2)\n"
            "ERROR: No matching distribution found for einops==0.8.9\n",
            "einops==0.8.9",
        ),
        (
            "uv",
            "error: No solution found when resolving dependencies\n"
            "  cause: Because there is no version of einops==0.8.9 and you require einops==0.8.9, we can conclude\n",
            "einops==0.8.9",
        ),
    ],
    "install_index_unreachable": [
        (
            "pip",
            "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by 'NewConnectionError(': "
            "[Errno 111] Connection refused')': /simple/foo/\nERROR: No matching distribution found for foo\n",
            "Connection refused",
        ),
        ("uv", "error: Failed to fetch: `http://127.0.0.1:9/simple/foo/`\n", "127.0.0.1"),
    ],
    "install_no_space": [
        ("pip", "ERROR: Could not install packages due to an OSError: No space left on device\n", "space")
    ],
    "install_python_unfit": [
        (
            "pip",
            "ERROR: Package 'sglang' requires a different Python: 3.9.2 not in '>=3.10'\n",
            "3.9.2 not in '>=3.10'",
        ),
        (
            "uv",
            "error: No solution found when resolving dependencies\n"
            "  cause: Because the current Python version (3.9.2) does not satisfy Python>=3.10 and sglang==0.5.23 "
            "depends on Python>=3.10, we can conclude\n",
            "sglang==0.5.23",
        ),
    ],
    "install_unauthorised": [
        (
            "pip",
            "ERROR: HTTP error 401 while getting https://pypi.example.com/simple/sglang/\n"
            "ERROR: 401 Client Error: Unauthorized for url: https://pypi.example.com/simple/sglang/\n",
            "did not let pip in",
        )
    ],
    "install_failed": [("pip", "Killed\n", "Killed.")],
}


@pytest.mark.parametrize("code", SAID)
def test_what_the_installer_says_becomes_a_sentence(code: str) -> None:
    for installer, output, named in SAID[code]:
        found = read_failure(installer, output, 1)
        assert found.code == code
        assert installer in found.message
        assert named in found.message


def test_an_address_with_a_password_is_kept_back() -> None:
    found = read_failure("pip", "Looking in indexes: https://node:hunter2@pypi.example.com/simple\nKilled\n", 1)
    assert "hunter2" not in f"{found}{found.evidence}"
