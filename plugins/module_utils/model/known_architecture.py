# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether a model class is known, planned and served by a release; whatever is not is refused by name.

A wrong guess at a cache is a server that dies after minutes of loading.
"""

from __future__ import annotations

import difflib
from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.architectures import (
    ARCHITECTURES,
    DRAFT_ARCHITECTURES,
    DRAFTS,
    GENERIC_PREFIX,
    INDEX_SINCE,
    UNPLANNED,
    WINDOW_BEFORE_TABLE,
    Architecture,
)
from ansible_collections.gpufleet.sglang.plugins.module_utils.model.attention import FAMILY_SPARSE, Attention
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.pool_versions import pool_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import parse_version


def _planned_like(name: str) -> str:
    """The planned model classes that are spelt most alike; the whole list would be a page."""
    alike = difflib.get_close_matches(name, ARCHITECTURES, n=3, cutoff=0.5)
    return f"Planned are {len(ARCHITECTURES)} model classes" + (f", such as {', '.join(alike)}." if alike else ".")


def known_architecture(name: Any, may_draft: bool = False, where: str = "architectures of config.json") -> Architecture:
    """The row of a model class, or a Refusal that names it; C(may_draft) admits those that only draft.

    C(where) is where the name stands.
    """
    if name is not None and not isinstance(name, str):
        raise Refusal(
            "model_config_malformed",
            f"The architecture is {name!r}, which is not a name.",
            f"Expected the name of a model class in {where}, such as LlamaForCausalLM.",
        )
    if name in ARCHITECTURES:
        return ARCHITECTURES[name]
    if may_draft and name in DRAFT_ARCHITECTURES:
        return DRAFT_ARCHITECTURES[name]
    evidence: dict[str, object] = {"architecture": name}
    if name in UNPLANNED:
        raise Refusal(
            "architecture_unplanned",
            f"Architecture {name} is not planned: it has {UNPLANNED[name]}, which the formulas of this release do not "
            "count.",
            _planned_like(name),
            evidence,
        )
    if name in DRAFTS and may_draft:
        raise Refusal(
            "architecture_unplanned",
            f"The draft model {name} is not planned: the shape of its caches was not read.",
            f"Planned drafts are {', '.join(sorted(DRAFT_ARCHITECTURES))}, and the model classes that serve by "
            "themselves.",
            evidence,
        )
    if name in DRAFTS:
        raise Refusal(
            "architecture_unplanned",
            f"Architecture {name} is a draft model: it serves nobody by itself.",
            "Name the model that it drafts for, and give this one under speculative.model."
            if name in DRAFT_ARCHITECTURES
            else "Name the model that it drafts for; drafts of this class are not planned.",
            evidence,
        )
    if name is not None and name.startswith(GENERIC_PREFIX):
        raise Refusal(
            "architecture_unplanned",
            f"Architecture {name} is SGLang's generic backend, whose caches are those of the model it is given.",
            _planned_like(name),
            evidence,
        )
    closest = difflib.get_close_matches(str(name), ARCHITECTURES, n=1)
    raise Refusal(
        "architecture_unknown",
        f"Architecture {name or 'null'} is not known to this collection, and its KV cache is not guessed.",
        (f"The closest known is {closest[0]}. " if closest else "") + _planned_like(str(name)),
        evidence,
    )


def check_release(name: str, attention: Attention, version: str) -> None:
    """Refuse a model class that a release does not serve, and caches that were not read in it."""
    since, release = ARCHITECTURES[name].since, parse_version(version)
    evidence: dict[str, object] = {"architecture": name, "sglang_version": version, "since": since}
    if release < parse_version(since):
        raise Refusal(
            "architecture_too_new",
            f"SGLang {version} does not serve {name}: its model class begins with {since}.",
            f"Plan for SGLang {since} or newer.",
            evidence,
        )
    pools = pool_facts(version)
    parts = {
        "window layers": attention.window is not None,
        "states": attention.state is not None,
        "index keys": attention.index is not None,
    }
    for part, there in parts.items():
        if there and not (pools.sparse if attention.family == FAMILY_SPARSE else pools.plans_hybrids):
            raise Refusal(
                "architecture_unplanned",
                f"{name} has {part}, whose pools were not read in SGLang {version}.",
                "They are planned from SGLang 0.5.9 on.",
                evidence,
            )
    with_index = INDEX_SINCE.get(name)
    if attention.index is not None and with_index is not None and release < parse_version(with_index):
        raise Refusal(
            "architecture_too_new",
            f"SGLang {version} serves {name} without the index that this model has: it begins with {with_index}.",
            f"Plan for SGLang {with_index} or newer.",
            evidence,
        )
    if name in WINDOW_BEFORE_TABLE and parse_version("0.4.10") <= release < parse_version("0.5.8"):
        raise Refusal(
            "architecture_unplanned",
            f"SGLang {version} gives {name} a window pool by rules that were not read.",
            "Its caches are planned up to 0.4.9, and from 0.5.8 on.",
            evidence,
        )
