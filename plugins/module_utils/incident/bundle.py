# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All that is known of a node that failed, as one archive of texts. Pure: what was read comes in, bytes go out."""

from __future__ import annotations

import gzip
import io
import json
import re
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.facts import fleet_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.page import fleet_page
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.rows import rows_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.incident.index import index_lines, index_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.redaction.pseudonyms import pseudonyms_of, redacted
from ansible_collections.gpufleet.sglang.plugins.module_utils.redaction.secrets import concealed_in

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
# Parts of an instance that are files of their own.
_TEXTS = ("files", "config", "environment", "journal", "ledger")


@dataclass(frozen=True)
class Incident:
    """C(name) is that of the archive without its ending, and of the folder in it."""

    name: str
    index: Mapping[str, Any]
    files: Mapping[str, str]


def incident_of(
    node: str,
    answer: Mapping[str, Any],
    at: float,
    *,
    failure: Mapping[str, Any] | None = None,
    task: str | None = None,
    plan: Mapping[str, Any] | None = None,
    instance: str | None = None,
    other_nodes: Mapping[str, str | None] | None = None,
    redact: bool = False,
) -> Incident:
    """C(answer) is what node_report_info returned with details, or what was said where it could not.

    C(other_nodes): every node of the play with its address, for their pseudonyms.
    """
    variables = {"inventory_hostname": node, "report_answer": answer, "sglang_plan": plan}
    document = fleet_facts([{**variables, "sglang_instance": instance}])
    said = concealed_in(dict(failure)) if failure else None
    if redact:
        names = {node: None, **(other_nodes or {})}
        hostname = answer.get("hostname")
        known = pseudonyms_of(
            (name, [str(one) for one in (address, hostname if name == node else None) if one])
            for name, address in names.items()
        )
        document, said = redacted(document, known), redacted(said, known)
    shown = document["nodes"][0]
    rows = rows_of(document)
    index = index_of(str(shown["node"]), rows, at, said, task)
    stamp = f"{datetime.fromtimestamp(at, timezone.utc):%Y%m%dT%H%M%SZ}"
    told = _files(shown, said)
    told["report.html"] = (fleet_page(document, f"Incident of {shown['node']}"), "this node, to be opened in a browser")
    what = {"index.json": "this page for programs", **{name: words for name, (_text, words) in told.items()}}
    files = {
        "INDEX.txt": "\n".join(index_lines(index, what, redact)) + "\n",
        "index.json": _json({**index, "files": what, "redacted": redact}),
        **{name: text for name, (text, _words) in told.items()},
    }
    return Incident(f"{_UNSAFE.sub('_', str(shown['node']))}-{stamp}", index, files)


def _files(shown: Mapping[str, Any], failure: Mapping[str, Any] | None) -> dict[str, tuple[str, str]]:
    """Text of each file, and what it is in words."""
    found: dict[str, tuple[str, str]] = {}
    if failure:
        found["failure.json"] = (_json(failure), "what the task that failed returned")
    facts = shown.get("facts")
    if not isinstance(facts, Mapping):
        return found
    for part in ("topology", "stack"):
        found[f"{part}.json"] = (_json(facts[part]), {"topology": "GPUs, NUMA nodes, memory"}.get(part, "the host"))
    for entry in facts.get("instances") or ():
        found.update(_of_instance(entry, (shown.get("plans") or {}).get(entry.get("instance"))))
    return found


def _of_instance(entry: Mapping[str, Any], plan: Mapping[str, Any] | None) -> dict[str, tuple[str, str]]:
    folder = _UNSAFE.sub("_", str(entry.get("instance") or "unnamed"))
    found: dict[str, tuple[str, str]] = {}
    journal = entry.get("journal")
    if isinstance(journal, Mapping):
        lines = [*journal["lines"], *([f"[journalctl: {journal['error']}]"] if journal.get("error") else [])]
        found["journal.txt"] = ("\n".join(lines) + "\n", _told_journal(journal))
        if journal.get("kernel"):
            found["kernel.txt"] = ("\n".join(journal["kernel"]) + "\n", "what the kernel warned of since that start")
    units = [f"# {path}\n{text.rstrip()}\n" for path, text in (entry.get("files") or {}).items()]
    found["unit.txt"] = ("\n".join(units), "its unit file and drop-ins")
    if entry.get("config"):
        found["config.yaml"] = (f"{str(entry['config']).rstrip()}\n", "its configuration")
    variables = [f"{name}={value}\n" for name, value in (entry.get("environment") or {}).items()]
    found["environment.txt"] = ("".join(variables), "its environment; what may be secret is ***")
    ledger = entry.get("ledger") or {}
    if plan or ledger.get("plan"):
        of = "the plan of this run" if plan else "the plan of the last proven start"
        found["plan.json"] = (_json(plan or ledger["plan"]), of)
    if ledger:
        found["ledger.json"] = (_json(ledger), "the record of the last proven start")
    rest = {name: value for name, value in entry.items() if name not in _TEXTS}
    found["state.json"] = (_json(rest), "its unit, ranks and start as they were read")
    return {f"{folder}/{name}": value for name, value in found.items()}


def _told_journal(journal: Mapping[str, Any]) -> str:
    words = f"the journal of that start, {len(journal['lines']):,} lines"
    if journal["left_out_lines"]:
        words += f"; {journal['left_out_lines']:,} lines ({journal['left_out_bytes']:,} bytes) in its middle left out"
    if journal["shortened_lines"]:
        words += f"; {journal['shortened_lines']:,} long lines shortened"
    return words if journal["complete"] else f"{words}; it was not read to its end"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def archive(incident: Incident, at: float) -> bytes:
    """A tar.gz in which every file belongs to nobody in particular and can be read by its owner alone."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, text in incident.files.items():
            data = text.encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"{incident.name}/{name}")
            entry.size, entry.mtime, entry.mode = len(data), int(at), 0o600
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=int(at))
