# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Tensors that differ only in their layer's or expert's number, told as one group: a checkpoint of 200,000 tensors
has about 60. All sums and the split over ranks come out of the groups; pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights import Tensor
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.weights_parts import KIND_OF_PART, place

# Far above what any model has; a hostile one could name a million.
MAX_GROUPS = 4096
REST = "(more)"


@dataclass(frozen=True)
class TensorGroup:
    """Tensors of one name, data type and shape, C(per_layer) of them in each of C(layers) (once where there are none).

    C(shape) is None for what was summed up because there were too many groups.
    """

    name: str
    part: str
    scale: bool
    dtype: str
    shape: tuple[int, ...] | None
    tensor_bytes: int
    layers: tuple[tuple[int, int], ...]
    per_layer: int

    @property
    def count(self) -> int:
        return self.per_layer * (sum(last - first + 1 for first, last in self.layers) if self.layers else 1)

    @property
    def size_bytes(self) -> int:
        return self.tensor_bytes * self.count

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "part": self.part,
            "scale": self.scale,
            "dtype": self.dtype,
            "shape": None if self.shape is None else list(self.shape),
            "tensor_bytes": self.tensor_bytes,
            "layers": [list(run) for run in self.layers],
            "per_layer": self.per_layer,
        }


class _Alike(NamedTuple):
    """What tensors of one group have in common."""

    name: str
    part: str
    scale: bool
    dtype: str
    shape: tuple[int, ...] | None
    tensor_bytes: int


def tensor_groups(tensors: Iterable[Tensor], num_layers: int | None) -> tuple[TensorGroup, ...]:
    """Groups of all tensors, in the order in which their first one came."""
    found: dict[_Alike, dict[int | None, int]] = {}
    for tensor in tensors:
        at = place(tensor.name, num_layers)
        alike = _Alike(at.pattern, at.part, at.scale, tensor.dtype, tensor.shape, tensor.size_bytes)
        if alike not in found and len(found) >= MAX_GROUPS:
            # A byte a tensor, so that count and bytes stay right.
            rest = _Alike(REST, at.part, False, "mixed", None, 1)
            found.setdefault(rest, {None: 0})[None] += tensor.size_bytes
            continue
        counts = found.setdefault(alike, {})
        counts[at.layer] = counts.get(at.layer, 0) + 1
    return tuple(
        TensorGroup(**alike._asdict(), layers=layers, per_layer=per_layer)
        for alike, counts in found.items()
        for layers, per_layer in _by_count(counts)
    )


def _by_count(counts: Mapping[int | None, int]) -> list[tuple[tuple[tuple[int, int], ...], int]]:
    """Layers with equally many tensors share a group."""
    layers_of: dict[int, list[int]] = {}
    groups: list[tuple[tuple[tuple[int, int], ...], int]] = []
    for layer, count in counts.items():
        if layer is None:
            groups.append(((), count))
        else:
            layers_of.setdefault(count, []).append(layer)
    return groups + [(runs(layers), count) for count, layers in layers_of.items()]


def runs(numbers: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """C(0, 1, 2, 7) -> C((0, 2), (7, 7))."""
    found: list[tuple[int, int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def layers_within(layers: Iterable[tuple[int, int]], first: int, last: int) -> int:
    """How many of these runs' layers lie between C(first) and C(last)."""
    return sum(max(0, min(last, high) - max(first, low) + 1) for low, high in layers)


def bytes_by_dtype(groups: Iterable[TensorGroup]) -> dict[str, int]:
    return _sums((group.dtype, group.size_bytes) for group in groups)


def bytes_by_kind(groups: Iterable[TensorGroup]) -> dict[str, int]:
    return _sums((KIND_OF_PART.get(group.part, group.part), group.size_bytes) for group in groups)


def bytes_by_part(groups: Iterable[TensorGroup]) -> dict[str, int]:
    """With the scales that belong to each part."""
    return _sums((group.part, group.size_bytes) for group in groups)


def scale_bytes_by_part(groups: Iterable[TensorGroup]) -> dict[str, int]:
    return _sums((group.part, group.size_bytes) for group in groups if group.scale)


def _sums(items: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for key, size in items:
        sums[key] = sums.get(key, 0) + size
    return dict(sorted(sums.items()))


def layer_sizes(groups: Iterable[TensorGroup]) -> list[dict[str, Any]]:
    """Bytes of each decoder layer by part; neighbours that are alike are one entry C({first, last, bytes, by_part})."""
    sizes: dict[int, dict[str, int]] = {}
    for group in groups:
        for first, last in group.layers:
            for layer in range(first, last + 1):
                parts = sizes.setdefault(layer, {})
                parts[group.part] = parts.get(group.part, 0) + group.tensor_bytes * group.per_layer
    entries: list[dict[str, Any]] = []
    for layer, parts in sorted(sizes.items()):
        by_part = dict(sorted(parts.items()))
        if entries and entries[-1]["last"] == layer - 1 and entries[-1]["by_part"] == by_part:
            entries[-1]["last"] = layer
        else:
            entries.append({"first": layer, "last": layer, "layer_bytes": sum(by_part.values()), "by_part": by_part})
    return entries


def groups_from_facts(entries: Any) -> tuple[TensorGroup, ...] | None:
    """Groups out of the C(groups) that model_info returned; None where they are not what it returns."""
    if not isinstance(entries, (list, tuple)) or not entries:
        return None
    groups = []
    for entry in entries:
        group = _group(entry)
        if group is None:
            return None
        groups.append(group)
    return tuple(groups)


def _group(entry: Any) -> TensorGroup | None:
    if not isinstance(entry, Mapping):
        return None
    shape, layers = entry.get("shape"), entry.get("layers")
    numbers = [entry.get("tensor_bytes"), entry.get("per_layer"), *(shape or ())]
    if not isinstance(layers, Sequence) or isinstance(layers, str):
        return None
    for run in layers:
        if not isinstance(run, Sequence) or len(run) != 2:
            return None
        numbers += run
    if any(isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in numbers):
        return None
    return TensorGroup(
        name=str(entry.get("name")),
        part=str(entry.get("part")),
        scale=entry.get("scale") is True,
        dtype=str(entry.get("dtype")),
        shape=None if shape is None else tuple(shape),
        tensor_bytes=entry["tensor_bytes"],
        layers=tuple((run[0], run[1]) for run in layers),
        per_layer=entry["per_layer"],
    )
