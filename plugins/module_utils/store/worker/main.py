# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program that runs on the node as a unit of its own, and outlives the connection that started it."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.job import Secrets, job_from_dict
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.progress import DONE, FAILED, STOPPED
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import locked
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.fetching import Stopped
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.sharing import serve
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.task import Progress, run

JOB, SECRETS, STATE, ALIVE = "job.json", "secrets.json", "state.json", "alive"
# How often the state is written; a look takes what there is.
WRITE_SECONDS = 0.5
# A thread that waits for a server notices only then that it is to end; what it has written is safe without it.
STOP_SECONDS = 3.0


def main(arguments: list[str]) -> int:
    os.umask(0o022)
    if arguments[0] == "share":
        return serve(Path(arguments[1]))
    return work(Path(arguments[1]))


def work(folder: Path) -> int:
    """Reads the job of a folder, does it, and leaves there how it went."""
    with locked(folder / ALIVE) as alone:
        if not alone:
            return 0  # another one does it
        given = json.loads((folder / JOB).read_text(encoding="utf-8"))
        secrets = take_secrets(folder / SECRETS)
        progress = Progress()
        signal.signal(signal.SIGTERM, lambda _number, _frame: progress.stop.set())
        base = {"run_id": given["run_id"], "pid": os.getpid(), "unit": given["unit"], "started_at": time.time()}
        told: dict[str, Any] = {}
        thread = threading.Thread(target=lambda: told.update(_end(given["job"], secrets, progress)), daemon=True)
        thread.start()
        stopped_at: float | None = None
        while thread.is_alive():
            write_state(folder, {**base, **progress.as_dict(), "end": None})
            thread.join(WRITE_SECONDS)
            if progress.stop.is_set():
                stopped_at = time.monotonic() if stopped_at is None else stopped_at
                if time.monotonic() - stopped_at > STOP_SECONDS:
                    told = {"end": STOPPED}
                    break
        write_state(folder, {**base, **progress.as_dict(), **told})
        if thread.is_alive():
            os._exit(0)  # threads that wait for a server would keep the interpreter
        return 0


def take_secrets(path: Path) -> Secrets:
    """Read once, and gone."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        path.unlink()
    except (OSError, ValueError):
        return Secrets()
    return Secrets(data.get("token"), data.get("proxies"))


def write_state(folder: Path, state: dict[str, Any]) -> None:
    """Not synced: it lies in memory, and says nothing after a reboot."""
    unfinished = folder / f".{STATE}.{os.getpid()}"
    unfinished.write_text(json.dumps(state), encoding="utf-8")
    unfinished.chmod(0o600)
    unfinished.replace(folder / STATE)


def _end(job: dict[str, Any], secrets: Secrets, progress: Progress) -> dict[str, Any]:
    try:
        return {"end": DONE, "result": run(job_from_dict(job), secrets, progress)}
    except (Stopped, InterruptedError):
        return {"end": STOPPED}
    except Refusal as refusal:
        return {"end": FAILED, "failure": refusal.as_dict()}
    except OSError as error:
        failed = Refusal(
            "store_disk_failed",
            f"{error.filename or job['root']} could not be read or written: {error.strerror or error}.",
            "Look at the free space and at the kernel's log; the next run goes on with what is there.",
            {"errno": error.errno},
        )
        return {"end": FAILED, "failure": failed.as_dict()}
    except Exception as error:
        traceback.print_exc()
        lost = Refusal(
            "store_worker_lost",
            f"The worker fell over: {type(error).__name__}: {str(error)[:200]}.",
            "Its unit's journal has the whole trace.",
        )
        return {"end": FAILED, "failure": lost.as_dict()}


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
