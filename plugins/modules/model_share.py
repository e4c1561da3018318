#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_share
version_added: 0.1.0
short_description: Let a node serve a revision of a model to other nodes
description:
  - Starts a small web server on the node, a unit of its own, that serves the published revisions of its store and
    nothing else, to so many at a time. Whoever comes when all places are taken waits in line.
  - It ends by itself when nobody has wanted anything for O(idle_seconds), so that a play that is killed leaves nothing
    behind. Where it runs already, it is joined.
  - Give C(url), C(token) and C(content_sha256) to M(gpufleet.sglang.model_snapshot) on the node that needs the model.
    What it fetches is held against the digest, which comes through Ansible's own connection. The token keeps strangers
    out, and crosses the network in clear, as the model does.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
    details: Says whether the node has the revision, and starts nothing.
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  root:
    description: Folder of the store.
    type: path
    default: /srv/models
  name:
    description: Name of the model.
    type: str
    required: true
  revision:
    description:
      - Name of the revision's folder.
      - The one that the link C(current) leads to if neither this nor O(content_sha256) is given.
    type: str
  include:
    description: What O(revision) was fetched with; a part of a revision has a folder of its own.
    type: list
    elements: str
    default: []
  exclude:
    description: As O(include).
    type: list
    elements: str
    default: []
  content_sha256:
    description: What the revision has to be.
    type: str
  address:
    description: IP address to listen on, by which the other nodes reach this one.
    type: str
    required: true
  port:
    description: TCP port to listen on; any free one with 0. A firewall has to let the other nodes through.
    type: int
    default: 0
  token:
    description:
      - A token to let in whoever has it, so that one may do for several nodes that serve. Those of other plays go on to
        be let in. The server makes one if not given.
    type: str
  max_transfers:
    description: Files that are sent at a time, to all nodes together.
    type: int
    default: 8
  max_bytes_per_second:
    description: Limit of each transfer. None if not given.
    type: int
  idle_seconds:
    description: How long nobody may want anything before it ends.
    type: float
    default: 300
seealso:
  - module: gpufleet.sglang.model_snapshot
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Let a node that has the model serve it
  gpufleet.sglang.model_share:
    name: Qwen3-32B
    address: 10.0.0.11
  delegate_to: node-1
  register: share
  no_log: true

- name: Fetch it from there
  gpufleet.sglang.model_snapshot:
    name: Qwen3-32B
    revision: "{{ share.revision }}"
    content_sha256: "{{ share.content_sha256 }}"
    mirrors: ["{{ share.url }}"]
    token: "{{ share.token }}"
  when: share.shared
"""

RETURN = r"""
shared:
  description: Whether the node has the revision, whole by sizes and times. Where it has not, nothing is started.
  returned: success
  type: bool
  sample: true
url:
  description: Where the revision is served; null where it is not.
  returned: success
  type: str
  sample: http://10.0.0.11:40123/Qwen3-32B/9216db5781bf21249d130ec9da846c4624c16137
token:
  description: What to ask with; null where it is not served.
  returned: success
  type: str
  sample: 3yV0m9GqL1pX2c4d5e6f7g8h9i0jkl-mno_pqrstuvw
revision:
  description: Name of the revision's folder.
  returned: success
  type: str
  sample: 9216db5781bf21249d130ec9da846c4624c16137
content_sha256:
  description: Digest over all files.
  returned: success
  type: str
  sample: 3f1d5c0e4f6a8b2c9d7e1f3a5b7c9d1e3f5a7b9c1d3e5f7a9b1c3d5e7f9a1b3c
size_bytes:
  description: Size of all files.
  returned: success
  type: int
  sample: 65540000000
