# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_words import (
    Argument,
    arguments_of,
    conflict,
    holds,
    with_arguments,
    without_words,
    words_of,
)


@pytest.mark.parametrize(
    ("line", "argument", "word"),
    [
        ("quiet", "iommu=pt", None),
        ("quiet iommu=pt", "iommu=pt", None),
        ("iommu=off", "iommu=pt", "iommu=off"),
        ("intel_iommu=off", "iommu=pt", "intel_iommu=off"),
        ("amd_iommu=on", "iommu=pt", None),
        ("console=tty1", "console=ttyS0", None),
        ("pci=noats", "pci=realloc=off", None),
        ("pci=noats,realloc=on", "pci=realloc=off", "pci=noats,realloc=on"),
        ("numa-balancing=enable", "numa_balancing=disable", "numa-balancing=enable"),
        ("hugepagesz=2M hugepages=9", "hugepagesz=1G hugepages=0:4", None),
        ("hugepagesz=1GB hugepages=9", "hugepagesz=1G hugepages=0:4", "hugepagesz=1GB"),
        ("hugepagesz=1G hugepages=9", "hugepagesz=1G hugepages=0:4", "hugepagesz=1G"),
        ("intel_iommu=on,sm_on", "intel_iommu=off", "intel_iommu=on,sm_on"),
        ("intel_iommu=sm_on", "intel_iommu=on", None),
    ],
)
def test_what_says_something_else_is_found(line: str, argument: str, word: str | None) -> None:
    assert conflict(words_of(line), Argument(tuple(argument.split()))) == word


def test_words_that_belong_together_have_to_stand_together() -> None:
    pair = Argument(("hugepagesz=1G", "hugepages=0:4"))
    assert holds(words_of("a hugepagesz=1G hugepages=0:4 b"), pair)
    assert not holds(words_of("hugepages=0:4 hugepagesz=1G"), pair)
    assert with_arguments(["a"], [pair, Argument(("a",))]) == ["a", "hugepagesz=1G", "hugepages=0:4"]


def test_quotes_hold_a_word_together() -> None:
    assert words_of('a dyndbg="file x +p" b') == ["a", 'dyndbg="file x +p"', "b"]


@pytest.mark.parametrize(
    ("text", "words", "left"),
    [
        ("iommu=pt quiet\n", ["iommu=pt"], "quiet\n"),
        ("quiet iommu=pt\n", ["iommu=pt"], "quiet\n"),
        ("a  iommu=pt  b\n", ["iommu=pt"], "a  b\n"),
        ('X="iommu=pt"\n', ["iommu=pt"], 'X=""\n'),
        ('X="quiet iommu=pt"\n', ["iommu=pt"], 'X="quiet"\n'),
        ("amd_iommu=pt iommu=pt2 xiommu=pt\n", ["iommu=pt"], "amd_iommu=pt iommu=pt2 xiommu=pt\n"),
        ("options ro hugepagesz=1G hugepages=0:4\n", ["hugepagesz=1G", "hugepages=0:4"], "options ro\n"),
    ],
)
def test_a_word_goes_with_its_blank_and_nothing_else(text: str, words: list[str], left: str) -> None:
    assert without_words(text, words) == left


@pytest.mark.parametrize("text", ["", "a b=$(x)", 'a="b"', "root=/dev/sda", "init=/bin/sh", "x=`y`", "systemd.unit=x"])
def test_what_cannot_be_given_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as caught:
        arguments_of([(text, "")])
    assert caught.value.code == "kernel_argument_wrong"


def test_arguments_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(Refusal) as caught:
        arguments_of([("iommu=pt", ""), ("iommu=off", "")])
    assert caught.value.code == "kernel_argument_twice"
    assert arguments_of([("iommu=pt", "a"), ("iommu=pt", "b")]) == (Argument(("iommu=pt",), "a"),)


def test_a_reason_is_one_line_that_no_shell_obeys() -> None:
    assert arguments_of([("iommu=pt", 'a\n"; reboot')])[0].reason == 'a "; reboot'
