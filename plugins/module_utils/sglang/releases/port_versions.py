# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which TCP ports each release takes beside the one it is given.

Source: C(PortArgs.init_new) of server_args.py in every wheel from 0.4.7 to 0.5.23, C(get_free_port_below_ephemeral) of
utils/network.py (0.5.22), C(launch_dp_attention_schedulers) of managers/data_parallel_controller.py (0.5.4).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansible_collections.gpufleet.sglang.plugins.module_utils.sglang.releases.versions import Version, parse_version

# Above the port of HTTP, where the port of the collectives and those of the processes begin under attention DP.
DELTA = 233

# Where the collectives meet, when C(--nccl-port) is not given.
NEAR = "near"  # the first that is free of port + 100 to port + 1000, and on in steps beyond
EPHEMERAL = "ephemeral"  # whatever the kernel hands out
BELOW_EPHEMERAL = "below_ephemeral"  # one of 22000 to 29999


@dataclass(frozen=True)
class PortFacts:
    """C(fixed) ports in a row, of the processes under attention DP; C(per_rank): and one for each of its ranks.

    C(turns_back): counts down where counting up would pass 65535, when C(reserved) ports do not fit above.
    """

    rendezvous: str
    fixed: int
    per_rank: bool
    turns_back: bool
    reserved: int = 0


_BEGIN = PortFacts(rendezvous=NEAR, fixed=4, per_rank=True, turns_back=False)
_WITH_METRICS = replace(_BEGIN, fixed=5)
_BOUND_WORKERS = replace(_WITH_METRICS, per_rank=False)
_FREE = replace(_BOUND_WORKERS, rendezvous=EPHEMERAL)
_LOAD_COLLECTOR = replace(_FREE, fixed=6, turns_back=True, reserved=5)
_ONE_MORE = replace(_LOAD_COLLECTOR, reserved=6)
_TABLE: tuple[tuple[str, PortFacts], ...] = (
    ("0.4.7", _BEGIN),
    ("0.4.9", _WITH_METRICS),
    ("0.5.4", _BOUND_WORKERS),
    ("0.5.9", _FREE),
    ("0.5.13", _LOAD_COLLECTOR),
    ("0.5.17", _ONE_MORE),
    ("0.5.22", replace(_ONE_MORE, rendezvous=BELOW_EPHEMERAL)),
)


def port_facts(version: Version) -> PortFacts:
    """Of a release, the newest that was read for any later one."""
    known = [facts for since, facts in _TABLE if parse_version(since) <= version]
    return known[-1] if known else _TABLE[0][1]
