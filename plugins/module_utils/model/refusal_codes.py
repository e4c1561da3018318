# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What keeps a model from being read or planned: code, severity, what it means, what to do about it."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "architecture_too_new": ProblemCode(
        "error",
        "The release does not serve this architecture, or not with an index that the model has.",
        "Plan for the release that the message names, or a newer one.",
    ),
    "architecture_unknown": ProblemCode(
        "error",
        "The architecture is not known to this collection, and its KV cache is not guessed.",
        "Look whether the closest name in the message is meant, and plan as it says.",
    ),
    "layout_indivisible": ProblemCode(
        "error",
        "The weights cannot be divided over the ranks in this way.",
        "Choose sizes that the message names.",
    ),
    "model_attention_missing": ProblemCode(
        "error",
        "The model facts have no attention.",
        "Give what model_info returns under model.attention.",
    ),
    "model_config_incomplete": ProblemCode(
        "error",
        "config.json, or the facts made of it, lack a key that the caches depend on, or its value is of another kind.",
        "Complete it as the message says, or copy the model again.",
    ),
    "model_config_malformed": ProblemCode(
        "error",
        "A value of config.json, or of the facts made of it, is one that no model has.",
        "Check config.json, or copy the model again.",
    ),
    "model_file_malformed": ProblemCode(
        "error",
        "A file of the model cannot be what it should be: its size, number or JSON is none that a model has.",
        "Copy the model again.",
    ),
    "model_file_missing": ProblemCode(
        "error",
        "A file of the model is missing.",
        "Copy the model again, or point to the folder that holds it.",
    ),
    "model_file_pointer": ProblemCode(
        "error",
        "A file is a pointer of Git LFS, not the file itself.",
        "Fetch what it points to, with git lfs pull or the hub's own tool.",
    ),
    "model_folder_missing": ProblemCode(
        "error",
        "The folder of the model is missing, or is no folder.",
        "Give the folder that holds config.json and the safetensors files.",
    ),
    "model_index_malformed": ProblemCode(
        "error",
        "The index of the weight files cannot be used.",
        "Copy the model again.",
    ),
    "model_link_dangling": ProblemCode(
        "error",
        "A link in the folder of the model leads to nothing.",
        "Copy the model again, with what its links lead to.",
    ),
    "model_not_readable": ProblemCode(
        "error",
        "The user of the service cannot read the model.",
        "Give that user read access, on folders also the right to enter.",
    ),
    "model_shard_malformed": ProblemCode(
        "error",
        "A weight file is not a whole safetensors file.",
        "Copy this file again.",
    ),
    "model_shard_truncated": ProblemCode(
        "error",
        "A weight file is shorter than its header says.",
        "Copy this file again.",
    ),
    "model_shards_missing": ProblemCode(
        "error",
        "Weight files that the index names are missing.",
        "Copy the model again, or complete it.",
    ),
    "model_snapshot_unclear": ProblemCode(
        "error",
        "The hub cache holds several snapshots, and which is meant is not clear.",
        "Give the folder of one snapshot, or download the model again.",
    ),
    "model_unreadable": ProblemCode(
        "error",
        "The system refuses to read the folder of the model.",
        "Check the folder and the rights of the user that Ansible runs as.",
    ),
    "model_weights_missing": ProblemCode(
        "error",
        "The folder holds no safetensors file.",
        "Give a folder with *.safetensors; other formats are not read.",
    ),
    "model_weights_unsupported": ProblemCode(
        "error",
        "The folder holds weights of another format than safetensors only.",
        "Use a checkpoint in safetensors, or convert this one.",
    ),
}
