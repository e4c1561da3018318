# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which files of a model folder SGLang loads, and whether index and files agree; pure, on names and sizes.

Follows C(_prepare_weights) of DefaultModelLoader (model_loader/loader.py), C(filter_duplicate_safetensors_files) and
C(maybe_add_mtp_safetensors) (model_loader/weight_utils.py) and C(is_mistral_native_format)
(arg_groups/model_path_hook.py) of 0.5.23: only the folder itself is looked at, safetensors win over *.bin, an index
decides where there is one, and without one all safetensors files are loaded together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.problem_codes import CODES
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import HeaderError, Tensor
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem

INDEX_NAME = "model.safetensors.index.json"
CONSOLIDATED_INDEX_NAME = "consolidated.safetensors.index.json"
HF_QUANT_CONFIG_NAME = "hf_quant_config.json"
QUANT_MODEL_DESCRIPTION_NAME = "quant_model_description.json"
# The largest checkpoints have a few hundred shards.
MAX_WEIGHT_FILES = 10_000
# They load Mistral's own names whatever other files are there.
_MISTRAL_NAMES = ("mistral-large-3", "mistral-small-4", "leanstral")
_MTP_ARCHITECTURES = ("Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM")
_OTHER_FORMATS = ("*.bin", "*.pt", "*.pth", "*.gguf")
_LFS_VERSION = b"version https://git-lfs.github.com/spec/"
# Pointers have about 130 bytes; the format allows no more than 1024.
MAX_POINTER_BYTES = 1024
_REPOSITORY = re.compile(r"models--(?P<name>[^/]+)")


@dataclass(frozen=True)
class FileEntry:
    """A file of the folder; C(name) has the path below it."""

    name: str
    size_bytes: int


@dataclass(frozen=True)
class IgnoredFile:
    """A weight file that is there and that SGLang does not load."""

    name: str
    size_bytes: int
    reason: str

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "size_bytes": self.size_bytes, "reason": self.reason}


@dataclass(frozen=True)
class Selection:
    """The weight files of a folder as SGLang takes them under C(--load-format auto)."""

    load_format: str
    index_name: str | None
    load: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[IgnoredFile, ...]
    # Files of formats that are not read here, where there is no safetensors file.
    unsupported: tuple[FileEntry, ...]
    problems: tuple[Problem, ...]


@dataclass(frozen=True)
class Hub:
    """A folder of the hub's cache: C(models--org--name/snapshots/revision)."""

    repository: str
    revision: str | None


def load_format(names: Iterable[str], folder_name: str) -> str:
    """C(auto), or C(mistral) for what only holds Mistral's own files."""
    found = set(names)
    if "params.json" in found and any(name in folder_name.lower() for name in _MISTRAL_NAMES):
        return "mistral"
    consolidated = any(fnmatchcase(name, "consolidated*.safetensors") for name in found)
    huggingface = any(fnmatchcase(name, "model*.safetensors") for name in found)
    return "mistral" if consolidated and not huggingface else "auto"


def index_name(names: Iterable[str], folder_name: str) -> str | None:
    """The index that SGLang reads for this folder, where it is there."""
    found = set(names)
    wanted = CONSOLIDATED_INDEX_NAME if load_format(found, folder_name) == "mistral" else INDEX_NAME
    return wanted if wanted in found else None


def select(
    files: Sequence[FileEntry],
    folder_name: str,
    indexed: tuple[str, ...] | None,
    architecture: str | None = None,
    has_nextn_layers: bool = False,
) -> Selection:
    """C(files) are those of the folder and of the folders right below it, C(indexed) the names out of the index."""
    sizes = {file.name: file.size_bytes for file in files}
    own = [name for name in sizes if "/" not in name]
    form = load_format(own, folder_name)
    pattern = "consolidated*.safetensors" if form == "mistral" else "*.safetensors"
    present = sorted(name for name in own if fnmatchcase(name, pattern))
    reasons: dict[str, str] = {}
    problems: list[Problem] = []
    load: tuple[str, ...]
    if indexed is not None:
        load = tuple(sorted(indexed))
        extra = [name for name in present if name not in indexed]
        if "mtp.safetensors" in extra and architecture in _MTP_ARCHITECTURES and has_nextn_layers:
            extra.remove("mtp.safetensors")
            load = (*load, "mtp.safetensors")
        reasons.update(dict.fromkeys(extra, "the index does not name it"))
        if extra:
            problems.append(_of("model_shards_extra", f"{_listing(extra)} not named by the index: not loaded."))
    elif len(present) == 2 and present[0].endswith("consolidated.safetensors") and present[1] == "model.safetensors":
        load = (present[1],)
        reasons[present[0]] = "model.safetensors holds the same weights"
    else:
        load = tuple(present)
        if any(name.startswith("consolidated") for name in load) and form == "auto":
            problems.append(
                _of(
                    "model_weights_duplicate",
                    f"{_listing([n for n in load if n.startswith('consolidated')])} beside model*.safetensors and "
                    "without an index: SGLang loads both.",
                )
            )
    for name in sorted(set(sizes) - set(load)):
        reason = reasons.get(name) or _why_ignored(name, form, bool(load))
        if reason is not None:
            reasons[name] = reason
    unsupported = tuple(FileEntry(name, sizes[name]) for name in sorted(own) if _is_other_format(name))
    return Selection(
        load_format=form,
        index_name=None if indexed is None else CONSOLIDATED_INDEX_NAME if form == "mistral" else INDEX_NAME,
        load=load,
        missing=tuple(name for name in load if name not in sizes),
        ignored=tuple(IgnoredFile(name, sizes[name], reasons[name]) for name in sorted(reasons)),
        unsupported=() if load else unsupported,
        problems=tuple(problems),
    )


