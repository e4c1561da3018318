# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Where a provision is interrupted, and how: drawn from the tasks of one that was not."""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

# One a line, in the order of an uninterrupted run from a bare node: C(ROLE : TASK), as Ansible prints it, behind a plus
# where it changed something.
TASKS = Path(__file__).resolve().parent / "tasks.txt"
KINDS = {
    "play": "the play is killed, and what it runs on the node goes on",
    "connection": "ssh is killed at both ends, and what runs on the node goes on",
    "session": "ssh is killed, and with it all that was run over it",
    "reboot": "the node is shut down and boots again",
    "reset": "the node's processes end at once, as by its reset button",
}
# What site calls them by tag, and the roles that do it.
PARTS = {
    "driver": "nvidia_driver",
    "cuda": "cuda",
    "tuning": "node_tuning",
    "models": "model_store",
    "server": "sglang",
}
SECOND_CHANCE = 0.25
CHANGING = 0.5
# Within a task or, where that is quick, the next ones.
LONGEST_DELAY_SECONDS = 2.0


@dataclass(frozen=True)
class Point:
    """The C(number)th task of a role, counted from one; at its boundary C(delay_seconds) is zero.

    By number, so that a role whose tasks were renamed is interrupted all the same; C(task) is how it was recorded.
    """

    role: str
    number: int
    task: str
    delay_seconds: float
    kind: str

    def __str__(self) -> str:
        return f"{self.kind} at {self.role} {self.number} [{self.task}] + {self.delay_seconds:.2f} s"


@dataclass(frozen=True)
class Task:
    role: str
    name: str
    changes: bool

    def __str__(self) -> str:
        return f"{'+' if self.changes else ' '} {self.role} : {self.name}"


def task_of(line: str) -> Task:
    role, _colon, name = line[2:].partition(" : ")
    return Task(role, name, line[0] == "+")


def recorded_tasks(parts: Collection[str] = tuple(PARTS)) -> list[Task]:
    """Those of the whole chain, or of some of its parts."""
    tasks = [task_of(line) for line in TASKS.read_text(encoding="utf-8").splitlines()]
    roles = {PARTS[part] for part in parts}
    return [task for task in tasks if task.role in roles]


def draw(dice: random.Random, tasks: list[Task]) -> list[Point]:
    """The interruption of a provision, and now and then another one of the run that follows."""
    points = [_draw_one(dice, tasks)]
    if dice.random() < SECOND_CHANCE:
        points.append(_draw_one(dice, tasks))
    return points


def _draw_one(dice: random.Random, tasks: list[Task]) -> Point:
    """Every other one at a task that changes something, of which there are few."""
    kind = dice.choice(list(KINDS))
    changing = dice.random() < CHANGING
    number = dice.choice([number for number, task in enumerate(tasks) if task.changes or not changing])
    delay = dice.choice((0.0, dice.uniform(0.0, LONGEST_DELAY_SECONDS)))
    task = tasks[number]
    return Point(task.role, sum(one.role == task.role for one in tasks[: number + 1]), task.name, delay, kind)
