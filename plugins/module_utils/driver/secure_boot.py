# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Whether the kernel will take the modules that DKMS builds, and how to have it take them.

DKMS signs what it builds with a key of the machine, /var/lib/dkms/mok.key (dkms 3, prepare_mok), on Ubuntu with that of
shim-signed, /var/lib/shim-signed/mok (update-secureboot-policy(8)). The kernel takes it once the certificate has been
enrolled as a machine owner key, which somebody has to confirm at the console while the machine boots (mokutil(1)).
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.distributions import Distribution
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.driver_findings import refuses_unsigned

_DKMS_KEY, _SHIM_KEY = "DKMS module signing key", "Secure Boot Module Signature key"


def _enrolled(host: Host) -> bool | None:
    """Whether a key that DKMS signs with is trusted; None where the kernel shows none of its keys."""
    for kernel in host.concerned_kernels():
        module = kernel.nvidia_module
        if module is None or module.source != "dkms":
            continue
        # What is loaded although the kernel refuses the unsigned is signed with a key that it trusts.
        loaded = kernel.running and host.loaded.loaded and module.signer_trusted is not False
        if loaded or (module.signed and module.signer_trusted):
            return True
    trusted = host.secure_boot.trusted_keys
    if trusted is None:
        return None
    return any(_DKMS_KEY in name or _SHIM_KEY in name for name in trusted)


def enrolment_steps(distribution: Distribution) -> list[str]:
    """What a person does once a machine, in order."""
    if distribution.family == "ubuntu":
        certificate = "/var/lib/shim-signed/mok/MOK.der"
        make = "update-secureboot-policy --new-key"
    else:
        certificate = "/var/lib/dkms/mok.pub"
        make = (
            f'mkdir -p /var/lib/dkms && openssl req -new -x509 -nodes -days 36500 -subj "/CN={_DKMS_KEY}" '
            f"-newkey rsa:2048 -keyout /var/lib/dkms/mok.key -outform DER -out {certificate}"
        )
    return [
        f"Make the key where {certificate} is not there: {make}.",
        f"Ask for its enrolment and choose a password for once: mokutil --import {certificate}.",
        "Reboot, and at the console, in the blue screen of the MOK manager, choose Enroll MOK, Continue, Yes, type the "
        "password, and choose Reboot.",
        f"Check it: mokutil --test-key {certificate} says that it is already enrolled. Then run this again.",
    ]


def check_signatures(
    distribution: Distribution, host: Host, asked: Request, dkms: bool
) -> tuple[list[Refusal], list[Problem]]:
    if not dkms or host.in_container or not refuses_unsigned(host.secure_boot):
        return [], []
    enrolled = _enrolled(host)
    if enrolled:
        return [], []
    demand = _demand(host)
    if asked.assume_signed:
        return [], [problem("driver_signature_assumed", f"{demand}, and assume_signed is true.")]
    found = (
        "the kernel does not show which keys it trusts"
        if enrolled is None
        else "no key that DKMS signs with is among those that the kernel trusts"
    )
    steps = enrolment_steps(distribution)
    others = (
        "set source to distribution, whose modules Canonical has signed" if distribution.family == "ubuntu" else None
    )
    last = f"Or {others}; or switch" if others else "Or switch"
    return [
        Refusal(
            "driver_module_would_be_unsigned",
            f"{demand}, DKMS builds the modules on this host, and {found}.",
            " ".join(f"({number}) {step}" for number, step in enumerate(steps, 1))
            + f" {last} Secure Boot off in the firmware; or set assume_signed to true where you know better.",
            {"steps": steps, "trusted_keys": list(host.secure_boot.trusted_keys or ())},
        )
    ], []


def _demand(host: Host) -> str:
    secure = host.secure_boot
    if secure.lockdown in ("integrity", "confidentiality"):
        return f"The kernel is locked down ({secure.lockdown}) and loads signed modules only"
    if secure.module_sig_enforce:
        return "The kernel loads signed modules only (module.sig_enforce)"
    return "Secure Boot is on, so that the kernel loads signed modules only"