"""

import ipaddress
import json
import os
import secrets
import time
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.layout import (
    Place,
    check_name,
    place_of,
    suffix_of,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.source import check_content_sha256
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.verifying import GOOD, SUSPECT
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker import sharing
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.disk import locked, read_text, write_whole
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.launching import (
    RUNTIME,
    Seat,
    launch_share,
    make_private,
    read_object,
    unit_state,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.store.worker.published import (
    Published,
    current_of,
    quick_check,
    revisions,
)

START_SECONDS = 20.0
MOST_TOKENS = 1000
MAX_TOKENS_BYTES = 1 << 20
UNIT = "gpufleet-model-share.service"


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "root": {"type": "path", "default": "/srv/models"},
            "name": {"type": "str", "required": True},
            "revision": {"type": "str"},
            "include": {"type": "list", "elements": "str", "default": []},
            "exclude": {"type": "list", "elements": "str", "default": []},
            "content_sha256": {"type": "str"},
            "address": {"type": "str", "required": True},
            "port": {"type": "int", "default": 0},
            "token": {"type": "str", "no_log": True},
            "max_transfers": {"type": "int", "default": 8},
            "max_bytes_per_second": {"type": "int"},
            "idle_seconds": {"type": "float", "default": 300},
        },
        supports_check_mode=True,
    )
    os.umask(0o022)
    try:
        result = share(module)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    except OSError as error:
        refused = Refusal(
            "store_share_failed",
            f"{error.filename or RUNTIME} cannot be written: {error.strerror or error}.",
            "Become root on the node.",
        )
        module.fail_json(msg=str(refused), failure=refused.as_dict())
    module.exit_json(changed=False, **result)


def share(module: AnsibleModule) -> dict[str, Any]:
    options = module.params
    place = place_of(options["root"], options["name"])
    if options["revision"] is not None:
        check_name("revision", options["revision"])
    check_content_sha256(options["content_sha256"])
    _check(options)
    revision = options["revision"]
    if revision is not None:
        revision += suffix_of(options["include"], options["exclude"])
    found = find_whole(place, revision, options["content_sha256"])
    if found is None or found.manifest is None:
        return dict.fromkeys(("url", "token", "revision", "content_sha256", "size_bytes"), None) | {"shared": False}
    told = {
        "shared": True,
        "revision": found.revision,
        "content_sha256": found.manifest.content_sha256,
        "size_bytes": found.manifest.size_bytes,
    }
    if module.check_mode:
        return {**told, "url": None, "token": None}
    port, token = running(options, place.root, module.run_command)
    host = f"[{options['address']}]" if ":" in options["address"] else options["address"]
    return {**told, "url": f"http://{host}:{port}/{place.name}/{found.revision}", "token": token}


def find_whole(place: Place, revision: str | None, content_sha256: str | None) -> Published | None:
    """A revision that may be handed on. One that looks touched may as well: whoever fetches it checks every byte."""
    wanted = revision if revision is not None or content_sha256 is not None else current_of(place)
    for one in revisions(place):
        if one.manifest is None or wanted not in (None, one.revision):
            continue
        if content_sha256 not in (None, one.manifest.content_sha256):
            continue
        if wanted is None and content_sha256 is None:
            return None
        if all(finding.state in (GOOD, SUSPECT) for finding in quick_check(one, one.manifest)):
            return one
    return None


def running(options: dict[str, Any], root: str, run_command: Any) -> tuple[int, str]:
    """(port, token) of the server: one that runs for the same address and store, or a new one."""
    seat = Seat(RUNTIME / "share", UNIT)
    make_private(seat.folder)
    names = ("address", "port", "max_transfers", "max_bytes_per_second", "idle_seconds")
    wanted = {"root": root, **{name: options[name] for name in names}}
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        with locked(seat.folder / "launch") as alone:
            if alone:
                token = options["token"] or secrets.token_urlsafe(32)
                let_in(seat.folder / sharing.TOKENS, token)
                return _join_or_start(seat, wanted, run_command), token
        time.sleep(0.1)
    raise _failed(seat.unit, "another run has been starting it for too long")


def let_in(path: Path, token: str) -> None:
    """Adds a token to those that the server lets in, the newest thousand."""
    known = (read_text(path, MAX_TOKENS_BYTES) or "").split()
    if token not in known:
        write_whole(path, "\n".join([*known[-MOST_TOKENS:], token, ""]), 0o600, sync=False)


def _join_or_start(seat: Seat, wanted: dict[str, Any], run_command: Any) -> int:
    job = seat.folder / sharing.JOB
    given = read_object(job)
    run_id = given.pop("run_id", None)
    state = read_object(seat.folder / sharing.STATE)
    active = unit_state(seat.unit, run_command) in ("active", "activating")
    if active and given == wanted and state.get("run_id") == run_id:
        os.utime(job)
        return int(state["port"])
    if active:
        run_command(["systemctl", "stop", seat.unit])
    run_id = secrets.token_hex(8)
    write_whole(job, json.dumps({**wanted, "run_id": run_id}))
    launch_share(seat, wanted["root"], run_command)
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until:
        state = read_object(seat.folder / sharing.STATE)
        if state.get("run_id") == run_id:
            return int(state["port"])
        if unit_state(seat.unit, run_command) not in ("active", "activating"):
            break
        time.sleep(0.1)
    where = f"{wanted['address']} port {wanted['port'] or 'of its choice'}"
    raise _failed(seat.unit, f"it does not listen on {where}")


def _failed(unit: str, why: str) -> Refusal:
    return Refusal(
        "store_share_failed",
        f"{unit} did not come up: {why}.",
        f"Look at `journalctl -u {unit}`, whether the address is the node's and the port is free.",
        {"unit": unit},
    )


def _check(options: dict[str, Any]) -> None:
    try:
        ipaddress.ip_address(options["address"])
    except ValueError:
        raise Refusal(
            "out_of_range",
            f"address is {options['address'][:80]!r}.",
            "Expected an IP address of the node.",
            {"address": options["address"]},
        ) from None
    bounds = (
        ("port", 0, 65535),
        ("max_transfers", 1, 1024),
        ("idle_seconds", 1, 86400),
        ("max_bytes_per_second", 1, 1 << 50),
    )
    for name, least, most in bounds:
        value = options[name]
        if value is not None and not least <= value <= most:
            raise Refusal("out_of_range", f"{name} is {value:g}.", f"Expected {least:g} to {most:g}.", {name: value})


if __name__ == "__main__":
    main()
