# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.packages import installed_packages

# As dpkg-query and rpm print it; what they do not know dpkg-query says on the other stream.
DPKG = "g++ ii \nnumactl rc \npython3-dev iF \npython3-venv hi \n"
RPM = "gcc-c++\npackage numactl is not installed\npython3\n"


def answers(output: str) -> Any:
    return lambda _command, **_options: (1, output, "")


@pytest.mark.parametrize(
    ("manager", "output", "names", "installed"),
    [
        ("apt", DPKG, ["g++", "numactl", "python3-dev", "python3-venv", "nano"], ["g++", "python3-venv"]),
        # A version that is asked for is not looked into: the package manager is asked then.
        ("apt", DPKG, ["g++=4:12.2.0-3"], []),
        ("dnf", RPM, ["python3", "gcc-c++", "numactl"], ["python3", "gcc-c++"]),
        (None, "", ["g++"], []),
        ("apt", "", [], []),
    ],
)
def test_only_what_is_whole_counts(manager: str | None, output: str, names: list[str], installed: list[str]) -> None:
    assert installed_packages(answers(output), manager, names) == installed


def test_a_program_that_is_not_there_tells_of_none() -> None:
    def missing(_command: list[str], **_options: Any) -> Any:
        raise FileNotFoundError(2, "No such file or directory")

    assert installed_packages(missing, "apt", ["g++"]) == []
