#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: model_info
version_added: 0.1.0
short_description: Read what a model folder holds
description:
  - Reads C(config.json), the safetensors index and the headers of the safetensors files of a model folder, and returns
    what a memory plan needs, with what is missing, truncated or left over named.
  - Takes a folder of the hub's cache as it is, the one of a snapshot or the one above all snapshots, whose
    C(refs/main) is then followed.
  - Takes the files that SGLang would load, as it chooses them, and tells which it would not.
  - Reads headers only, never the weights themselves, so that hundreds of GB take seconds.
  - Fails when the folder or its C(config.json) is missing, when a weight file is missing, truncated, a pointer of Git
    LFS or not what it claims, when there are weights in other formats only, and when O(readable_by) cannot read it.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  platform:
    platforms: linux
options:
  path:
    description: Folder of the model, or C(models--org--name) of a hub cache.
    type: path
    required: true
  readable_by:
    description:
      - User that has to be able to read the folder, judged by mode bits and ownership.
      - A user that does not exist yet is judged as one of no group.
    type: str
author:
  - gpufleet maintainers (@gpufleet)
seealso:
  - module: gpufleet.sglang.memory_plan
"""

EXAMPLES = r"""
- name: Read the model
  gpufleet.sglang.model_info:
    path: /srv/models/Qwen3-32B
    readable_by: sglang
  register: model_read
