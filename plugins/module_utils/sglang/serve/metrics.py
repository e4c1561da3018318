# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Prometheus' text format."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.serve.answers import count

_SAMPLE = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$")
_LABEL = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Sample:
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float


def parse_metrics(text: str) -> list[Sample]:
    """Samples of an exposition; lines that are none are left out."""
    found = []
    for line in text.splitlines():
        match = _SAMPLE.match(line.strip())
        if match is None:
            continue
        try:
            value = float(match.group(3))
        except ValueError:
            continue
        found.append(Sample(match.group(1), tuple(_LABEL.findall(match.group(2) or "")), value))
    return found


def values(samples: Iterable[Sample], name: str, **labels: str) -> list[float]:
    """Values of a metric whose labels include the given ones."""
    wanted = set(labels.items())
    return [one.value for one in samples if one.name == name and wanted <= set(one.labels)]


def counts(samples: Iterable[Sample], name: str, **labels: str) -> list[int]:
    """The same as whole numbers, without what can be no count."""
    return [whole for value in values(samples, name, **labels) if (whole := count(value)) is not None]


def total(samples: Iterable[Sample], name: str, **labels: str) -> float:
    """The sum over all ranks of what is a number; 0.0 where the metric is missing, as a counter that never counted."""
    return sum(value for value in values(samples, name, **labels) if math.isfinite(value) and value >= 0)


def labels_of(samples: Iterable[Sample], label: str) -> set[str]:
    return {value for one in samples for name, value in one.labels if name == label}
