#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: kept_generation
version_added: 0.1.0
short_description: Keep the files of an instance that has proven itself, and bring them back
description:
  - V(kept) copies the files of a generation that has been proven into a folder of the instance's own, with their
    modes and owners, and lets the oldest go.
  - V(restored) puts the files of the generation that was proven last, but for the one that is left, back in their
    places.
  - What is kept is complete or not there, also where a run is killed in between. Contents are never shown.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: partial
    details: Names the files that differ; what they hold may be secret.
  platform:
    platforms: linux
options:
  folder:
    description: Folder in which the generations of this instance are kept. Made for root only where it is missing.
    type: path
    required: true
  state:
    description: Whether to keep what is in force, or to bring back what is kept.
    type: str
    choices: [kept, restored]
    required: true
  files:
    description: Name in the folder and path of each file, for example C(config) and C(/etc/sglang/main.yaml).
    type: dict
    required: true
  generation:
    description:
      - Digest that names the generation, in hexadecimal digits.
      - With O(state=kept) the one that was proven; with O(state=restored) the one that is left, none where it is not
        known.
    type: str
  facts:
    description: What else has to be known of the generation, such as its plan. RV(facts) has it when it is restored.
    type: dict
    default: {}
  count:
    description: Number of generations to keep, the one that serves among them.
    type: int
    default: 2
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.effective_change
"""

EXAMPLES = r"""
- name: Keep what has proven itself
  gpufleet.sglang.kept_generation:
    state: kept
    folder: /etc/sglang/kept/main
    generation: "{{ change.ledger.generation }}"
    files:
      config: /etc/sglang/main.yaml
      environment: /etc/sglang/main.env
      unit: /etc/systemd/system/sglang-main.service
    facts:
      plan: "{{ sglang_plan }}"

- name: Bring back what served before
  gpufleet.sglang.kept_generation:
    state: restored
    folder: /etc/sglang/kept/main
    generation: "{{ change.ledger.generation }}"
    files:
      config: /etc/sglang/main.yaml
      environment: /etc/sglang/main.env
      unit: /etc/systemd/system/sglang-main.service
  register: restored
"""

RETURN = r"""
generation:
  description: The generation that was kept or restored.
  returned: success
  type: str
  sample: 5c0f6e2c1f8f4f7f9a0f4f1f2b7c3d4e5f60718293a4b5c6d7e8f90123456789
generations:
  description: All that are kept afterwards, the one that was proven last first.
  returned: success
  type: list
  elements: str
  sample: [5c0f6e2c1f8f4f7f9a0f4f1f2b7c3d4e5f60718293a4b5c6d7e8f90123456789]
paths:
  description: Files that were written, or would be.
  returned: success
  type: list
  elements: str
  sample: [/etc/sglang/main.yaml]
facts:
  description: What was said of the generation when it was kept.
  returned: success
  type: dict
  sample: {}
failure:
  description: Why nothing was kept or restored.
  returned: failure
  type: dict
  sample:
    code: nothing_to_go_back_to
    evidence: {kept: [], left: null}
    message: No generation is kept.
    remedy: >-
      Expected another one that was proven to serve: run the site playbook with what is to be in force instead.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.service.generations import (
    Generation,
    checked_digest,
    read_kept,
    to_go_back_to,
    unused_folders,
    with_proven,
    written,
)

RECORD = "kept.json"
FACTS = "facts.json"


def keep(
    folder: Path, files: Mapping[str, Path], digest: str, facts: Mapping[str, Any], count: int, check: bool
) -> dict[str, Any]:
    before = read_record(folder)
    described = json.dumps(dict(facts), indent=2, sort_keys=True) + "\n"
    absent = [str(path) for path in files.values() if not path.is_file()]
    if absent:
        raise Refusal(
            "files_absent",
            f"There is no {', no '.join(absent)} to keep.",
            "Expected every file of the generation that was proven.",
            {"paths": absent},
        )
    checked_digest(digest)
    whole = [one for one in before if one.digest == digest and is_whole(folder / one.folder, files, described)]
    if whole and with_proven(before, whole[0], count) == before:
        return outcome(False, digest, before, [], facts)
    if check:
        after = with_proven(before, Generation(digest, ""), count)
        return outcome(True, digest, after, [str(folder)], facts)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = whole[0] if whole else Generation(digest, laid_down(folder, files, digest, described))
    after = with_proven(before, kept, count)
    # Only from here on the new folder counts, and those that it replaces do not.
    replace(folder / RECORD, written(after))
    for unused in unused_folders(after, (one.name for one in folder.iterdir() if one.is_dir())):
        shutil.rmtree(folder / unused)
    return outcome(True, digest, after, [str(folder / kept.folder)], facts)


