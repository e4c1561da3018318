#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_snapshot
version_added: 0.1.0
short_description: Have one exact revision of a model on a node, whole and checked
description:
  - Fetches a model from a folder, from HTTP mirrors, from the Hugging Face hub or a mirror of it, or from another node
    that M(gpufleet.sglang.model_share) lets serve it, into C(<root>/<name>/<revision>/). Revisions lie side by side,
    and the link C(<root>/<name>/current) leads to one of them.
  - A revision appears at once, when every byte of it has been held against its SHA-256, and nothing writes to it from
    then on. Until then it lies in C(<root>/<name>/.partial/), which only root may enter.
  - The work is done on the node by a unit of its own, C(gpufleet-model-*.service), which outlives the play and the
    connection. A play that asks for a model that is being fetched follows that unit, and fetches nothing twice. When
    the unit was killed or the node was rebooted, the next run, or this one when the node is back, goes on from the
    byte where it ended; after a loss of power from the last 64 MiB of each file that were synced.
  - An attempt ends when not one byte has come for O(stall_seconds), however long the whole takes. A file is tried again
    with growing pauses, from the next mirror where there are several; attempts that bring something do not count. A
    file that comes whole and with other bytes is fetched again, and after O(corrupt_attempts) times the place that sent
    it is named, with whether its copy is damaged or something on the way alters it.
  - What is missing, less what is there, is held against the free space before anything is written.
  - Files that another revision of the model has are not fetched but linked, after their bytes have been checked.
  - A revision that is there is checked by sizes and times of its files, in milliseconds, and what looks touched is
    read. Only files that are bad are fetched anew. Each is replaced at once, so that a server that has it open keeps
    what it has.
  - Weight files that an index names and that are missing are refused, as some releases of SGLang load such a model in
    silence; so are safetensors files that are not whole, whatever their sums say.
  - The node needs nothing but Python and systemd. Files that the hub keeps in xet come over plain HTTP.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
    details: Asks the source for its list, says what would be fetched in bytes, and writes nothing.
  diff_mode:
    support: full
    details: One line for each file, of the revision that the link leads to and of the one asked for.
  platform:
    platforms: linux
