# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One look at this machine itself by C(startup_status_info): one_look.py OPTIONS_AS_JSON."""

from __future__ import annotations

import json
import sys

from ansible.module_utils.testing import patch_module_args

from ansible_collections.gpufleet.sglang.plugins.modules import startup_status_info

if __name__ == "__main__":
    with patch_module_args({"sglang_version": "0.5.23", **json.loads(sys.argv[1])}):
        startup_status_info.main()
