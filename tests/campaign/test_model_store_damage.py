# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Random damage to a revision, and random ends of a fetch: what is fetched again is what is bad, and nothing else."""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import Source
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.fetching import Stopped
from ansible_collections.gpufleet.sglang.rehearsal.model_mirror.faults import Fault
from ansible_collections.gpufleet.sglang.rehearsal.model_mirror.server import running
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.store.store_models import (
    damage,
    job_for,
    make_model,
    same,
    size_of,
    stop_when,
    work,
    write_sums,
)

MOST_ROUNDS = 40


def hurt(path: Path, dice: random.Random) -> None:
    """One of the ways in which a file goes bad."""
    way = dice.choice(("flip", "truncate", "grow", "remove", "zero"))
    if way == "flip":
        damage(path, dice.randrange(path.stat().st_size))
    elif way == "truncate":
        os.truncate(path, dice.randrange(path.stat().st_size))
    elif way == "grow":
        with path.open("ab") as file:
            file.write(dice.randbytes(dice.randint(1, 100)))
    elif way == "remove":
        path.unlink()
    else:
        size = path.stat().st_size
        path.write_bytes(b"\0" * size)


def test_repair_fetches_exactly_the_damaged_files(dice: random.Random, tmp_path: Path) -> None:
    model = make_model(
        tmp_path / "www" / "tiny", dice.randint(1, 6), dice.randrange(2, 80_000, 2), dice.randrange(1000)
    )
    write_sums(model)
    with running(tmp_path / "www") as mirror:
        job = job_for(tmp_path / "store", Source("mirror", (f"{mirror.url}/files/tiny",)), revision="v1")
        folder = Path(work(job)["path"])
        names = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
        bad = sorted(dice.sample(names, dice.randint(1, len(names))))
        for name in bad:
            hurt(folder / name, dice)
        mirror.memory.forget()
        result = work(job)
        assert sorted(result["repaired"]) == bad
        sent = {
            path.rpartition("/")[2]: size for path, size in mirror.memory.sent_of.items() if "SHA256SUMS" not in path
        }
        assert sent == {name: (model / name).stat().st_size for name in bad}
        (model / "SHA256SUMS").unlink()
        assert same(folder, model)
        assert work(job)["changed"] is False


def fault_of(dice: random.Random) -> Fault:
    """A fault of a file, for an answer or two."""
    fault = Fault(path="*.safetensors", method="GET", times=dice.randint(1, 3))
    kind = dice.choice(("cut", "corrupt", "status", "truncate"))
    if kind == "cut":
        fault.cut_after = dice.randrange(1, 200_000)
    elif kind == "corrupt":
        fault.corrupt_at = dice.randrange(1, 30_000)
    elif kind == "status":
        fault.status, fault.retry_after = dice.choice((500, 502, 503, 429)), 0
    else:
        fault.truncate = dice.randrange(1, 1000)
    return fault


def test_however_often_it_is_ended_it_comes_to_its_end(dice: random.Random, tmp_path: Path) -> None:
    model = make_model(tmp_path / "www" / "tiny", dice.randint(1, 4), 300_000, dice.randrange(1000))
    write_sums(model)
    with running(tmp_path / "www") as mirror:
        job = job_for(
            tmp_path / "store",
            Source("mirror", (f"{mirror.url}/files/tiny",)),
            revision="v1",
            parallel_files=dice.randint(1, 4),
        )
        mirror.memory.faults.extend(fault_of(dice) for _number in range(dice.randint(0, 3)))
        for attempt in range(MOST_ROUNDS):
            stop = threading.Event()
            if attempt < 3:
                mirror.memory.bytes_per_second = 3_000_000
                stop_when(mirror, mirror.memory.sent_bytes + dice.randrange(1, 400_000), stop)
            else:
                mirror.memory.bytes_per_second = None
            try:
                result = work(job, stop=stop)
                break
            except (Stopped, Refusal):
                # Nothing is published until all of it is right.
                assert not (tmp_path / "store" / "tiny" / "v1").exists()
        else:
            pytest.fail(f"it did not come to an end within {MOST_ROUNDS} runs")
        (model / "SHA256SUMS").unlink()
        assert same(Path(result["path"]), model)
        assert result["size_bytes"] == size_of(model)
        assert sorted(path.name for path in (tmp_path / "store" / "tiny").iterdir()) == ["current", "v1"]