options:
  root:
    description: Folder of the store, for models alone.
    type: path
    default: /srv/models
  name:
    description: Name of the model, which names its folder.
    type: str
    required: true
  revision:
    description:
      - Name of the revision, which names its folder. Of O(repository) the commit, 40 digits; a branch is refused, since
        it may be another model tomorrow.
      - If not given, the folder is named by the first 16 digits of RV(content_sha256).
      - With O(include) or O(exclude) the folder's name has a digest of them behind it. A part is not the revision.
    type: str
  content_sha256:
    description:
      - What the model has to be, as RV(content_sha256) of an earlier run says. A source that has something else is
        refused, before anything is fetched where it states its sums.
    type: str
  folder:
    description:
      - A folder on the node, which may be a mount, or a snapshot of a hub's cache.
      - Its sums are taken from C(.manifest.json) of a store, from C(SHA256SUMS), or from the names of the blobs of a
        hub's cache. Without any they are recorded as they are read.
    type: path
  mirrors:
    description:
      - URLs of the same folder on one or several web servers. The next is asked where one fails.
      - A mirror has C(.manifest.json) of a store, or C(SHA256SUMS), or an index of its files as nginx, Apache or Python
        make it. Without sums only sizes can be checked, which RV(problems) then says.
    type: list
    elements: str
    default: []
  repository:
    description: Repository of the hub, such as V(Qwen/Qwen3-32B).
    type: str
  endpoints:
    description: Endpoints of the hub or of mirrors of its API (C(HF_ENDPOINT)).
    type: list
    elements: str
    default: [https://huggingface.co]
  token:
    description:
      - Sent to the source as a bearer token, and never to where it redirects to.
      - It gets to the worker in a file of C(/run) that is removed when it is read, and is in no argument, environment,
        state or log.
    type: str
  token_file:
    description: File on the node that holds the token.
    type: path
  ca_file:
    description: File on the node with the certificates to trust. The system's if not given.
    type: path
  include:
    description: Patterns (C(fnmatch)) of the files that are wanted. All if empty.
    type: list
    elements: str
    default: []
  exclude:
    description: >-
      Patterns of files that are not wanted, such as V(original/*). Hidden files, such as C(.gitattributes), never are.
    type: list
    elements: str
    default: []
  verify:
    description:
      - V(quick) checks a revision that is there by sizes and times, and reads what they do not vouch for.
      - V(full) reads every byte of it, and of a new one reads back from the disk what was written.
    type: str
    choices: [quick, full]
    default: quick
  activate:
    description: Whether the link C(current) is set to this revision.
    type: bool
    default: true
  transfer:
    description:
      - How files come out of O(folder). V(auto) shares blocks where the file system can (reflink), and copies where it
        cannot.
      - V(hardlink) gives files another name in the store where they have the store's owner and rights and lie on the
        same file system, and copies where not. Who writes to such a file writes to the store.
    type: str
    choices: [auto, hardlink, copy]
    default: auto
  parallel_files:
    description: Files that are fetched at a time.
    type: int
    default: 4
  stall_seconds:
    description: How long no byte may come before an attempt ends.
    type: float
    default: 30
  attempts:
    description: Attempts at one file from each place that bring nothing, in a row.
    type: int
    default: 6
  corrupt_attempts:
    description: How often a file may come whole and wrong from one place.
    type: int
    default: 3
  retry_pause_seconds:
    description: The first pause before another attempt; it doubles up to a minute.
    type: float
    default: 1
  first_location:
    description: Number of the mirror that is asked first, from 0 on, so that many nodes do not ask the same.
    type: int
    default: 0
  reserve_bytes:
    description: What has to stay free on the disk.
    type: int
    default: 10000000000
  max_bytes_per_second:
    description: Limit of the node's transfer. None if not given.
    type: int
  group:
    description: Group of the files. Their owner is root.
    type: str
    default: root
  file_mode:
    description: Rights of the files. Who may read them may enter the folders. Nobody but root writes.
    type: str
    default: "0644"
  reconnect_seconds:
    description: How long a node that cannot be reached is tried again; the worker goes on meanwhile.
    type: float
    default: 300
  poll_seconds:
    description: How long one call waits on the node for news, 0 to 30.
    type: float
    default: 3
  live_lines:
    description: See O(gpufleet.sglang.wait_for_idle#module:live_lines).
    type: str
    choices: [auto, always, never]
    default: auto
  run_id:
    description: The worker's run to follow. The action sets it from its second call on.
    type: str
seealso:
  - module: gpufleet.sglang.model_store_info
  - module: gpufleet.sglang.model_prune
  - module: gpufleet.sglang.model_share
  - module: gpufleet.sglang.model_info
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Have a model of the hub
  gpufleet.sglang.model_snapshot:
    name: Qwen3-32B
    repository: Qwen/Qwen3-32B
    revision: 9216db5781bf21249d130ec9da846c4624c16137
    token_file: /etc/credstore/hf-token
  register: model

- name: Have it from mirrors, with what it has to be
  gpufleet.sglang.model_snapshot:
    name: Qwen3-32B
    mirrors: [https://mirror-1.example/models/Qwen3-32B, https://mirror-2.example/models/Qwen3-32B]
    content_sha256: 3f1d5c0e4f6a8b2c9d7e1f3a5b7c9d1e3f5a7b9c1d3e5f7a9b1c3d5e7f9a1b3c

- name: Read every byte of what is there, and fetch nothing
  gpufleet.sglang.model_snapshot:
    name: Qwen3-32B
    revision: 9216db5781bf21249d130ec9da846c4624c16137
    verify: full

- name: Return to the revision before, which is still there
  gpufleet.sglang.model_snapshot:
    name: Qwen3-32B
    revision: 30b8421510892303dc5ddd6cd0ac90ca2053478d
"""

RETURN = r"""
path:
  description:
    - The folder of this very revision, to serve from. Use it rather than RV(current_path) for a service, so that its
      arguments change with the model.
    - In check mode null where only fetching it would tell.
  returned: success
  type: str
  sample: /srv/models/Qwen3-32B/9216db5781bf21249d130ec9da846c4624c16137
current_path:
  description: The link to the revision in use.
  returned: success
  type: str
  sample: /srv/models/Qwen3-32B/current
revision:
  description: Name of the revision's folder.
  returned: success
  type: str
  sample: 9216db5781bf21249d130ec9da846c4624c16137
content_sha256:
  description:
    - Digest over path, size and SHA-256 of every file. Two models with the same are the same to the last byte.
    - The C(manifest_sha256) of M(gpufleet.sglang.model_info) is made of names, sizes and headers only, in seconds.
      Models with the same C(content_sha256) have the same of it, but a model that was merely trained on has as well.
  returned: success
  type: str
  sample: 3f1d5c0e4f6a8b2c9d7e1f3a5b7c9d1e3f5a7b9c1d3e5f7a9b1c3d5e7f9a1b3c
size_bytes:
  description: Size of all files.
  returned: success
  type: int
  sample: 65540000000
files:
  description: How many files it has.
  returned: success
  type: int
  sample: 29
fetched_bytes:
  description: Bytes that came from the source in this run, those that came in vain among them.
  returned: success, not in check mode
  type: int
  sample: 65540000000
reused_bytes:
  description: Bytes that were there, of a partial download or of another revision.
  returned: success
  type: int
  sample: 0
would_fetch_bytes:
  description: What a run would fetch.
  returned: in check mode
  type: int
  sample: 65540000000
would_read_bytes:
  description: What a run would read on the node to know whether it is still right.
  returned: in check mode
  type: int
  sample: 0
retries:
  description: Attempts that were repeated.
  returned: success, not in check mode
  type: int
  sample: 0
repaired:
  description: Files of a revision that was there and that were bad, and were fetched anew.
  returned: success
  type: list
  elements: str
  sample: []
problems:
  description: What should be known, each with C(code), C(severity), C(message) and C(remedy).
  returned: success
  type: list
  elements: dict
  sample: []
joined:
  description: Whether the worker of another run was at it already.
  returned: success, not in check mode
  type: bool
  sample: false
run_id:
  description: The worker's run; null where none was needed.
  returned: always
  type: str
  sample: 5f0c1d2e3a4b5c6d
worker:
  description: Where the worker is, while it is at it.
  returned: while the worker is at it
  type: dict
  sample: {phase: fetching, done_bytes: 21430000000, total_bytes: 65540000000}
failure:
  description: Why not, with C(code), C(message), C(remedy) and C(evidence).
  returned: failure
  type: dict
  sample:
    code: store_disk_full
    message: >-
      Qwen3-32B needs 65.54 GB more on /srv/models (65.54 GB in all, 0.00 GB there already), and 10.00 GB are to stay
      free; 40.00 GB are free.
    remedy: "Free 35.54 GB there: model_prune lists what no unit uses. Nothing was written."
    evidence: {missing_bytes: 65540000000, free_bytes: 40000000000, lacking_bytes: 35540000000}
"""

import grp
import os
import urllib.request
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.asking import job_of
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.job import QUICK, Job, Secrets
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.manifest import listed
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.options import SNAPSHOT_OPTIONS
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.progress import DONE, FAILED, STOPPED
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.verifying import GOOD
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.finding import find
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.foreseeing import diff_of, foresee, in_force
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.launching import (
    before_of,
    outcome_of,
    seat_of,
    start,
    wait,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.published import manifest_of, quick_check
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.task import Progress, run

MAX_TOKEN_BYTES = 1 << 16


def main() -> None:
    module = AnsibleModule(
        argument_spec=SNAPSHOT_OPTIONS,
        mutually_exclusive=[["token", "token_file"]],
        supports_check_mode=True,
    )
    # Root's own umask may be narrower than what the service has to enter.
    os.umask(0o022)
    try:
        result = snapshot(module)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    except OSError as error:
        words = f"{error.filename or module.params['root']} cannot be read or written: {error.strerror or error}."
        refused = Refusal("store_disk_failed", words, "Become root on the node, and look at its disks.")
        module.fail_json(msg=str(refused), failure=refused.as_dict())
    module.exit_json(**result)


def snapshot(module: AnsibleModule) -> dict[str, Any]:
    """One call: a look at a worker that is at it, or everything where there is little to do."""
    options = module.params
    job = job_of(options, group_id(options["group"]))
    if module.check_mode:
        return {**foresee(job, secrets_of(options)), "run_id": None}
    before = in_force(job)
    if options["run_id"] is None and is_whole(job):
        return _with_diff(job, before, {**run(job, Secrets(), Progress()), "joined": False, "run_id": None})
    seat = seat_of(job)
    run_id, joined = options["run_id"], False
    if run_id is None:
        joined = seat.alive
        run_id = start(job, secrets_of(options), seat, module.run_command)
    state = wait(seat, options["poll_seconds"])
    outcome = outcome_of(state)
    told = {"changed": False, "joined": joined, "run_id": state.get("run_id") or run_id}
    if outcome == DONE:
        return _with_diff(job, before_of(job, seat), {**told, **state["result"]})
    if outcome == FAILED:
        failure = state["failure"]
        raise Refusal(failure["code"], failure["message"], failure["remedy"], failure["evidence"])
    if outcome == STOPPED:
        raise Refusal(
            "store_worker_stopped",
            f"{seat.unit} was stopped on the node.",
            "Run it again: it goes on with what is there.",
            {"unit": seat.unit},
        )
    # Not "state": Ansible sets that of what is returned as path.
    return {**told, "worker": {**state, "lost": outcome == "lost", "unit": seat.unit}}


def is_whole(job: Job) -> bool:
    """Whether the revision is there and nothing of it has to be read: then there is no work for a worker."""
    found = find(job) if job.verify == QUICK else None
    if found is None or found.manifest is None:
        # Without a worker that is refused as well.
        return found is not None or (job.source is None and job.verify == QUICK)
    return all(finding.state == GOOD for finding in quick_check(found, found.manifest))


def group_id(name: str) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise Refusal(
            "store_owner_unknown",
            f"There is no group {name} on the node.",
            "Create it first, or name another.",
            {"group": name},
        ) from None


def secrets_of(options: dict[str, Any]) -> Secrets:
    token = options["token"]
    if options["token_file"] is not None:
        try:
            with Path(options["token_file"]).open("rb") as file:
                token = file.read(MAX_TOKEN_BYTES).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Refusal(
                "store_token_missing",
                f"{options['token_file']} cannot be read: {getattr(error, 'strerror', None) or 'it is no ASCII text'}.",
                "Put the token there, readable by root alone.",
                {"token_file": options["token_file"]},
            ) from None
    # As the task's environment has them; they may carry a password.
    return Secrets(token or None, urllib.request.getproxies_environment())


def _with_diff(job: Job, before: Any, result: dict[str, Any]) -> dict[str, Any]:
    if result["changed"]:
        after = manifest_of(job.place.revision(result["revision"]))
        if after is not None:
            result["diff"] = diff_of(before, listed(after))
    return result


if __name__ == "__main__":
    main()
