# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A key that nobody reads is a typing error, and is refused by name: options, and facts that are stated on paper.

What the C(*_info) modules return is known in whole, whether a plan uses it or not, so that their results can be handed
over as they are.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architecture import Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.topology import machine

# What Ansible adds to a registered result.
RESULT_KEYS = frozenset(
    {"changed", "failed", "skipped", "warnings", "deprecations", "invocation", "exception", "msg", "ansible_facts"}
)
MODEL_KEYS = frozenset(
    {
        "path",
        "name",
        "architecture",
        "model_type",
        "attention",
        "vision",
        "hidden_size",
        "vocab_size",
        "max_position_embeddings",
        "dtype",
        "quantization",
        "quantization_details",
        "kv_cache_quantized",
        "repository",
        "revision",
        "structure",
        "weights",
        "manifest_sha256",
        "problems",
    }
)
WEIGHTS_KEYS = frozenset(
    {
        "total_bytes",
        "by_dtype",
        "by_kind",
        "by_part",
        "scales_by_part",
        "layers",
        "groups",
        "files",
        "tensors",
        "load_format",
        "ignored_files",
    }
)


def refuse_unknown(given: Iterable[str], known: Iterable[str], where: str) -> None:
    """Refuse the first key that is not known, with the closest that is."""
    names = sorted(known)
    for key in given:
        if key in names:
            continue
        closest = difflib.get_close_matches(str(key), names, n=1)
        raise Refusal(
            "option_unknown",
            f"{where}{key} is not known.",
            f"The closest is {where}{closest[0]}." if closest else f"Expected one of {', '.join(names)}.",
            {"option": f"{where}{key}", "closest": f"{where}{closest[0]}" if closest else None},
        )


def refuse_unknown_options(arguments: Mapping[str, Any], spec: Mapping[str, Any], where: str = "") -> None:
    """C(spec) is an argument specification; options that hold options are followed."""
    refuse_unknown(arguments, spec, where)
    for key, value in arguments.items():
        nested = spec[key].get("options")
        if nested is None:
            continue
        if spec[key].get("type") == "list":
            for position, entry in enumerate(value if isinstance(value, (list, tuple)) else ()):
                if isinstance(entry, Mapping):
                    refuse_unknown_options(entry, nested, f"{where}{key}[{position}].")
            continue
        if isinstance(value, (list, tuple, int, float)):
            raise Refusal(
                "option_malformed",
                f"{where}{key} is {value!r}.",
                f"Expected a mapping with keys out of {', '.join(nested)}.",
                {"option": f"{where}{key}"},
            )
        if isinstance(value, Mapping):
            refuse_unknown_options(value, nested, f"{where}{key}.")


def refuse_unknown_model_facts(model: Mapping[str, Any], where: str = "model.") -> None:
    """C(model) as model_info returns it, or a part of it on paper; C(where) is the option that holds it."""
    refuse_unknown(model, MODEL_KEYS, where)
    for key, known in (("attention", _names(Attention)), ("weights", WEIGHTS_KEYS)):
        if isinstance(model.get(key), Mapping):
            refuse_unknown(model[key], known, f"{where}{key}.")


def refuse_unknown_facts(model: Mapping[str, Any], topology: Mapping[str, Any]) -> None:
    """C(model) and C(topology) as model_info and gpu_topology_info return them, or a part of them on paper."""
    refuse_unknown_model_facts(model)
    refuse_unknown(topology, {*_names(machine.Machine), *RESULT_KEYS, "assumptions"}, "topology.")
    if isinstance(topology.get("host"), Mapping):
        refuse_unknown(topology["host"], _names(machine.Host), "topology.host.")
    for key, kind in (("gpus", machine.Gpu), ("numa_nodes", machine.NumaNode)):
        entries = topology.get(key)
        for position, entry in enumerate(entries if isinstance(entries, (list, tuple)) else ()):
            if isinstance(entry, Mapping):
                refuse_unknown(entry, _names(kind), f"topology.{key}[{position}].")


def _names(kind: Any) -> set[str]:
    return {field.name for field in fields(kind)}
