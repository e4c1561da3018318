# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What puts values of /sys into force again at each boot: a script, lists of values, units. Pure texts.

Units and not tmpfiles.d, since that writes a number of huge pages and does not look whether they came. Nothing here
needs a daemon-reload, which would take the GPUs from running containers (NVIDIA/nvidia-container-toolkit#48): a unit is
enabled by its link, and what it does has been done by the role already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansible_collections.gpufleet.sglang.plugins.module_utils.tuning.items import FILE, LINK, Item, file_state

FOLDER = "/usr/local/lib/gpufleet"
SCRIPT = f"{FOLDER}/node-values"
UNITS = "/etc/systemd/system"
EARLY = "gpufleet-huge-pages"
LATE = "gpufleet-node-values"
# Units of the role sglang: what systemd reads for every unit whose name begins so (systemd.unit(5)).
SERVERS = f"{UNITS}/sglang-.service.d/50-gpufleet-node-values.conf"
_HEAD = "# Managed by gpufleet.sglang.node_tuning.\n"

SCRIPT_TEXT = """\
#!/bin/sh
# Managed by gpufleet.sglang.node_tuning.
# node-values LIST: writes each value of the list, and says what did not come. A line is a path, or the PCI address of a
# port behind "acs", and the value.
status=0
say() { printf '<%s>%s\\n' "$1" "$2" >&2; }
while read -r path value rest; do
  case $path in
    '' | '#'*) continue ;;
    acs)
      setpci -s "$value" "ECAP_ACS+6.w=$rest" || { say 3 "ACS of $value could not be set"; status=1; }
      continue
      ;;
  esac
  if [ ! -e "$path" ]; then
    say 4 "$path is not there"
    continue
  fi
  printf '%s\\n' "$value" >"$path" || { say 3 "$path did not take $value"; status=1; continue; }
  case $path in
    */nr_hugepages)
      read -r got <"$path"
      if [ "${got:-0}" -lt "$value" ]; then
        say 3 "$path: ${got:-0} of $value huge pages came; the memory is fragmented or in use"
        status=1
      fi
      ;;
  esac
done <"$1"
exit "$status"
"""

_EARLY_UNIT = """\
# Managed by gpufleet.sglang.node_tuning.
[Unit]
Description=Reserve huge pages while memory is still in one piece
DefaultDependencies=no
RequiresMountsFor={folder}
After=local-fs.target
Before=sysinit.target shutdown.target
Conflicts=shutdown.target
ConditionPathExists={values}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh {script} {values}

[Install]
WantedBy=sysinit.target
"""

# After what may set the same values by ideas of its own.
_LATE_UNIT = """\
# Managed by gpufleet.sglang.node_tuning.
[Unit]
Description=Values of the kernel for inference servers
RequiresMountsFor={folder}
After=systemd-udev-trigger.service tuned.service cpupower.service cpufrequtils.service ondemand.service
ConditionPathExists={values}

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/sh {script} {values}

[Install]
WantedBy=multi-user.target
"""


def _unit(name: str, template: str, target: str, lines: Sequence[str]) -> list[Item]:
    values = f"{FOLDER}/{name}.values"
    text = template.format(folder=FOLDER, script=SCRIPT, values=values)
    return [
        Item(FILE, values, file_state(_HEAD + "".join(f"{line}\n" for line in lines))),
        Item(FILE, f"{UNITS}/{name}.service", file_state(text)),
        Item(LINK, f"{UNITS}/{target}.wants/{name}.service", f"../{name}.service"),
    ]


def boot_items(early: Sequence[str], late: Sequence[str]) -> list[Item]:
    """The files for lines of values; none where there are none."""
    if not early and not late:
        return []
    found = [Item(FILE, SCRIPT, file_state(SCRIPT_TEXT, 0o755))]
    if early:
        found += _unit(EARLY, _EARLY_UNIT, "sysinit.target", early)
    if late:
        found += _unit(LATE, _LATE_UNIT, "multi-user.target", late)
        found.append(Item(FILE, SERVERS, file_state(f"{_HEAD}[Unit]\nAfter={LATE}.service\n")))
    return found


def limits_item(unit: str, limits: Mapping[str, str]) -> Item:
    """The drop-in with the limits of one unit; never the manager's defaults, which would be everybody's."""
    lines = "".join(f"{name}={value}\n" for name, value in sorted(limits.items()))
    return Item(FILE, f"{UNITS}/{unit}.d/90-gpufleet-limits.conf", file_state(f"{_HEAD}[Service]\n{lines}"))
