# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""How a changed driver comes into force, and whether what uses the GPUs now lets it."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.fabric import Fabric
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.host import GpuProcess, Host
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.problem_codes import problem
from ansible_collections.gpufleet.sglang.plugins.module_utils.driver.request import Request
from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import Problem, Refusal
from ansible_collections.gpufleet.sglang.plugins.module_utils.stack.flavours import IN_THE_WAY

# Each before those that it stands on.
UNLOAD = ("gdrdrv", "nvidia_fs", "nvidia_peermem", "nvidia_drm", "nvidia_modeset", "nvidia_uvm", "nvidia")
LOAD = ("nvidia", "nvidia_uvm")
# Daemons that hold the device files open, in the order in which they are stopped.
_HOLDERS = ("nvidia-dcgm", "nvidia-imex", "nvidia-fabricmanager", "nvidia-persistenced")
_SHOWN = 8


@dataclass(frozen=True)
class Activation:
    """C(method) is none, load, reload or reboot."""

    method: str
    why: str
    stop: tuple[str, ...] = ()
    unload: tuple[str, ...] = ()
    load: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reboot:
    needed: bool
    allowed: bool
    reasons: tuple[str, ...] = ()


def nouveau_in_the_way(host: Host) -> bool:
    """Whether a free driver has GPUs that are meant for NVIDIA's, and not a display card beside them."""
    return any(host.gpus_by_driver.get(name) for name in IN_THE_WAY) and not host.gpus_by_driver.get("nvidia")


def replaces_loaded(host: Host, release: str | None, flavour: str, changes: bool) -> bool:
    """Whether another module is loaded than the one that the plan wants."""
    if not host.loaded.loaded or host.in_container:
        return False
    if release is None:
        return changes
    other = host.loaded.version is not None and host.loaded.version != release
    return other or host.loaded.flavour not in (None, flavour)


def _holders(host: Host, fabric: Fabric) -> tuple[str, ...]:
    there = {
        "nvidia-dcgm": any(package.name.startswith("datacenter-gpu-manager") for package in host.packages or ()),
        "nvidia-imex": fabric.imex,
        "nvidia-fabricmanager": fabric.fabric_manager or bool(host.fabric_manager.running),
        "nvidia-persistenced": bool(host.persistenced.running) or host.persistenced.installed_version is not None,
    }
    return tuple(name for name in _HOLDERS if there[name])


def plan_activation(
    host: Host, asked: Request, fabric: Fabric, release: str | None, flavour: str, changes: bool
) -> tuple[Activation, Reboot]:
    """No reboot where the modules can be exchanged. The GPUs are idle then, or the plan is refused."""
    reasons = []
    if nouveau_in_the_way(host):
        name = next(name for name in IN_THE_WAY if host.gpus_by_driver.get(name))
        held = host.gpus_by_driver[name]
        said = f"{name} is loaded and holds {held} of {len(host.gpus)} GPUs; a console may hang when it is taken out."
        reasons.append(said)
    if reasons:
        return Activation("reboot", " ".join(reasons), load=()), Reboot(True, asked.allow_reboot, tuple(reasons))
    no_reboot = Reboot(False, asked.allow_reboot)
    if replaces_loaded(host, release, flavour, changes):
        now = f"{host.loaded.flavour or 'the'} module of release {host.loaded.version}"
        why = f"The {now} is loaded, and nothing but daemons may use it."
        return Activation("reload", why, _holders(host, fabric), UNLOAD, LOAD), no_reboot
    if host.loaded.loaded:
        return Activation("none", "The module that the plan wants is loaded."), no_reboot
    if host.in_container or not host.gpus:
        why = (
            "This is a container, whose host loads modules." if host.in_container else "There is no GPU to load it for."
        )
        return Activation("none", why), no_reboot
    return Activation("load", "No module of the driver is loaded.", load=LOAD), no_reboot


def check_usage(
    host: Host, asked: Request, activation: Activation, release: str | None
) -> tuple[list[Refusal], list[Problem]]:
    """GPUs in use while their driver would change: what runs goes on with the old module and new programs fail."""
    refusals: list[Refusal] = []
    if activation.method == "reboot" and not asked.allow_reboot:
        refusals.append(
            Refusal(
                "driver_nouveau_without_reboot",
                f"{activation.why} allow_reboot is false.",
                "Set allow_reboot to true, or blacklist nouveau and reboot the host yourself: write 'blacklist "
                "nouveau' and "
                "'options nouveau modeset=0' to a file in /etc/modprobe.d, make the initramfs anew, and reboot.",
                {"gpus_by_driver": dict(host.gpus_by_driver)},
            )
        )
    if activation.method != "reload":
        return refusals, []
    change = f"release {host.loaded.version} is loaded, and the plan is for {release or 'another one'}"
    if host.processes:
        names = [_process(one) for one in host.processes]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        refusals.append(
            Refusal(
                "driver_gpu_in_use",
                f"{len(names)} process{'es' * (len(names) > 1)} on GPUs: {', '.join(names[:_SHOWN])}{more}; {change}.",
                "Drain the host and stop them first; systemctl status PID tells whose unit a process is.",
                {"processes": [{"gpu": one.gpu, "pid": one.pid, "name": one.name} for one in host.processes]},
            )
        )
        return refusals, []
    daemons = bool(host.persistenced.running or host.fabric_manager.running)
    if host.processes is None and host.loaded.in_use and not daemons:
        refusals.append(
            Refusal(
                "driver_gpu_in_use",
                f"Something has NVIDIA's device files open ({host.loaded.reference_count} references to the module), "
                "and "
                f"neither the persistence daemon nor the fabric manager runs; {change}.",
                "Find it with fuser -v /dev/nvidia* and stop it, or give topology, which names the processes.",
                {"reference_count": host.loaded.reference_count},
            )
        )
    problems = []
    if host.processes is None and host.loaded.in_use and daemons:
        message = f"Daemons of the driver hold the module, and whether anything else does is not known; {change}."
        problems.append(problem("driver_usage_unknown", message))
    return refusals, problems


def _process(one: GpuProcess) -> str:
    return f"{one.name or 'unknown'} ({one.pid}, GPU {one.gpu})"
