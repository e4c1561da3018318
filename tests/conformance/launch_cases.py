# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What the argument resolver of each release is asked about HiCache: cards, models and flags, as a list of cases."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

# Compute capability, and memory in MiB as nvidia-smi prints it.
CARDS = {
    "a100": ((8, 0), 81_920),
    "l40s": ((8, 9), 46_068),
    "h200": ((9, 0), 143_771),
    "b200": ((10, 0), 183_359),
    "rtx-pro-6000": ((12, 0), 97_887),
}
HEADS, LATENT = "llama-3.3-70b", "deepseek-v3"
OTHERS = ("deepseek-v3.2", "gpt-oss-120b", "qwen3-next-80b-a3b", "llama-4-scout", "step-3.5-flash")
IO_BACKENDS = ("direct", "kernel", "kernel_ascend")
LAYOUTS = ("layer_first", "page_first", "page_first_direct", "page_first_kv_split", "page_head")
ON = "--enable-hierarchical-cache"
GROUPS = "--enable-dp-attention --dp-size 8"
DRAFT = "--speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4"


@dataclass(frozen=True)
class LaunchCase:
    """C(base) is what stands there with and without HiCache, C(hicache) are HiCache's own flags; None: it is off."""

    card: str
    model: str
    base: str
    hicache: str | None


def _pairs() -> Iterator[str]:
    yield ""
    for backend, layout in itertools.product((None, *IO_BACKENDS), (None, *LAYOUTS)):
        words = [f"--hicache-io-backend {backend}"] if backend else []
        words += [f"--hicache-mem-layout {layout}"] if layout else []
        if words:
            yield " ".join(words)


FEW_PAIRS = (
    "",
    "--hicache-io-backend direct",
    "--hicache-io-backend direct --hicache-mem-layout layer_first",
    "--hicache-io-backend kernel --hicache-mem-layout page_first_direct",
)
STORED = tuple(
    f"--hicache-io-backend {backend} --hicache-mem-layout {layout} --hicache-storage-backend {storage}"
    for backend in ("direct", "kernel", "kernel_ascend")
    for layout in ("layer_first", "page_first_direct")
    for storage in ("file", "mooncake")
)
SIZES = (
    "--hicache-ratio 1.5",
    "--hicache-size 40",
    "--hicache-size 40 --hicache-ratio 3",
    "--hicache-size -1",
    "--hicache-host-memory-fraction 0.5",
    "--hicache-host-memory-fraction 1.5",
    "--hicache-host-memory-fraction 0.5 --hicache-ratio 3",
    "--hicache-write-policy write_back",
    "--hicache-write-policy write_through_selective",
)
STAGED = "--hicache-host-memory-mode buffer_only"
MODES = (
    STAGED,
    f"{STAGED} --hicache-storage-backend file",
    f"{STAGED} --hicache-storage-backend file --hicache-write-policy write_back",
    f"{STAGED} --hicache-storage-backend file --hicache-ratio 3",
)
# What stands beside --dcp-size and --enable-unified-memory, and HiCache's own flags.
BESIDE = (
    ("--dcp-size 2", "--hicache-storage-backend file"),
    ("--dcp-size 2", "--hicache-storage-backend mooncake"),
    ("--dcp-size 2", f"--hicache-storage-backend file {STAGED}"),
    ("--dcp-size 2 --enable-lmcache", ""),
    (f"--dcp-size 2 --speculative-algorithm EAGLE {DRAFT}", ""),
    ("--enable-unified-memory", "--hicache-mem-layout page_first_direct"),
    (f"--enable-unified-memory --speculative-algorithm EAGLE {DRAFT}", ""),
)
EXCLUDED = ("--disable-radix-cache", "--enable-lmcache", "--dcp-size 2", "--enable-unified-memory")


def cases() -> Iterator[LaunchCase]:
    for card in CARDS:
        bases = ["", "--page-size 64", "--attention-backend triton", "--decode-attention-backend triton"]
        if card in ("a100", "h200"):
            bases += ["--attention-backend fa3", "--decode-attention-backend fa3"]
        for model in (HEADS, LATENT):
            wide = card == "h200"
            for base in bases:
                yield LaunchCase(card, model, base, None)
                for pair in _pairs() if wide and base in ("", "--decode-attention-backend fa3") else FEW_PAIRS:
                    yield LaunchCase(card, model, base, pair)
            for base in (f"--speculative-algorithm EAGLE {DRAFT}", "--speculative-algorithm NGRAM", GROUPS):
                yield LaunchCase(card, model, base, None)
                yield LaunchCase(card, model, base, "")
        for model in OTHERS:
            yield LaunchCase(card, model, "", None)
            for pair in FEW_PAIRS[:2]:
                yield LaunchCase(card, model, "", pair)
    for hicache in (*STORED, *SIZES, *MODES):
        yield LaunchCase("h200", HEADS, "", hicache)
    for model in (HEADS, LATENT):
        for base in (*EXCLUDED, "--pp-size 2"):
            yield LaunchCase("h200", model, base, None)
            yield LaunchCase("h200", model, base, "")
            yield LaunchCase("h200", model, base, "--hicache-io-backend direct")
        for base, hicache in BESIDE:
            yield LaunchCase("h200", model, base, None)
            yield LaunchCase("h200", model, base, hicache)
