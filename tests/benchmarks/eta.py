#!/usr/bin/env python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How right the time left is that a wait tells, over starts that all differ.

The starts are those of tests/unit/plugins/module_utils/sglang/pinned_starts.py: 1 to 8 ranks of like or unlike speed,
looked at every 1 to 3 s, with samples between the looks or without, the same for the same seed. Printed for each look
after a fifth of the bytes, or after a change of speed can have been seen: the error against what was left to wait.
Printed, never judged; the unit tests judge.
"""

from __future__ import annotations

import argparse
import random
import statistics
from collections.abc import Sequence

from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.sglang.pinned_starts import (
    SAMPLES_TO_SEE_A_CHANGE,
    Told,
    drawn,
)


def told(name: str, looks: Sequence[Told], starts: int) -> str:
    errors = sorted(look.error for look in looks)
    middle = statistics.median(errors)
    late = errors[int(len(errors) * 0.95)]
    figures = f"median {middle:.1%}, 95 of 100 {late:.1%}, worst {errors[-1]:.1%}"
    return f"{name}: {starts} starts, {len(errors)} looks, {figures}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.starts)
    constant = [look for seed in seeds for look in drawn(random.Random(seed)) if look.share >= 0.2]
    print(told("constant speed, after a fifth of the bytes", constant, len(seeds)))
    halved = [look for seed in seeds for look in drawn(random.Random(seed), factor=0.5)]
    settled = [look for look in halved if look.is_settled]
    print(told(f"speed that halves midway, {SAMPLES_TO_SEE_A_CHANGE} samples later and on", settled, len(seeds)))


if __name__ == "__main__":
    main()