"""

RETURN = r"""
model:
  description: Facts of the model. Sizes are in bytes; what is not known is null.
  returned: success
  type: dict
  contains:
    path:
      description: The folder to serve from; of a hub cache that of the snapshot.
      type: str
      sample: /srv/models/rehearsal-llama
    name:
      description: Name of the folder, or of the model in a hub cache.
      type: str
      sample: rehearsal-llama
    repository:
      description: Repository of a folder in a hub cache, such as C(org/name).
      type: str
      sample: null
    revision:
      description: Revision of a folder in a hub cache.
      type: str
      sample: null
    architecture:
      description: First architecture that the configuration names.
      type: str
      sample: LlamaForCausalLM
    model_type:
      description: Model type of the configuration.
      type: str
      sample: llama
    attention:
      description:
        - What the size of the caches depends on. Null for architectures whose cache is not planned, which
          RV(model.problems) then tells.
        - C(family) is V(mha), V(gqa), V(mqa), V(mla), V(dsa) (latents with an index), V(swa) (window layers), V(linear)
          or V(linear_mla) (state layers), V(sparse) (heads with an index) or V(compressed) (a window of every layer and
          rows that stand for several tokens). C(num_layers) counts all layers.
        - C(full_layers) are the numbers of those that keep every token, null where all do.
        - C(window) tells of the layers that keep only a window (C(layers), C(num_kv_heads), C(head_dim), C(v_head_dim),
          C(tokens)).
        - C(index) tells of the keys by which sparse attention chooses (C(layers), C(head_dim), C(value_layers)).
        - C(state) tells of the layers that keep a state for each request (C(layers), C(intermediate_size),
          C(num_groups), C(num_heads), C(head_dim), C(state_size), C(conv_kernel), C(dtype)).
        - C(compressed) tells of the layers with one row for several tokens (C(ratios) by layer, 0 for those with a
          window only, C(rope_head_dim), C(index_head_dim), C(window_tokens)).
      type: dict
      sample:
        family: gqa
        num_layers: 4
        num_attention_heads: 4
        num_kv_heads: 2
        head_dim: 128
        v_head_dim: 128
        kv_lora_rank: null
        qk_rope_head_dim: null
        full_layers: null
        window: null
        index: null
        state: null
        compressed: null
    vision:
      description:
        - The size of the vision tower as SGLang counts it when it leaves room for one (C(num_hidden_layers),
          C(hidden_size); both null for a model that only hears). Null where config.json does not tell, and for models
          of language alone.
      type: dict
      sample: null
    hidden_size:
      description: Width of the model.
      type: int
      sample: 256
    vocab_size:
      description: Size of the vocabulary.
      type: int
      sample: 320
    max_position_embeddings:
      description: Longest context in tokens.
      type: int
      sample: 8192
    dtype:
      description: Data type that SGLang computes in when left to itself.
      type: str
      sample: bfloat16
    quantization:
      description: Quantisation method of the checkpoint, as it names it.
      type: str
      sample: null
    quantization_details:
      description:
        - How the checkpoint is quantised, null where it is not. What it does not say is null.
        - Read from C(quantization_config), that of the language model, C(compression_config), C(hf_quant_config.json)
          of ModelOpt or C(quant_model_description.json) of ModelSlim, in this order, as SGLang does.
      type: dict
      contains:
        method:
          description: SGLang's name of the method, such as V(fp8), V(compressed-tensors) or V(modelopt_fp4).
          type: str
          sample: compressed-tensors
        declared:
          description: The checkpoint's name of it.
          type: str
          sample: compressed-tensors
        source:
          description: Where it was read.
          type: str
          sample: quantization_config
        known_to_sglang:
          description: Whether SGLang lists the method.
          type: bool
          sample: true
        weight_bits:
          description: Bits of one weight.
          type: int
          sample: 4
        weight_type:
          description: V(int), V(float), or a name such as V(nf4).
          type: str
          sample: int
        strategy:
          description: What one scale is for, such as V(tensor), V(channel), V(group) or V(block).
          type: str
          sample: group
        group_size:
          description: Weights of one scale along a row.
          type: int
          sample: 32
        block:
          description: Rows and columns of one scale.
          type: list
          elements: int
          sample: null
        symmetric:
          description: Whether there are no zero points.
          type: bool
          sample: true
        act_order:
          description: Whether GPTQ reordered the columns (C(desc_act)).
          type: bool
          sample: null
        format:
          description: How weights are packed, or their number format.
          type: str
          sample: pack-quantized
        activation_bits:
          description: Bits of one activation where activations are quantised too.
          type: int
          sample: null
        activation_type:
          description: V(int) or V(float).
          type: str
          sample: null
        activation_dynamic:
          description: Whether the scales of activations are computed while serving.
          type: bool
          sample: null
        groups:
          description:
            - One rule for each kind of module where the checkpoint has rules, with C(targets) (classes, names or
              patterns) and the fields above. The fields above are those of the first rule.
          type: list
          elements: dict
          sample: []
        unquantized:
          description: Names or patterns of what is left as it was, at most 512.
          type: list
          elements: str
          sample: [lm_head, "re:.*self_attn.*"]
        lm_head_quantized:
          description: Whether the head is quantised, where the checkpoint says so.
          type: bool
          sample: null
        kv_cache_bits:
          description: Bits of one element of the KV cache that the checkpoint has scales for.
          type: int
          sample: null
        kv_cache_type:
          description: V(int) or V(float).
          type: str
          sample: null
        kv_cache_scheme:
          description: Its scheme, as the checkpoint names it.
          type: str
          sample: null
    kv_cache_quantized:
      description: Whether the checkpoint asks for a quantised KV cache.
      type: bool
      sample: false
    structure:
      description: Counts and sizes of the language model that decide how weights are split over ranks.
      type: dict
      sample:
        num_layers: 4
        num_attention_heads: 4
        num_kv_heads: 2
        head_dim: 128
        vocab_size: 320
        hidden_size: 512
        num_experts: null
        num_shared_experts: null
        num_nextn_layers: null
        max_position_embeddings: 8192
        rotary_dim: 128
        tied: false
    weights:
      description:
        - What the weight files hold that SGLang would load, each tensor counted once.
        - C(by_kind) is the coarse view of C(by_part), whose parts are V(embedding), V(lm_head), V(attention),
          V(dense), V(expert), V(shared_expert), V(router), V(norm), V(vision), V(audio), V(projector), V(mtp) (layers
          that only speculation loads) and V(other). Scales count with what they scale; C(scales_by_part) has them
          alone.
        - C(layers) has the bytes of each decoder layer, neighbours that are alike in one entry.
        - C(groups) has tensors that differ only in their layer's or expert's number (C(*) in the name), with the
          layers they are in (first and last of each run) and how many there are in each (C(per_layer)).
        - C(load_format) is V(mistral) for folders that hold Mistral's own files only, else V(auto).
        - C(ignored_files) are weight files that SGLang does not load, with the reason.
      type: dict
      sample:
        total_bytes: 6623744
        by_dtype: {BF16: 6623744}
        by_kind: {attention: 3145728, dense: 3145728, embedding: 327680, norm: 4608}
        by_part: {attention: 3145728, dense: 3145728, embedding: 163840, lm_head: 163840, norm: 4608}
        scales_by_part: {}
        layers:
          - first: 0
            last: 3
            layer_bytes: 1573888
            by_part: {attention: 786432, dense: 786432, norm: 1024}
        groups:
          - name: model.layers.*.self_attn.q_proj.weight
            part: attention
            scale: false
            dtype: BF16
            shape: [512, 256]
            tensor_bytes: 262144
            layers: [[0, 3]]
            per_layer: 1
        files: 2
        tensors: 39
        load_format: auto
        ignored_files: []
    manifest_sha256:
      description:
        - Digest over names, sizes and headers of the weight files and over the configuration; it changes when the model
          does, without reading the weights.
      type: str
      sample: 6dc9d5a9e54fb31c3282e869ca090292e69de8dcf270859b97abdadc78bef2f2
    problems:
      description: What is allowed but should be known, each with C(code), C(severity), C(message) and C(remedy).
      type: list
      elements: dict
      sample: []
failure:
  description: What is wrong with the folder, with C(code), C(message), C(remedy) and C(evidence).
  returned: failure
  type: dict
  sample:
    code: model_shards_missing
    message: /srv/models/Qwen3-32B lacks 1 of 17 weight files that its index names, model-00004-of-00017.safetensors.
    remedy: Copy the model again, or complete it.
    evidence: {missing: [model-00004-of-00017.safetensors]}
"""

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gpufleet.sglang.plugins.module_utils.model.folder_facts import read_model, unreadable_folder
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Refusal


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "required": True},
            "readable_by": {"type": "str"},
        },
        supports_check_mode=True,
    )
    try:
        model = read_model(Path(module.params["path"]), module.params["readable_by"])
    except Refusal as refusal:
        module.fail_json(msg=str(refusal), failure=refusal.as_dict())
    except OSError as error:
        unreadable = unreadable_folder(module.params["path"], error)
        module.fail_json(msg=str(unreadable), failure=unreadable.as_dict())
    module.exit_json(changed=False, model=model)


if __name__ == "__main__":
    main()
