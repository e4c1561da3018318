# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading a profile: what it takes over from another, the shared boards, what may be left out, what is refused."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from .entries import Profile, ProfileError
from .keys import refuse_unknown_keys
from .lists import numbers_of
from .stack import default_system

FORMAT = 2
BOARDS = "parts/boards.yml"
# How much of a node's memory is free, holds files and holds slabs where a profile does not say.
REQUIRED = ("name", "host", "driver", "numa_nodes", "host_bridges", "bridges", "boards", "devices")
FREE, FILES, SLABS = 15 / 16, 1 / 64, 1 / 512
CGROUP = {"layout": "v2", "path": "/user.slice/user-0.slice/session-1.scope", "mount_root": "/", "limits": {}}


def _merged(under: Any, over: Any) -> Any:
    """Mappings are merged key by key; anything else of the upper replaces what is below."""
    if isinstance(under, Mapping) and isinstance(over, Mapping):
        return {**under, **{key: _merged(under.get(key), value) for key, value in over.items()}}
    return copy.deepcopy(over)


def load_profile(path: Path, seen: tuple[str, ...] = ()) -> Profile:
    """Read a profile; the file's name is the profile's name. What C(like) names is taken over."""
    profile = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(profile, dict) or not isinstance(profile.get("format"), int):
        raise ProfileError(f"{path} is no machine profile: it says no format.")
    if profile["format"] != FORMAT:
        raise ProfileError(
            f"{path} is of format {profile['format']}, and this builder reads format {FORMAT}; "
            "rehearsal/machines/README.md says what the keys are."
        )
    if profile.get("name") != path.stem:
        raise ProfileError(f"{path} says name: {profile.get('name')}; expected {path.stem}, as the file is called.")
    if profile.get("like") is None:
        boards = yaml.safe_load((path.parent / BOARDS).read_text(encoding="utf-8"))
    else:
        if profile["like"] in (*seen, path.stem):
            raise ProfileError(f"{path}: like leads around in a circle, {' -> '.join((*seen, path.stem))}.")
        below = load_profile(path.with_name(f"{profile['like']}.yml"), (*seen, path.stem))
        boards = below["boards"]
        told = ("sources", "assumptions", "summary")
        profile = {
            **_merged(below, {key: value for key, value in profile.items() if key not in told}),
            **{key: profile[key] for key in told if key in profile},
        }
    profile["boards"] = _merged(boards, profile.get("boards") or {})
    refuse_unknown_keys(profile)
    return profile


def completed(given: Profile) -> Profile:
    """The profile with what it may leave out, and with C(all_devices) and C(all_gpus), where boards, devices and
    overrides are one entry each. GPUs are counted in the order of the list."""
    refuse_unknown_keys(given)
    for key in REQUIRED:
        if key not in given:
            raise ProfileError(f"{given.get('name')}: the key {key} is missing.")
    profile: Profile = copy.deepcopy(given)
    profile["host"].setdefault("architecture", "x86_64")
    profile["cgroup"] = {**CGROUP, **(profile.get("cgroup") or {})}
    profile["stack"] = {"os": default_system(profile["host"]["kernel"]), **(profile.get("stack") or {})}
    nodes = [entry for node in profile["numa_nodes"] for entry in _nodes(node)]
    profile["numa_nodes"] = sorted(nodes, key=lambda node: int(node["id"]))
    profile.setdefault("nvml_affinity", True)
    profile.setdefault("p2p", "OK")
    devices = []
    count = 0
    for device in profile["devices"]:
        if device["board"] not in profile["boards"]:
            raise ProfileError(f"{profile['name']}: {device['path']} is a {device['board']}, which boards lacks.")
        whole = _merged(profile["boards"][device["board"]], device)
        if whole["kind"] == "gpu":
            whole = _merged(whole, (profile.get("gpus") or {}).get(count, {}))
            count += 1
        devices.append(whole)
    for number in profile.get("gpus") or {}:
        if number not in range(count):
            raise ProfileError(f"{profile['name']}: gpus names GPU {number}; there are {count}, counted from 0.")
    profile["all_devices"] = devices
    profile["all_gpus"] = [device for device in devices if device["kind"] == "gpu"]
    return profile


def _nodes(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry may stand for several nodes that are alike, as in C(id: 3-9)."""
    found = []
    for number in numbers_of(entry["id"]):
        node = {"cpus": "", "memory_total_kib": 0, "hugepages": {2048: 0, 1048576: 0}, **entry, "id": number}
        total = node["memory_total_kib"]
        for key, share in (("free", FREE), ("file", FILES), ("slab_reclaimable", SLABS)):
            node.setdefault(f"memory_{key}_kib", int(total * share))
        found.append(node)
    return found
