# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What is read of the configuration file is what PyYAML reads, of everything that the role's filter writes."""

from __future__ import annotations

import random
from typing import Any

import pytest
import yaml
from ansible.plugins.filter.core import to_nice_yaml

from ansible_collections.gpufleet.sglang.rehearsal.scripted_release.config_file import ConfigFileError, read_config

WORDS = [
    "a", "b c", '"x"', "'y'", '{"k": 1}', "true", "null", "1", "1.5", "1e3", "0x1f", "on", "#h", "a: b", "- z", "ä",
    "\\", "%", "@x", "tab\tx", "", "~", "No", "=", "12:30", "127.0.0.1", "::1", "0.5.23", "1_000", "0o7", "+1", ".5",
    "1.", ".inf", "2026-01-01", "é" * 30, "long words " * 12, "\x07", "x #y", "!t", "&a", "*a", "|", ">", "", "0",
]  # fmt: skip


def value(dice: random.Random) -> Any:
    text = " ".join(dice.choice(WORDS) for _word in range(dice.randint(1, 9)))
    number = dice.choice([0.1, 32.0, 1e-9, 1e20, dice.random() * 100])
    return dice.choice([text, text, number, dice.randint(-9, 10**9), True, False, [1, "a b", "c: d", text, 2.5]])


@pytest.mark.parametrize("seed", range(20))
def test_what_the_role_writes_is_read_as_pyyaml_reads_it(seed: int) -> None:
    dice = random.Random(seed)
    for _file in range(50):
        given = {f"name-{number}": value(dice) for number in range(dice.randint(1, 6))}
        text = "# A comment.\n" + to_nice_yaml(given, sort_keys=True)
        assert read_config(text) == yaml.safe_load(text) == given, text


def test_the_arguments_of_a_plan() -> None:
    text = "# by hand\nhost: 127.0.0.1\nport: 30000\nhicache-ratio: 8.0\nenable-metrics: true\nmodel-path: /srv/m\n"
    assert read_config(text) == {
        "host": "127.0.0.1",
        "port": 30000,
        "hicache-ratio": 8.0,
        "enable-metrics": True,
        "model-path": "/srv/m",
    }


@pytest.mark.parametrize(
    "text",
    [
        "a:\n    b: 1\n",
        "a: {b: 1}\n",
        "a: [1]\n",
        "a: &x 1\n",
        "a: |\n  text\n",
        "- a\n",
        "a b\n",
        "a: 0777\n",
        "a: 1:30\n",
    ],
)
def test_what_is_not_read_is_refused_with_its_line(text: str) -> None:
    with pytest.raises(ConfigFileError, match="line 1: "):
        read_config(text)
