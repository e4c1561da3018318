# shellcheck shell=bash
# Shared by the scripts of this folder: where things lie, and how podman is called. Meant to be sourced.
# shellcheck disable=SC2034  # used by the scripts that source it

root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)

# The node's own settings. Each may be given in the environment, and most as an option of node/up.
name=${GPUFLEET_NODE_NAME:-gpufleet-rehearsal-node}
address=${GPUFLEET_NODE_ADDRESS:-10.213.77.10}
suite=${GPUFLEET_NODE_SUITE:-bookworm}
state=${GPUFLEET_REHEARSAL_STATE:-$root/.build/rehearsal}

# One closed network holds all nodes, those of Molecule's scenarios included.
network=${GPUFLEET_NETWORK:-gpufleet-closed}
subnet=${GPUFLEET_SUBNET:-10.213.77.0/24}
# This machine's own address on that network, by which it reaches the nodes; they get no route through it.
gateway=${subnet%.*}.1

say() { echo "${0##*/}: $*" >&2; }

die() {
  say "$@"
  exit 1
}

podman() { "$root/tools/with-podman" podman "$@"; }

# Each systemd takes some instances of inotify; at the usual 128 of a machine the fifth or sixth node does not boot.
room_for_nodes() {
  local instances=/proc/sys/fs/inotify/max_user_instances wanted=$((128 + 32 * $1))
  [[ $(<"$instances") -lt $wanted ]] || return 0
  { echo "$wanted" >"$instances"; } 2>/dev/null ||
    say "fs.inotify.max_user_instances is $(<"$instances") and cannot be raised to $wanted; some nodes may not boot"
}

in_node() { podman exec "$name" "$@"; }
