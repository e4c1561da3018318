# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the role leaves on a host, seen from outside the role."""

from __future__ import annotations

import pytest
from testinfra.host import Host

TOOLKITS = {"12.9": "12.9.1-1", "13.0": "13.0.2-1"}


@pytest.mark.parametrize("line", TOOLKITS)
def test_each_toolkit_is_there_with_its_own_compiler(host: Host, line: str) -> None:
    package = host.package(f"cuda-toolkit-{line.replace('.', '-')}")
    assert package.is_installed
    assert package.version == TOOLKITS[line]
    assert f"release {line}" in host.check_output(f"/usr/local/cuda-{line}/bin/nvcc --version")


def test_the_default_is_the_one_that_was_chosen(host: Host) -> None:
    assert host.check_output("readlink -f /usr/local/cuda") == "/usr/local/cuda-13.0"
    assert "release 13.0" in host.check_output("/usr/local/cuda/bin/nvcc --version")


def test_no_part_of_a_driver_came_along(host: Host) -> None:
    names = host.check_output("dpkg-query --show --showformat='${Package}\\n'").split()
    assert not [name for name in names if name.startswith(("nvidia-", "libnvidia-", "cuda-drivers", "libcuda1"))]


def test_the_repository_is_trusted_by_its_own_key_alone(host: Host) -> None:
    source = host.file("/etc/apt/sources.list.d/nvidia-cuda.sources").content_string
    assert "Signed-By: /etc/apt/keyrings/nvidia-cuda.asc" in source
    assert not host.file("/etc/apt/trusted.gpg").exists
