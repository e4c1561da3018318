# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a plan does, in sentences for a person who decides whether it may."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import Distribution
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.facts import Plan


def steps_of(plan: Plan, distribution: Distribution) -> tuple[str, ...]:
    if plan.source == "none":
        return (f"Check that release {plan.version or plan.branch} is in force; nothing is installed.",)
    found = []
    if plan.repository is not None:
        print_of_key = plan.repository.key.fingerprint
        where = (plan.repository.deb822 or {}).get("uris", [None])[0] or (plan.repository.yum or {}).get("baseurl")
        found.append(
            f"Configure {where} for {distribution.label}, with the key whose fingerprint is "
            f"{print_of_key[:4]}…{print_of_key[-4:]}."
        )
    found += [f"Have {one.name} enabled: {one.why}" for one in plan.further_repositories]
    if plan.action == "none" and not plan.changes:
        return (*found, f"Nothing else: release {plan.version or plan.branch} is installed and in force.")
    if plan.repair.needed:
        found.append(f"Finish what an interrupted run left of {', '.join(plan.repair.packages)}.")
    if plan.holds.release:
        found.append(f"Let go of the holds of {', '.join(plan.holds.release)}.")
    if plan.module_stream is not None:
        found.append(f"Enable the module stream {plan.module_stream.spec[1:]}, after a reset of another one.")
    if plan.preferences is not None:
        found.append(f"Write {plan.preferences.path}, which keeps apt on {_release(plan)}.")
    if plan.absent:
        found.append(f"Remove {', '.join(one.name for one in plan.absent)}.")
    for transaction in plan.transactions:
        found.append(f"Install {', '.join(transaction.packages)}. {transaction.why}")
    if plan.dkms.kernels:
        found.append(f"Have DKMS build the {plan.flavour.name} modules for {', '.join(plan.dkms.kernels)}.")
    found += [f"Write {file.path}: {file.why}" for file in plan.files]
    if plan.initramfs.needed:
        found.append(f"Make the initramfs of {', '.join(plan.initramfs.kernels)} anew.")
    found += _activation(plan)
    for service in plan.services:
        verb = "Enable and start" if service.state == "started" else "Stop and disable"
        found.append(f"{verb} {service.name}. {service.why}")
    found += [f"Run {' '.join(one.command)}." for one in plan.mig]
    if plan.holds.packages:
        found.append(f"Hold {', '.join(plan.holds.packages)}.")
    if plan.daemon_reload.postpone:
        found.append(f"Do not reload systemd's units. {plan.daemon_reload.reason}")
    return tuple(found)


def _release(plan: Plan) -> str:
    return f"release {plan.version}" if plan.version else f"branch {plan.branch}"


def _activation(plan: Plan) -> list[str]:
    activation = plan.activation
    if activation.method == "reload":
        stop = (
            f"Stop {', '.join(activation.stop)}, unload the old modules and load the new ones. "
            if activation.stop
            else ""
        )
        return [stop + activation.why if stop else f"Unload the old modules and load the new ones. {activation.why}"]
    if activation.method == "load":
        return [f"Load {', '.join(activation.load)}."]
    if activation.method == "reboot":
        return [f"Reboot the host once. {activation.why}"]
    return []
