# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What pip and uv print when they fail, and what it means. Pure.

The words: pip 22 to 25, src/pip/_internal/exceptions.py (HashErrors), resolution/resolvelib/factory.py and
index/package_finder.py; uv 0.4 to 0.13, crates/uv-resolver and uv-distribution-types.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal

_TAIL_LINES = 20
_ADDRESS_SECRET = re.compile(r"(://)[^\s@]+@")


@dataclass(frozen=True)
class _Row:
    code: str
    pattern: re.Pattern[str]
    message: str
    remedy: str


_ROWS = (
    _Row(
        "install_hash_differs",
        re.compile(
            r"(?:DO NOT MATCH THE HASHES.*?^\s+(?P<pip>\S+) from |Hash mismatch for `?(?P<uv>[^`\n]+?)`?\s*$)",
            re.DOTALL | re.MULTILINE,
        ),
        "{installer} found another hash than the required one for {what}.",
        "The file was changed or cut on its way, or the pins are of another build: carry it over again, or take the "
        "requirements that belong to it.",
    ),
    _Row(
        "install_hash_missing",
        re.compile(
            r"(?:Hashes are required in --require-hashes mode.*?^\s+(?P<pip>\S+?) --hash|"
            r"In `?--require-hashes`? mode, all requirements must have a hash, "
            r"but none were provided for: (?P<uv>\S+))",
            re.DOTALL | re.MULTILINE,
        ),
        "{installer} was given no hash for {what}.",
        "Add the hash to the requirements, made with uv pip compile --generate-hashes.",
    ),
    _Row(
        "install_no_space",
        re.compile(r"(?P<pip>No space left on device)"),
        "{installer} ran out of disk space.",
        "Make room on the file system of sglang_install_root; what was half-written has been removed.",
    ),
    _Row(
        "install_python_unfit",
        re.compile(
            r"(?:requires a different Python: (?P<pip>[^\n]+)|"
            r"(?P<uv>[^\n]+) depends on Python[^\n]*|"
            r"(?P<older>Requires-Python [^\n]+))"
        ),
        "{installer} says that a package needs another Python: {what}.",
        "Set sglang_python to an interpreter of the version that it names.",
    ),
    _Row(
        "install_unauthorised",
        re.compile(r"(?P<pip>(?:401|403)[^\n]*(?:Unauthori[sz]ed|Forbidden|Client Error)[^\n]*)"),
        "The index did not let {installer} in.",
        "Give machine, login and password of that index in sglang_index_credentials.",
    ),
    _Row(
        "install_index_unreachable",
        # Of pip the last try; an earlier one that succeeded afterwards explains nothing.
        re.compile(
            r"(?:Retry\(total=0,[^\n]*?(?P<pip>Temporary failure in name resolution|Name or service not known|"
            r"Connection refused|Network is unreachable|No route to host|timed out|CERTIFICATE_VERIFY_FAILED)|"
            r"(?P<uv>Failed to fetch: [^\n]+))"
        ),
        "{installer} could not reach the index: {what}.",
        "Set sglang_index_url to an index that the node reaches, or carry a bundle there (gpufleet.sglang.bundle) and "
        "set sglang_wheelhouse.",
    ),
    _Row(
        "install_not_found",
        re.compile(
            r"(?:No matching distribution found for (?P<pip>[^\n]+)|"
            r"Because (?P<uv>\S+) was not found|there is no version of (?P<version>\S+))"
        ),
        "{installer} found no wheel of {what} for this node.",
        "Look whether the index or the wheelhouse has it for the node's Python and platform.",
    ),
)


def without_secrets(text: str) -> str:
    """Addresses without what stands before their host."""
    return _ADDRESS_SECRET.sub(r"\1***@", text)


def read_failure(installer: str, output: str, status: int) -> Refusal:
    """What went wrong, by the first row that knows it; the end of the output is kept as evidence."""
    clean = without_secrets(output)
    evidence: dict[str, object] = {"installer": installer, "status": status, "output": tail(clean)}
    for row in _ROWS:
        if match := row.pattern.search(clean):
            what = next((part.strip() for part in match.groups() if part), "a package")
            return Refusal(row.code, row.message.format(installer=installer, what=what), row.remedy, evidence)
    return Refusal(
        "install_failed",
        f"{installer} failed with status {status}; its last words were: {last_words(clean).rstrip('.')}.",
        "Look at what it printed, under failure.evidence.output of this task; nothing of it was kept.",
        evidence,
    )


def tail(output: str) -> list[str]:
    return [line.rstrip()[:400] for line in output.splitlines() if line.strip()][-_TAIL_LINES:]


def last_words(output: str) -> str:
    lines = tail(output)
    errors = [line for line in lines if re.match(r"\s*(ERROR|error)\b", line)]
    return (errors or lines or ["nothing"])[-1].strip()
