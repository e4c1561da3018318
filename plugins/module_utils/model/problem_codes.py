# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every problem that reading a model folder can state beside its facts: code, severity, meaning, remedy.

What keeps a folder from being served at all (a missing or truncated file) is no problem of this table: reading fails.
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "model_shards_extra": ProblemCode(
        "warning",
        "Weight files lie in the folder that the index does not name; SGLang does not load them.",
        "Remove what is left over of another download, or complete the index when they belong to the model.",
    ),
    "model_weights_duplicate": ProblemCode(
        "error",
        "Consolidated weights lie beside the usual ones without an index to tell which to load: SGLang loads both, "
        "and the names of one kind do not fit the model.",
        "Remove consolidated*.safetensors, or add model.safetensors.index.json.",
    ),
    "model_tensors_duplicate": ProblemCode(
        "warning",
        "A tensor is in more than one weight file; it is counted once, and the last one that is read wins.",
        "Copy the model again; files of two downloads may be mixed.",
    ),
    "model_index_tensors_missing": ProblemCode(
        "error",
        "The index names tensors that the weight files do not have: those weights would stay uninitialised.",
        "Copy the model again, index and weights of the same revision.",
    ),
    "model_index_tensors_extra": ProblemCode(
        "warning",
        "Weight files hold tensors that the index does not name; SGLang loads them all the same.",
        "Copy the model again, index and weights of the same revision, unless the model is known to be made so.",
    ),
    "model_index_tensors_moved": ProblemCode(
        "warning",
        "Tensors are in another weight file than the index says; SGLang finds them, other tools do not.",
        "Copy the model again, index and weights of the same revision.",
    ),
    "model_index_size_differs": ProblemCode(
        "info",
        "The sum that the index states is not that of the files; it is often left as it was by tools that change a "
        "checkpoint.",
        "Nothing to do where index and files agree otherwise.",
    ),
    "model_download_incomplete": ProblemCode(
        "warning",
        "The hub cache holds parts of files whose download did not end.",
        "Run the download again, or remove the *.incomplete files when another revision left them.",
    ),
    "model_tensor_groups_capped": ProblemCode(
        "warning",
        "The checkpoint has more kinds of tensors than are told apart; the rest are counted as held by every rank.",
        "Nothing to do for a plan; check the file when its names are not those of a model.",
    ),
    "model_quantization_unknown": ProblemCode(
        "warning",
        "The checkpoint is quantised by a method that SGLang 0.5.23 does not list.",
        "Look whether the version to be served knows it; else use another checkpoint of this model.",
    ),
    "model_file_unreadable_json": ProblemCode(
        "warning",
        "A file beside the configuration that may tell the quantisation is not a JSON object.",
        "Copy that file again.",
    ),
}