def _is_other_format(name: str) -> bool:
    blacklist = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "scaler.pt")
    return any(fnmatchcase(name, pattern) for pattern in _OTHER_FORMATS) and name not in blacklist


def _why_ignored(name: str, form: str, loads: bool) -> str | None:
    weights = name.endswith(".safetensors") or _is_other_format(name.rsplit("/", 1)[-1])
    if not weights:
        return None
    if "/" in name:
        return "SGLang reads the folder itself only"
    if name.endswith(".safetensors"):
        return "SGLang loads consolidated*.safetensors here" if form == "mistral" else None
    return "safetensors files are there" if loads else None


def index_map(index: Any) -> dict[str, str]:
    """Tensor to file, out of an index; file names that leave the folder are an error."""
    weight_map = index.get("weight_map") if isinstance(index, Mapping) else None
    if not isinstance(weight_map, Mapping) or not weight_map:
        raise HeaderError("it has no weight_map")
    names = {str(name) for name in weight_map.values()}
    for name in sorted(names):
        if "/" in name or "\x00" in name or name in ("", ".", ".."):
            raise HeaderError(f"it names the file {name!r}, which is not a plain file name")
    if len(names) > MAX_WEIGHT_FILES:
        raise HeaderError(f"it names {len(names):,} files, above {MAX_WEIGHT_FILES:,}")
    return {str(tensor): str(name) for tensor, name in weight_map.items()}


def check_tensors(
    mapping: Mapping[str, str] | None, shards: Mapping[str, Sequence[Tensor]]
) -> tuple[tuple[Tensor, ...], tuple[Problem, ...]]:
    """(tensors, each once; what index and files disagree about). C(mapping) is that of the index, None without one."""
    once: dict[str, Tensor] = {}
    home: dict[str, str] = {}
    twice: list[str] = []
    for name, tensors in shards.items():
        for tensor in tensors:
            if tensor.name in once:
                twice.append(tensor.name)
            else:
                once[tensor.name] = tensor
                home[tensor.name] = name
    problems = []
    if twice:
        problems.append(_of("model_tensors_duplicate", f"{_listing(twice)} in more than one weight file."))
    if mapping is not None:
        missing = [tensor for tensor in mapping if tensor not in once]
        if missing:
            problems.append(
                _of(
                    "model_index_tensors_missing",
                    f"{_listing(missing)} named by the index and in no weight file that it names.",
                )
            )
        extra = [tensor for tensor in once if tensor not in mapping]
        if extra:
            problems.append(_of("model_index_tensors_extra", f"{_listing(extra)} in a weight file, not in the index."))
        moved = [tensor for tensor, name in mapping.items() if home.get(tensor, name) != name]
        if moved:
            problems.append(_of("model_index_tensors_moved", f"{_listing(moved)} in another file than the index says."))
    return tuple(once.values()), tuple(problems)


def check_total_size(index: Mapping[str, Any], total_bytes: int) -> tuple[Problem, ...]:
    """Whether the index's own sum agrees; a checkpoint that was edited by hand often does not."""
    metadata = index.get("metadata")
    stated = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if isinstance(stated, bool) or not isinstance(stated, (int, float)) or not 0 < stated < 1 << 62:
        return ()
    if int(stated) == total_bytes:
        return ()
    return (
        _of(
            "model_index_size_differs",
            f"The index states {int(stated):,} bytes in all, the files hold {total_bytes:,}.",
        ),
    )


def is_lfs_pointer(content: bytes, file_bytes: int) -> bool:
    """Whether a file is the text that stands for a large file in git, and not that file."""
    return file_bytes <= MAX_POINTER_BYTES and content.startswith(_LFS_VERSION)


def hub_place(folder_parts: Sequence[str]) -> Hub | None:
    """Repository and revision of a folder that is a hub cache's, or one of its snapshots; None for any other."""
    for above in (1, 3):
        match = _REPOSITORY.fullmatch(folder_parts[-above]) if len(folder_parts) >= above else None
        if match is None or (above == 3 and folder_parts[-2] != "snapshots"):
            continue
        return Hub(match["name"].replace("--", "/", 1), folder_parts[-1] if above == 3 else None)
    return None


def choose_snapshot(reference: str | None, snapshots: Sequence[str]) -> str | None:
    """The snapshot that C(refs/main) names, or the only one there is."""
    if reference is not None and reference in snapshots:
        return reference
    return snapshots[0] if len(snapshots) == 1 else None


def _listing(names: Sequence[str], shown: int = 3) -> str:
    text = ", ".join(_short(name) for name in names[:shown])
    more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
    return f"{text}{more} {'is' if len(names) == 1 else 'are'}"


def _short(name: str, most: int = 120) -> str:
    return name if len(name) <= most else name[: most - 3] + "..."


def _of(code: str, message: str) -> Problem:
    return CODES[code].of(code, message)
