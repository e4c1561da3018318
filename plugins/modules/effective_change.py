#!/usr/bin/python
# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: effective_change
version_added: 0.1.0
short_description: Tell whether what is in force differs from what is rendered
description:
  - A restart of an inference server costs minutes and its cache, so it has to have a reason. This action compares the
    generation that the running process was started from with the generation that was rendered, and reports
    C(changed) only if they differ or the unit does not run.
  - The generation is a digest of everything that only a restart puts into force. The unit carries it in the
    environment variable C(GPUFLEET_GENERATION), from where it is read back from the running process. So a change
    whose restart never came, as when a play was interrupted, is found as well.
  - It changes nothing by itself; notify the handlers that restart and wait.
extends_documentation_fragment:
  - gpufleet.sglang.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details: Says what the change means in tokens, bytes for each NUMA node and seconds.
  platform:
    platforms: linux
options:
  unit:
    description: The systemd unit.
    type: str
    required: true
  sglang_version:
    description: Release of SGLang that is to be in force.
    type: str
    required: true
  generation:
    description: Digest of what was rendered.
    type: str
    required: true
  plan:
    description: The plan that was rendered, as RV(gpufleet.sglang.memory_plan#module:plan) gives it.
    type: dict
    required: true
  ledger_path:
    description: File on the node in which the last proven start is recorded. It may be missing.
    type: path
    required: true
  status:
    description:
      - What M(gpufleet.sglang.startup_status_info) said of the unit a moment ago, with its ledger. The node is not
        asked again then; leave it out where the unit may have been started or stopped since.
    type: dict
  further_reasons:
    description: Reasons for a restart that were found elsewhere, such as another key; none of them is looked into.
    type: list
    elements: str
    default: []
seealso:
  - module: gpufleet.sglang.startup_status_info
  - module: gpufleet.sglang.wait_for_startup
author:
  - gpufleet maintainers (@gpufleet)
"""

EXAMPLES = r"""
- name: Compare what is in force with what is rendered
  gpufleet.sglang.effective_change:
    unit: sglang-main.service
    sglang_version: 0.5.23
    generation: "{{ generation }}"
    plan: "{{ planned.plan }}"
    ledger_path: /var/lib/sglang/main/ledger.json
  notify:
    - Restart SGLang
    - Wait for the startup of SGLang
"""

RETURN = r"""
reasons:
  description: Why a restart is due, empty when none is.
  returned: always
  type: list
  elements: str
  sample:
    - the running process was started from other files, packages or model files than are rendered
meaning:
  description: What the change means, in tokens, bytes and seconds.
  returned: always
  type: list
  elements: str
  sample:
    - "host pool a rank: 0.54 GB -> 0.60 GB"
proven:
  description: Whether the running invocation is the one that the ledger records as proven.
  returned: always
  type: bool
  sample: true
unit:
  description: State of the unit, as RV(gpufleet.sglang.startup_status_info#module:unit) gives it.
  returned: always
  type: dict
  sample:
    active_state: active
    main_pid: 2211
ledger:
  description: The ledger found on the node, empty when there is none.
  returned: always
  type: dict
  sample: {}
"""
