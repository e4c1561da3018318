# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Starts a model of an attention family on the rehearsal's node, and reads what the real server then holds."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.gpufleet.sglang.tests.integration.plays import Node, play

FIRST_PORT = 30100
# The part of the machine's environment that every model needs; the pace of the rehearsal's own instance is left out.
ENVIRONMENT = {
    "PYTHONPATH": "/usr/local/share/rehearsal/sglang_on_cpu",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    # Asked for its health, the server would try a token, and a model that a CPU cannot attend would die of it.
    "SGLANG_ENABLE_HEALTH_ENDPOINT_GENERATION": "false",
}
EVERY_START = {"load-format": "dummy", "skip-server-warmup": True, "sleep-on-idle": True}
# Shared mappings of the processes given, with the bytes that are resident and locked, and the kernel's own sum.
MAPPINGS = r"""
import json, re, sys
found = {}
for pid in sys.argv[1:]:
    rows = []
    for line in open(f"/proc/{pid}/smaps"):
        head = re.match(r"[0-9a-f]+-[0-9a-f]+ (\S+) \S+ \S+ \S+\s*(.*)", line)
        if head:
            row = {"shared": head[1][3] == "s", "path": head[2], "Rss": 0, "Locked": 0}
            rows.append(row)
        elif line.split(":")[0] in ("Rss", "Locked"):
            row[line.split(":")[0]] = int(line.split()[1]) * 1024
    shmem = int(re.search(r"RssShmem:\s+(\d+) kB", open(f"/proc/{pid}/status").read())[1]) * 1024
    found[pid] = {"shmem_bytes": shmem, "mappings": [row for row in rows if row["shared"] and row["Rss"]]}
print(json.dumps(found))
"""
# Prompts until the server has reported its gauges, as it does with its batches.
GAUGES = r"""
import json, re, sys, urllib.request
url = sys.argv[1]
wanted = "sglang:hicache_host_total_tokens"
text = ""
for number in range(50):
    body = {"text": f"{number}: which memory holds it?", "sampling_params": {"max_new_tokens": 2}}
    request = urllib.request.Request(url + "/generate", json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=120).read()
    text = urllib.request.urlopen(url + "/metrics", timeout=20).read().decode()
    if wanted in text:
        break
print(json.dumps([float(row) for row in re.findall(rf"^{wanted}{{.*}} (\S+)$", text, re.MULTILINE)]))
"""


@dataclass(frozen=True)
class Case:
    """A model of rehearsal/sglang_on_cpu/families and how it is served; C(serves): the CPU can attend it."""

    model: str
    ranks: int = 1
    page_size: int = 1
    tokens: int = 4096
    ratio: float | None = None
    size_gb: int | None = None
    layout: str = "layer_first"
    backend: str = "torch_native"
    dtype: str = "auto"
    serves: bool = False
    flags: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        sizing = f"{self.size_gb}gb" if self.size_gb else f"ratio{self.ratio:g}"
        return f"{self.model}-tp{self.ranks}-page{self.page_size}-{sizing}"


@dataclass(frozen=True)
class Measured:
    """What was planned, what the modules saw of the start, the journal of it, and each rank's shared memory."""

    plan: dict[str, Any]
    startup: dict[str, Any]
    journal: str
    memory: dict[str, dict[str, Any]]
    gauges: list[float] | None

    def lines(self, pattern: str) -> list[tuple[str, ...]]:
        """What the groups of a pattern found in every line that it matches."""
        return [match.groups() for match in re.finditer(pattern, self.journal, re.MULTILINE)]

    def pools(self, side: str) -> dict[str, dict[str, Any]]:
        return {pool["kind"]: pool for pool in self.plan[side]["pools"]}


def variables(case: Case, instance: str, port: int, result: Path) -> dict[str, Any]:
    return {
        "family_result": str(result),
        "sglang_instance": instance,
        "sglang_port": port,
        "sglang_model_path": f"/srv/models/families/{case.model}",
        "sglang_served_model_name": case.model,
        "sglang_tensor_parallel_size": case.ranks,
        "sglang_page_size": case.page_size,
        "sglang_max_running_requests": 4,
        "sglang_max_total_tokens": case.tokens,
        "sglang_attention_backend": case.backend,
        "sglang_kv_cache_dtype": case.dtype,
        "sglang_hicache_ratio": case.ratio,
        "sglang_hicache_size_gb": case.size_gb,
        "sglang_hicache_mem_layout": case.layout,
        "sglang_extra_arguments": {**EVERY_START, **case.flags},
        "sglang_environment": {
            **ENVIRONMENT,
            "SGLANG_CPU_OMP_THREADS_BIND": "|".join(str(core) for core in range(case.ranks)),
        },
        "sglang_observed": {},
        # Two servers and a play at a time keep a small machine busy.
        "sglang_startup_stall_seconds": 600,
    }


def measure(node: Node, case: Case, number: int, folder: Path) -> Measured:
    """Plans, starts, reads and removes one model."""
    instance, port = f"family-{number}", FIRST_PORT + number
    unit, result = f"sglang-{instance}.service", folder / f"{number}.json"
    try:
        followed = play(
            "-e", json.dumps(variables(case, instance, port, result)), playbook="tests/integration/family.yml"
        )
        assert followed.status == 0, "".join(followed.errors) or followed.output
        seen = json.loads(result.read_text(encoding="utf-8"))
        pids = [str(rank["pid"]) for rank in seen["startup"]["ranks"]]
        memory = json.loads(node.run(shlex.join(["python3", "-c", MAPPINGS, *pids])))
        asked = shlex.join(["python3", "-c", GAUGES, f"http://127.0.0.1:{port}"])
        gauges = json.loads(node.run(asked)) if case.serves else None
        invocation = seen["startup"]["invocation_id"]
        journal = node.run(f"journalctl _SYSTEMD_INVOCATION_ID={invocation} --output=cat --no-pager")
        return Measured(seen["plan"], seen["startup"], journal, memory, gauges)
    finally:
        # It is not waited for: nothing of it is needed any more.
        node.run(
            f"systemctl kill --signal=KILL {unit}; systemctl stop {unit}; systemctl reset-failed {unit};"
            f" rm -rf /etc/systemd/system/{unit} /etc/sglang/{instance}.* /var/lib/sglang/{instance}",
            check=False,
        )
