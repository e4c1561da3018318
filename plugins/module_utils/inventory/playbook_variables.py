# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The variables of the playbooks, beside those of the roles: as an argument specification has them."""

from __future__ import annotations

from typing import Any

from ansible_collections.gpufleet.sglang.plugins.module_utils.inventory.model import Role

_BOOL: dict[str, Any] = {"type": "bool"}
# playbooks/site.yml: what of the chain a host is to get.
SITE = Role(
    "site",
    {**dict.fromkeys(("site_driver", "site_cuda", "site_node_tuning"), _BOOL), "site_strategy": {"type": "str"}},
)
# playbooks/validate.yml.
VALIDATE = Role(
    "validate",
    {
        "validate_hosts": {"type": "str"},
        "validate_fail_at": {"type": "str", "choices": ["never", "info", "warning", "error"]},
        "validate_json": {"type": "path"},
        "validate_plans": _BOOL,
        "validate_surveys": {"type": "path"},
        "validate_queries": {
            "type": "list",
            "elements": "dict",
            "options": {
                "name": {"type": "str", "required": True},
                "query": {"type": "str", "required": True},
                "expect": {"type": "raw"},
                "severity": {"type": "str", "choices": ["info", "warning", "error"]},
                "remedy": {"type": "str"},
            },
        },
    },
)
PLAYBOOKS = (SITE, VALIDATE)