def is_whole(place: Path, files: Mapping[str, Path], described: str) -> bool:
    try:
        same_facts = (place / FACTS).read_text(encoding="utf-8") == described
    except FileNotFoundError:
        return False
    return same_facts and all(is_copy(place / name, path) for name, path in files.items())


def laid_down(folder: Path, files: Mapping[str, Path], digest: str, described: str) -> str:
    """A new folder with all that belongs to the generation."""
    place = Path(tempfile.mkdtemp(prefix=f"{digest[:16]}-", dir=folder))
    for name, path in files.items():
        copy(path, place / name)
    replace(place / FACTS, described)
    return place.name


def restore(folder: Path, files: Mapping[str, Path], left: str | None, check: bool) -> dict[str, Any]:
    kept = read_record(folder)
    generation = to_go_back_to(kept, left)
    place = folder / generation.folder
    missing = [name for name in (*files, FACTS) if not (place / name).is_file()]
    if missing:
        raise Refusal(
            "generation_incomplete",
            f"{place} lacks {', '.join(missing)}.",
            "Expected all files of the generation. Nothing was changed; run the site playbook with what is to serve.",
            {"missing": missing},
        )
    differing = {name: path for name, path in files.items() if not is_copy(place / name, path)}
    if not check:
        for name, path in differing.items():
            copy(place / name, path)
    facts = json.loads((place / FACTS).read_text(encoding="utf-8"))
    return outcome(bool(differing), generation.digest, kept, [str(path) for path in differing.values()], facts)


def outcome(
    changed: bool, digest: str, kept: Sequence[Generation], paths: list[str], facts: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "changed": changed,
        "generation": digest,
        "generations": [one.digest for one in kept],
        "paths": paths,
        "facts": dict(facts),
        "diff": {"prepared": "".join(f"{path} is written\n" for path in paths)},
    }


def read_record(folder: Path) -> tuple[Generation, ...]:
    try:
        return read_kept((folder / RECORD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()


def is_copy(copied: Path, original: Path) -> bool:
    """Whether both hold the same, for the same owner with the same mode."""
    try:
        one, other = copied.stat(), original.stat()
        alike = (one.st_mode, one.st_uid, one.st_gid) == (other.st_mode, other.st_uid, other.st_gid)
        return alike and copied.read_bytes() == original.read_bytes()
    except FileNotFoundError:
        return False


def copy(source: Path, target: Path) -> None:
    """Content, mode and owner, complete or not at all."""
    status = source.stat()
    replace(target, source.read_bytes(), mode=status.st_mode & 0o7777, owner=(status.st_uid, status.st_gid))


def replace(target: Path, content: str | bytes, mode: int = 0o600, owner: tuple[int, int] | None = None) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            if owner:
                os.fchown(file.fileno(), *owner)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink()
        raise


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "folder": {"type": "path", "required": True},
            "state": {"type": "str", "choices": ["kept", "restored"], "required": True},
            "files": {"type": "dict", "required": True},
            "generation": {"type": "str"},
            "facts": {"type": "dict", "default": {}},
            "count": {"type": "int", "default": 2},
        },
        required_if=[("state", "kept", ["generation"])],
        supports_check_mode=True,
    )
    given = module.params
    folder = Path(given["folder"])
    files = {str(name): Path(str(path)) for name, path in given["files"].items()}
    try:
        if given["state"] == "kept":
            result = keep(folder, files, given["generation"], given["facts"], given["count"], module.check_mode)
        else:
            result = restore(folder, files, given["generation"], module.check_mode)
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    module.exit_json(**result)


if __name__ == "__main__":
    main()
