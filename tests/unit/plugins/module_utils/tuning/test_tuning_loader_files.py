# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

"""Files of boot loaders, edited word by word and back."""

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_words import Argument, without_words
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.loader_files import (
    cmdline_words,
    drop_in,
    grub_words,
    with_cmdline,
    with_default,
    with_entry_options,
)

PT = (Argument(("iommu=pt",), "why not"),)


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        (['GRUB_CMDLINE_LINUX="a b"\nGRUB_CMDLINE_LINUX_DEFAULT="quiet"\n'], ["a", "b", "quiet"]),
        # A file of grub.d goes on from, or replaces, what was before.
        (['GRUB_CMDLINE_LINUX="a"', 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX b"'], ["a", "b"]),
        (['GRUB_CMDLINE_LINUX_DEFAULT="a"', 'GRUB_CMDLINE_LINUX_DEFAULT="b"'], ["b"]),
        (["GRUB_CMDLINE_LINUX='a $x' # c"], ["a", "$x"]),
        (["GRUB_CMDLINE_LINUX=a"], ["a"]),
        (['  export GRUB_CMDLINE_LINUX="a"\n#GRUB_CMDLINE_LINUX=b'], ["a"]),
        (['GRUB_CMDLINE_LINUX="a \\\n b"'], ["a", "b"]),
        (['GRUB_CMDLINE_LINUX="a\nGRUB_TIMEOUT=5'], ["a"]),
    ],
)
def test_the_shells_assignments_are_followed(texts: list[str], words: list[str]) -> None:
    assert grub_words(texts) == words


def test_a_drop_in_adds_what_is_lacking_with_its_reason() -> None:
    text = drop_in(PT, ["quiet"])
    assert text is not None
    assert text.splitlines()[-2:] == [
        "# iommu=pt: why not",
        'GRUB_CMDLINE_LINUX_DEFAULT="$GRUB_CMDLINE_LINUX_DEFAULT iommu=pt"',
    ]
    assert grub_words(['GRUB_CMDLINE_LINUX_DEFAULT="quiet"', text]) == ["quiet", "iommu=pt"]
    assert drop_in(PT, ["iommu=pt"]) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('A=1\nGRUB_CMDLINE_LINUX="a  b" # c\nB=2\n', 'A=1\nGRUB_CMDLINE_LINUX="a  b iommu=pt" # c\nB=2\n'),
        ("GRUB_CMDLINE_LINUX='a'\n", "GRUB_CMDLINE_LINUX='a iommu=pt'\n"),
        ("GRUB_CMDLINE_LINUX=a\n", 'GRUB_CMDLINE_LINUX="a iommu=pt"\n'),
        ('GRUB_CMDLINE_LINUX=""\n', 'GRUB_CMDLINE_LINUX="iommu=pt"\n'),
        ('GRUB_CMDLINE_LINUX="iommu=pt"\n', 'GRUB_CMDLINE_LINUX="iommu=pt"\n'),
        # What only a shell can tell is left alone, and gone on from.
        ('GRUB_CMDLINE_LINUX="`x`"\n', 'GRUB_CMDLINE_LINUX="`x`"\nGRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"\n'),
        ("", 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX iommu=pt"\n'),
    ],
)
def test_the_default_file_gets_the_word_in_its_own_line(before: str, after: str) -> None:
    assert with_default(before, PT) == after
    assert with_default(after, PT) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("title x\noptions ro\ngrub_class y\n", "title x\noptions ro iommu=pt\ngrub_class y\n"),
        ("options a\noptions b\n", "options a\noptions b iommu=pt\n"),
        ("options $kernelopts $tuned_params\n", "options $kernelopts $tuned_params iommu=pt\n"),
        ("options iommu=pt\noptions b\n", "options iommu=pt\noptions b\n"),
        ("title x\n", "title x\noptions iommu=pt\n"),
    ],
)
def test_an_entry_gets_the_word_in_its_last_options(before: str, after: str) -> None:
    assert with_entry_options(before, PT) == after
    assert with_entry_options(after, PT) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("root=x ro\n", "root=x ro iommu=pt\n"),
        ("root=x ro", "root=x ro iommu=pt\n"),
        ("# iommu=pt\nroot=x\nro\n", "# iommu=pt\nroot=x\nro iommu=pt\n"),
        ("", "iommu=pt\n"),
    ],
)
def test_the_command_line_of_kernels_to_come(before: str, after: str) -> None:
    assert with_cmdline(before, PT) == after
    assert with_cmdline(after, PT) == after
    assert cmdline_words(without_words(after, [])) == cmdline_words(before) + ["iommu=pt"]
