# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What can be wrong with a third tier of the KV cache: code, severity, meaning, remedy."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "storage_address_malformed": ProblemCode(
        "error", "An address of the storage is none.", "Give a host and a port, as the message says."
    ),
    "storage_address_missing": ProblemCode(
        "error", "The storage is a service, and its address is not given.", "Set it in extra_config."
    ),
    "storage_backend_absent": ProblemCode(
        "error",
        "The release does not have this storage, or not in a way that can be configured.",
        "Take another, or a later release.",
    ),
    "storage_backend_unknown": ProblemCode(
        "error", "The role does not know this storage.", "Take one of those that the message lists."
    ),
    "storage_below_host_pool": ProblemCode(
        "warning",
        "The third tier is smaller than the second, so that it holds little that is not in host memory too.",
        "Raise its cap above the host pools.",
    ),
    "storage_bucket_missing": ProblemCode(
        "error", "Objects are kept in a bucket, and none is named.", "Name it, as the message says."
    ),
    "storage_cap_below_page": ProblemCode(
        "error",
        "The cap is below one page for each that writes, so that nothing would ever be kept.",
        "Raise the cap to what the message computes.",
    ),
    "storage_cap_by_timer": ProblemCode(
        "warning",
        "The release has no cap of its own; a timer of the role holds it, with some delay.",
        "Leave room for what is written in between.",
    ),
    "storage_cap_missing": ProblemCode(
        "error", "No cap is given, and without one the storage would take all there is.", "Give one, in bytes."
    ),
    "storage_compiler_missing": ProblemCode(
        "error",
        "The release compiles what names the pages of its storage, and the node lacks a part of it: pages would "
        "be written and never found.",
        "Add the packages that the message names to sglang_system_packages.",
    ),
    "storage_devices_malformed": ProblemCode(
        "error", "The names of RDMA devices cannot be read.", "Give names with commas, or JSON with a name a rank."
    ),
    "storage_excludes_hicache": ProblemCode(
        "error", "LMCache takes the place of HiCache and cannot be had together with it.", "Keep one of the two."
    ),
    "storage_folder_shared": ProblemCode(
        "error",
        "The folder holds other files, which SGLang would remove when its storage is cleared.",
        "Take a folder of its own.",
    ),
    "storage_in_memory": ProblemCode(
        "warning", "The folder lies in host memory, beside the pools that the plan counts.", "Take a disk."
    ),
    "storage_layout_rewritten": ProblemCode(
        "error",
        "With this storage the server changes the layout of the host pools that was planned.",
        "Ask for the layout that it changes to.",
    ),
    "storage_mixes_stages": ProblemCode(
        "error",
        "The release names the pages of all pipeline stages alike, so that one would be served another's.",
        "Do without pipeline stages, or take a release that tells them apart.",
    ),
    "storage_mount_missing": ProblemCode(
        "error", "What should be mounted is not, and pages would fill the file system below.", "Mount it."
    ),
    "storage_mount_type": ProblemCode(
        "error", "The folder does not lie on the kind of file system that the storage needs.", "Mount that one."
    ),
    "storage_no_files": ProblemCode(
        "error",
        "The file system cannot hold as many files as the cap means pages.",
        "Take larger pages or a lower cap.",
    ),
    "storage_no_rdma": ProblemCode(
        "error", "Pages shall move over RDMA, and the node lacks the device.", "Name one that it has, or take TCP."
    ),
    "storage_no_room": ProblemCode(
        "error", "The cap and what shall stay free do not fit on the file system.", "Lower the cap to what is computed."
    ),
    "storage_option_not_taken": ProblemCode(
        "error", "The storage, or this release of it, does not take an option that is given.", "Leave it out."
    ),
    "storage_option_owned": ProblemCode(
        "error", "extra_config holds what an option of the role decides.", "Set the option."
    ),
    "storage_over_tcp": ProblemCode("info", "Pages move over TCP.", "Take RDMA where the machines have it."),
    "storage_package_missing": ProblemCode(
        "error",
        "The release does not hold the package that the storage imports, so the server would not start.",
        "Pin it in the requirements.",
    ),
    "storage_path_hidden": ProblemCode(
        "error", "The service cannot use this path.", "Take one below /srv, /mnt or /var/lib."
    ),
    "storage_path_missing": ProblemCode("error", "The storage needs a folder, and none is given.", "Give one."),
    "storage_path_no_folder": ProblemCode("error", "The path is there and is no folder.", "Take another."),
    "storage_path_outside_mount": ProblemCode(
        "error", "The folder does not lie below the mount point that it shall lie on.", "Correct one of the two."
    ),
    "storage_plugin_unknown": ProblemCode(
        "error", "No plugin of NIXL that SGLang knows is active.", "Make one active."
    ),
    "storage_read_only": ProblemCode("error", "The file system is mounted read-only.", "Mount it for writing."),
    "storage_said_twice": ProblemCode(
        "error", "Another variable of the role sets what the storage decides.", "Leave it out there."
    ),
    "storage_secret_in_config": ProblemCode(
        "error",
        "The configuration of the storage holds a credential, which the server would print in its journal.",
        "Give it in the environment.",
    ),
    "storage_size_malformed": ProblemCode("error", "A size is no whole number of bytes.", "Give bytes."),
    "storage_small_pages": ProblemCode(
        "warning", "Pages are so small that finding a file costs more than reading it.", "Take pages of 64 tokens."
    ),
    "storage_unbounded": ProblemCode(
        "warning", "The release removes nothing of what this storage keeps.", "Give it a file system of its own."
    ),
    "storage_unreachable": ProblemCode(
        "error", "A service that the storage needs does not answer on the node.", "Start it, or correct its address."
    ),
    "storage_without_hicache": ProblemCode(
        "error", "Storage is a tier below HiCache, which is off.", "Switch HiCache on, or do without storage."
    ),
}
