# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.installation.requirements import (
    all_hashed,
    canonical_text,
    parse_requirements,
    version_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

HASH = "a" * 64
TEXT = f"""\
# pins
torch==2.13.0+cpu  # the CPU build
Flash_Infer.Python[cu13] == 0.7.2 ; platform_machine != "aarch64" \\
    --hash=sha256:{HASH} \\
    --hash=sha256:{"b" * 64}

uvicorn>=0.51,<1
"""


def test_pins_are_read_with_their_markers_and_hashes() -> None:
    torch, flashinfer, uvicorn = parse_requirements(TEXT)
    assert (torch.name, torch.version, torch.hashes) == ("torch", "2.13.0+cpu", ())
    assert (flashinfer.name, flashinfer.version, flashinfer.extras) == ("flash-infer-python", "0.7.2", "[cu13]")
    assert flashinfer.marker == 'platform_machine != "aarch64"'
    assert flashinfer.hashes == (HASH, "b" * 64)
    assert (uvicorn.version, uvicorn.specifier) == (None, ">=0.51,<1")


def test_the_text_is_the_same_for_the_same_pins_in_another_order() -> None:
    lines = [line for line in TEXT.replace("\\\n", " ").splitlines() if line]
    other = "\n".join(reversed(lines))
    assert canonical_text(parse_requirements(TEXT)) == canonical_text(parse_requirements(other))


def test_what_is_written_is_read_again() -> None:
    found = parse_requirements(TEXT)
    assert sorted(parse_requirements(canonical_text(found)), key=str) == sorted(found, key=str)


def test_some_hashes_are_not_all() -> None:
    found = parse_requirements(TEXT)
    assert not all_hashed(found)
    assert all_hashed(found[1:2])


def test_the_label_of_a_build_is_no_part_of_the_version() -> None:
    assert version_of(parse_requirements("torch==2.13.0+cpu"), "torch") == "2.13.0"
    assert version_of(parse_requirements("torch>=2"), "torch") is None


@pytest.mark.parametrize("line", ["--index-url https://u:secret@host/simple", "-r other.txt", "-e ."])
def test_options_are_refused_by_name(line: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_requirements(f"torch==1.0\n{line}\n")
    assert refused.value.code == "requirements_line"
    assert line.split()[0] in refused.value.message


def test_an_address_with_a_password_is_not_shown() -> None:
    with pytest.raises(Refusal) as refused:
        parse_requirements("torch @ https://user:hunter2@host/torch.whl")
    assert "hunter2" not in str(refused.value)
