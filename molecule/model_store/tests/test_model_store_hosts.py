# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role leaves on the hosts, seen from outside the role and with the hosts' own tools."""

from __future__ import annotations

import json

import pytest
from testinfra.host import Host

NAMES = ("from-folder", "from-hub", "from-mirror")


@pytest.fixture(name="paths", scope="module")
def _paths(host: Host) -> dict[str, str]:
    """What the role handed over."""
    found: dict[str, str] = json.loads(host.file("/var/lib/model-store-paths.json").content_string)
    return found


def test_every_model_is_there_and_in_use(host: Host, paths: dict[str, str]) -> None:
    assert sorted(paths) == sorted(NAMES)
    for name, path in paths.items():
        assert host.check_output(f"readlink -f /srv/models/{name}/current") == path
    assert paths["from-mirror"].endswith("/v2")


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_is_that_of_the_source(host: Host, paths: dict[str, str], name: str) -> None:
    sums = f"cd {paths[name]} && sha256sum $(ls) | sed 's/ .*//' | sort"
    source = "cd /mnt/llama && sha256sum $(ls | grep -v ^SHA256SUMS{}) | sed 's/ .*//' | sort"
    leave_out = " | grep -v ^tokenizer" if name == "from-hub" else ""
    assert host.check_output(sums) == host.run(source.format(leave_out)).stdout.strip()


@pytest.mark.parametrize("name", NAMES)
def test_the_manifest_is_that_of_the_files(host: Host, paths: dict[str, str], name: str) -> None:
    manifest = json.loads(host.file(f"{paths[name]}/.manifest.json").content_string)
    lines = "\n".join(f"{file['sha256']}  {file['path']}" for file in manifest["files"])
    assert host.run(f"cd {paths[name]} && echo '{lines}' | sha256sum --check --strict --quiet").succeeded
    text = "".join(f"{file['sha256']}  {file['size_bytes']}  {file['path']}\\n" for file in manifest["files"])
    assert host.check_output(f"printf '{text}' | sha256sum").split()[0] == manifest["content_sha256"]


def test_the_service_can_read_everything_and_write_nothing(host: Host, paths: dict[str, str]) -> None:
    for path in paths.values():
        assert host.run(f"runuser -u nobody -- sh -c 'cat {path}/*' >/dev/null").succeeded
        writable = host.run(f"runuser -u nobody -- find {path} /srv/models -writable ! -type l").stdout.strip()
        assert writable == ""
        owners = host.check_output(f"find {path} -printf '%u %m\\n' | sort -u").splitlines()
        assert owners == ["root 644", "root 755"]


def test_nothing_is_left_behind(host: Host) -> None:
    assert host.check_output("find /srv/models -name '.partial' -o -name '.trash' -o -name '*.part'") == ""
    assert host.check_output("systemctl list-units --all --plain --no-legend 'gpufleet-model-*'") == ""
    assert host.check_output("find /run/gpufleet-model-store -name secrets.json") == ""


def test_revisions_share_what_they_have_in_common(host: Host) -> None:
    """Both were asked for, so the pruning that keeps one of each model has left them alone."""
    assert host.check_output("ls /srv/models/from-mirror").split() == ["current", "v1", "v2"]
    counts = host.check_output("stat -c %h /srv/models/from-mirror/v?/*.safetensors | sort -u")
    assert counts == "2"
