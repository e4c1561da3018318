# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random nodes, requests and kills: applied twice is applied once, and giving back leaves what was there before."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path
from typing import Any

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import State
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.kernel_words import (
    Argument,
    with_arguments,
    without_words,
    words_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.node import Node
from ansible_collections.gpufleet.sglang.plugins.modules import kernel_arguments, node_settings
from ansible_collections.gpufleet.sglang.tests.campaign.module_runs import run_module
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.tuning.nodes import (
    debian,
    rhel,
    snapshot,
    systemd_boot,
    ubuntu,
    values,
)

RECORD = "var/lib/gpufleet/node_tuning.json"
NODES = (debian, ubuntu, rhel, systemd_boot)
WORDS = (
    "iommu=pt",
    "pci=realloc=off",
    "numa_balancing=disable",
    "hugepagesz=1G hugepages=0:4",
    "mitigations=off",
    "nosmt",
)
PERSONS = ("quiet", "iommu=pt", "console=ttyS0", "pci=noats", "splash", "a=b", "nosmt")


class Killed(BaseException):
    """Nothing that anybody catches, as a kill is."""


@pytest.fixture(autouse=True)
def _no_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug here, and the disk is slow."""

    def at_once(handle: int) -> None:
        assert handle >= 0

    monkeypatch.setattr("os.fsync", at_once)


def drawn_node(dice: random.Random, root: Path) -> Path:
    def one_of(*texts: str) -> str:
        return dice.choice(texts) + "\n"

    thp = "sys/kernel/mm/transparent_hugepage"
    fstab = ["UUID=1 / ext4 x 0 1", "UUID=2 none swap sw 0 0", "tmpfs /dev/shm tmpfs size=1g 0 0", "# swap", "", "x"]
    given = {
        "proc/sys/vm/swappiness": one_of("60", "10", "0"),
        "proc/sys/vm/zone_reclaim_mode": one_of("0", "1", "7"),
        "proc/sys/vm/max_map_count": one_of("65530", "262144", "1048576"),
        "proc/sys/vm/overcommit_memory": one_of("0", "1", "2"),
        "proc/sys/net/core/somaxconn": one_of("128", "4096"),
        f"{thp}/enabled": one_of("[always] madvise never", "always madvise [never]"),
        f"{thp}/defrag": one_of(
            "always defer defer+madvise [madvise] never", "always defer defer+madvise madvise [never]"
        ),
        "sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages": one_of("0", "7", "5000"),
        "sys/devices/system/cpu/cpufreq/policy1/scaling_governor": one_of("performance", "schedutil"),
        "etc/fstab": "\n".join(dice.sample(fstab, dice.randint(0, len(fstab)))) + dice.choice(("", "\n")),
        "usr/lib/sysctl.d/50-x.conf": one_of("vm.swappiness=30", "# nothing", "vm.max_map_count=9"),
    }
    if dice.random() < 0.3:
        given["etc/sysctl.d/60-mine.conf"] = one_of("vm.swappiness = 40", "kernel/numa_balancing=1")
    if dice.random() < 0.3:
        given["etc/systemd/system/docker.service.d/90-gpufleet-limits.conf"] = "[Service]\nLimitNOFILE=5\n"
    (root / "var/lib").mkdir(parents=True)
    dice.choice(NODES)(root)
    return values(root, given)


def drawn_settings(dice: random.Random) -> dict[str, Any]:
    drawn: dict[str, Any] = {
        "sysctl_defaults": dice.random() < 0.8,
        "sysctl": {name: dice.choice((1, 5, None)) for name in ("vm.swappiness", "vm.dirty_x") if dice.random() < 0.2},
        "transparent_hugepage": {"enabled": dice.choice(("auto", "keep", "always", "never"))},
        "cpu_governor": dice.choice((None, "performance")),
        "swap": dice.choice(("keep", "off")),
        "shm_bytes": dice.choice((None, 1 << 30, 64 << 30)),
        "hugepages": [
            {"size": dice.choice(("2MB", "1GB")), "numa_node": dice.randrange(2), "pages": dice.choice((0, 5, 100))}
            for _count in range(dice.randrange(3))
        ],
    }
    if dice.random() < 0.5:
        drawn["unit_limits"] = [{"unit": "docker.service", "memlock": "infinity"}]
    return drawn


def drawn_arguments(dice: random.Random) -> list[dict[str, str]]:
    return [{"argument": words, "reason": "x"} for words in dice.sample(WORDS, dice.randrange(4))]


def person_adds(dice: random.Random, root: Path) -> None:
    """Somebody gives the kernel words of his own before the role comes."""
    for path in [*root.glob("boot/loader/entries/*.conf"), root / "etc/kernel/cmdline", root / "etc/default/grub"]:
        if path.is_file() and dice.random() < 0.5:
            word = dice.choice(PERSONS)
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace("quiet", f"quiet {word}", 1), encoding="utf-8")


def drop_record(found: dict[str, Any]) -> dict[str, Any]:
    return {path: content for path, content in found.items() if path != RECORD}


def killed_somewhere(
    dice: random.Random, root: Path, settings: dict[str, Any], arguments: list[dict[str, str]]
) -> None:
    """Runs what is asked for, or gives back, and dies at some write."""
    left = dice.randrange(40)
    genuine = Node.write

    def write_or_die(self: Node, kind: str, target: str, state: State) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Killed
        genuine(self, kind, target, state)

    back = dice.random() < 0.3
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(Killed):
        patch.setattr(Node, "write", write_or_die)
        if back:
            run_module(kernel_arguments, root, state="absent")
            run_module(node_settings, root, state="absent")
        else:
            run_module(kernel_arguments, root, arguments=arguments)
            run_module(node_settings, root, **settings)


def test_applied_twice_is_once_and_giving_back_is_the_way_it_was(dice: random.Random, tmp_path: Path) -> None:
    root = drawn_node(dice, tmp_path)
    person_adds(dice, root)
    before = snapshot(root)
    for _round in range(dice.randint(1, 4)):
        settings, arguments = drawn_settings(dice), drawn_arguments(dice)
        if dice.random() < 0.6:
            killed_somewhere(dice, root, settings, arguments)
            continue
        answers = [run_module(kernel_arguments, root, arguments=arguments), run_module(node_settings, root, **settings)]
        after = drop_record(snapshot(root))
        again = [run_module(kernel_arguments, root, arguments=arguments), run_module(node_settings, root, **settings)]
        for first, second in zip(answers, again):
            assert not second.get("changed")
            assert first.get("failure") == second.get("failure")
        assert drop_record(snapshot(root)) == after
    run_module(kernel_arguments, root, state="absent")
    run_module(node_settings, root, state="absent")
    assert snapshot(root) == before


def test_what_is_told_ahead_is_what_is_done(dice: random.Random, tmp_path: Path) -> None:
    root = drawn_node(dice, tmp_path)
    before = snapshot(root)
    settings, arguments = drawn_settings(dice), drawn_arguments(dice)
    ahead = [
        run_module(kernel_arguments, root, arguments=arguments, _ansible_check_mode=True),
        run_module(node_settings, root, _ansible_check_mode=True, **settings),
    ]
    assert snapshot(root) == before
    done = [run_module(kernel_arguments, root, arguments=arguments), run_module(node_settings, root, **settings)]
    for told, real in zip(ahead, done):
        for name in ("changed", "changes", "failure", "reboot_required", "menu_command"):
            assert told.get(name) == real.get(name), name


def test_words_come_and_go_and_leave_a_line_as_it_was(dice: random.Random) -> None:
    line = " ".join(dice.choice(PERSONS) for _count in range(dice.randrange(6)))
    arguments = [Argument(tuple(words.split())) for words in dice.sample(WORDS, dice.randrange(5))]
    longer = with_arguments(words_of(line), arguments)
    assert with_arguments(longer, arguments) == longer
    added = [word for word in longer[len(words_of(line)) :] if word not in words_of(line)]
    assert without_words(" ".join(longer), added) == line


def test_a_record_of_rubbish_is_refused_and_never_ends_in_anything_else(dice: random.Random, tmp_path: Path) -> None:
    root = values(tmp_path)
    run_module(node_settings, root, cpu_governor="performance")
    record = root / RECORD
    data = bytearray(record.read_bytes())
    for _change in range(dice.randint(1, 6)):
        data[dice.randrange(len(data))] = dice.randrange(256)
    record.write_bytes(bytes(data))
    with contextlib.suppress(Refusal):
        answer = run_module(node_settings, root, state="absent")
        assert "failure" in answer or "changes" in answer
