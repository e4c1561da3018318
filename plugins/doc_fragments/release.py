# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations


class ModuleDocFragment:
    """Options that describe an environment of SGLang: module_utils/installation/options.py."""

    DOCUMENTATION = r"""
options:
  install_root:
    description: Folder of the environments, which lie below C(releases).
    type: path
    required: true
  version:
    description: Release of SGLang as PyPI has it.
    type: str
    required: true
  device:
    description: What the server computes on; it says how much room an installation from an index takes.
    type: str
    choices: [cuda, cpu]
    default: cuda
  python:
    description:
      - Interpreter that the environment is made from. If not given, C(/usr/bin/python3), or where that is older than
        what SGLang takes, as on RHEL 9, the one that the distribution has beside it.
    type: path
  requirements:
    description:
      - Text of the pins, installed without resolving what they need. Without it a C(requirements.txt) in O(wheelhouse)
        is taken, and without that C(sglang==<version>) is resolved.
    type: str
  installer:
    description: V(auto) takes uv where it is on the node or in O(wheelhouse), else pip.
    type: str
    choices: [auto, pip, uv]
    default: auto
  uv_version:
    description: The uv to install where V(uv) is asked for and is not there. The newest if not given.
    type: str
  wheelhouse:
    description: Folder of wheels on the node. With it no index is asked.
    type: path
  index_url:
    description: Index of packages. That of the node's own settings if not given.
    type: str
  extra_index_urls:
    description: Further indexes, such as those of the wheels of a CUDA line.
    type: list
    elements: str
    default: []
  require_hashes:
    description:
      - Whether every wheel has to have a hash that was known beforehand, from the requirements or from the
        C(SHA256SUMS) of O(wheelhouse). Required with O(wheelhouse) and not without it if not given.
    type: bool
"""
