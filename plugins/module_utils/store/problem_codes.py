# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every problem and refusal of the model store: code, severity, what it means, what to do about it."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.problems import ProblemCode

CODES: dict[str, ProblemCode] = {
    "store_current_taken": ProblemCode(
        "error",
        "A file or folder has the name that the store needs for its link to the revision in use.",
        "Move it away.",
    ),
    "store_damaged": ProblemCode(
        "error",
        "Files of a revision are not what its manifest says, and no source was given to repair them from.",
        "Run model_snapshot with a source: it fetches the damaged files, and no other.",
    ),
    "store_digest_invalid": ProblemCode(
        "error", "content_sha256 is no SHA-256.", "Give 64 lower-case hexadecimal digits."
    ),
    "store_disk_failed": ProblemCode(
        "error",
        "The disk refused to read or write a file of the store.",
        "Look at the kernel's log and at the free space; the next run goes on with what is there.",
    ),
    "store_disk_files": ProblemCode(
        "error", "The file system has too few inodes left for the model.", "Remove files, or use another file system."
    ),
    "store_disk_full": ProblemCode(
        "error",
        "What is missing of the model and the reserve do not fit on the disk.",
        "Free as much as the message says; model_prune lists revisions that no unit uses.",
    ),
    "store_fetch_failed": ProblemCode(
        "error",
        "A file could not be fetched within the attempts that it has.",
        "Do as the message says; what was fetched is kept, and the next run goes on from there.",
    ),
    "store_hub_answer": ProblemCode(
        "error",
        "An endpoint did not answer as the hub's API does, or with another commit than the one asked for.",
        "Check the endpoint, or use another.",
    ),
    "store_index_incomplete": ProblemCode(
        "error",
        "The source lacks weight files that its own index names; some releases of SGLang load such a model and serve "
        "garbage.",
        "Complete the source, or correct include and exclude.",
    ),
    "store_manifest_malformed": ProblemCode(
        "error", "A manifest or a list of sums cannot be used.", "Make it anew from a model that is known to be whole."
    ),
    "store_model_missing": ProblemCode(
        "error",
        "The store has no such revision, and no source to fetch it from was given.",
        "Give a source, or a revision that the message names.",
    ),
    "store_name_invalid": ProblemCode(
        "error", "A name cannot be that of a folder of the store.", "Use the name that the message proposes."
    ),
    "store_owner_unknown": ProblemCode(
        "error", "The group that is to read the models is not known on the node.", "Create it first, or name another."
    ),
    "store_prune_busy": ProblemCode(
        "error", "Another run is removing revisions or publishing one.", "Run it again when that has ended."
    ),
    "store_revision_differs": ProblemCode(
        "error",
        "A revision of this name is in the store with another content than the source or content_sha256 says. "
        "Revisions never change.",
        "Give the other content another revision, or remove the one in the store.",
    ),
    "store_revision_not_exact": ProblemCode(
        "error", "A branch or tag of the hub may be another model tomorrow.", "Give the commit, 40 digits."
    ),
    "store_root_invalid": ProblemCode("error", "The store's root is no absolute path.", "Give one."),
    "store_safetensors_malformed": ProblemCode(
        "error",
        "A weight file came as the source has it, and is not a whole safetensors file.",
        "Have the source repaired: it is damaged there.",
    ),
    "store_share_failed": ProblemCode(
        "error", "The server for other nodes did not come up.", "Look at its unit's journal; the message names it."
    ),
    "store_source_broken": ProblemCode(
        "error", "A file of the source folder cannot be read.", "Complete the folder, or use another source."
    ),
    "store_source_corrupt": ProblemCode(
        "error",
        "A place sent a file with other bytes than the manifest says, as often as is tried. The same wrong bytes each "
        "time are a damaged copy; other ones each time are altered on the way.",
        "Have that place repaired, or give another one; the other files are kept.",
    ),
    "store_source_differs": ProblemCode(
        "error",
        "The source has another content than content_sha256 says.",
        "Check which of the two is meant; nothing was fetched.",
    ),
    "store_source_empty": ProblemCode(
        "error", "The source has no file that is wanted.", "Check the address, include and exclude."
    ),
    "store_source_invalid": ProblemCode(
        "error", "A folder, URL or repository of the source is none.", "Give one as the message shows."
    ),
    "store_source_secret": ProblemCode(
        "error", "A URL carries a user or a password, which would show in logs.", "Use token or token_file."
    ),
    "store_source_unclear": ProblemCode("error", "More than one kind of source is given.", "Give one."),
    "store_source_unreachable": ProblemCode(
        "error",
        "No place of the source answered with a list of its files.",
        "Check the address, the token and the way to it from the node.",
    ),
    "store_strange_files": ProblemCode(
        "warning",
        "Files lie in a revision that its manifest does not name; SGLang may load them.",
        "Look who put them there, and remove them.",
    ),
    "store_sums_unknown": ProblemCode(
        "warning",
        "The source states no sums, so that what came could only be held against its sizes and its own headers. Its "
        "sums are recorded as they came.",
        "Put a SHA256SUMS beside the files, or a manifest of this store.",
    ),
    "store_systemd_missing": ProblemCode(
        "error", "The node cannot start a transient unit.", "Boot it with systemd, and become root."
    ),
    "store_token_missing": ProblemCode(
        "error", "The file with the token cannot be read.", "Put it there, readable by root alone."
    ),
    "store_worker_lost": ProblemCode(
        "error",
        "The worker on the node ended without a word, as often as it was started again.",
        "Look at its unit's journal, and at the memory and the kernel's log of the node.",
    ),
    "store_worker_stopped": ProblemCode(
        "error", "The worker was stopped on the node.", "Run it again: it goes on with what is there."
    ),
}
