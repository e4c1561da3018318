# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Colours and patterns of a plan's picture.

The solid colours are those of Okabe and Ito (and one of Tol's), which people with any colour vision tell apart; what is
not taken by pools or weights has a pattern or is pale, so that it differs without colour too. The background decides
between two sets of the rest (prefers-color-scheme).
"""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.svg import element

# Kind of a segment -> its fill, and whether text on it is light.
FILLS: dict[str, tuple[str, bool]] = {
    "weights": ("#0072b2", True),
    "kv": ("#e69f00", False),
    "swa": ("#f0e442", False),
    "mamba": ("#009e73", False),
    "indexer": ("#cc79a7", False),
    "draft": ("#d55e00", False),
    "draft_weights": ("#56b4e9", False),
    "c4": ("#e69f00", False),
    "c4_indexer": ("#cc79a7", False),
    "c4_indexer_state": ("#ee99aa", False),
    "c4_state": ("#009e73", False),
    "c128": ("#bbcc33", False),
    "c128_state": ("#44bb99", False),
    "pinned": ("#e69f00", False),
    "held": ("#882255", True),
}
# Kind -> id of its pattern.
PATTERNS = {"reserve": "hatch", "rest": "dots", "driver": "cross", "other": "cross", "idle": "rungs"}
# Kinds that are pale, as nothing takes them.
PALE = ("free", "unused", "spare")
# A pool of a kind that has no colour yet.
_OTHER_POOL = ("#cc79a7", False)

STYLE = """
svg{font-family:system-ui,-apple-system,"Segoe UI","Liberation Sans",Arial,sans-serif}
.ground{fill:#fff}.ink{fill:#1f2328}.dim{fill:#59636e}.title{fill:#1f2328;font-size:20px;font-weight:600}
.head{fill:#1f2328;font-size:15px;font-weight:600}.line{fill:#59636e;font-size:12px}.small{fill:#59636e;font-size:11px}
.label{fill:#1f2328;font-size:12px}.dark{fill:#1f2328;font-size:11px}.light{fill:#fff;font-size:11px}
.on{fill:#1f2328;font-size:11px;paint-order:stroke;stroke:#e2e7ec;stroke-width:3px}.bad{fill:#b3261e;font-size:12px;font-weight:600}
.grid{stroke:#d1d9e0;stroke-width:1}.cut{stroke:#fff;stroke-width:1}.limit{stroke:#1f2328;stroke-width:2}
.short{fill:url(#short)}.pale{fill:#e9edf1}.mark{stroke:#59636e;stroke-opacity:.5}.spot{fill:#59636e;fill-opacity:.6}.under{fill:#e2e7ec}
.warn{stroke:#7a0f0a}
@media (prefers-color-scheme:dark){.ground{fill:#0d1117}.ink,.title,.head,.label,.on{fill:#f0f6fc}
.dim,.line,.small{fill:#9198a1}.grid{stroke:#3d444d}.cut{stroke:#0d1117}.limit{stroke:#f0f6fc}.on{stroke:#2a313c}.pale{fill:#1c222b}
.mark{stroke:#9198a1}.spot{fill:#9198a1}.under{fill:#2a313c}.bad{fill:#ff7b72}}
"""


def definitions() -> str:
    """Patterns, each 8 pixels wide."""

    def pattern(identity: str, *marks: str) -> str:
        ground = element("rect", width=8, height=8, class_="under")
        return element("pattern", [ground, *marks], id=identity, width=8, height=8, patternUnits="userSpaceOnUse")

    def line(path: str, kind: str = "mark") -> str:
        return element("path", d=path, class_=kind, fill="none", stroke_width=1.2)

    rising, falling = "M-2,2 L2,-2 M0,8 L8,0 M6,10 L10,6", "M-2,6 L2,10 M0,0 L8,8 M6,-2 L10,2"
    return element(
        "defs",
        [
            pattern("hatch", line(rising)),
            pattern("cross", line(rising), line(falling)),
            pattern("rungs", line("M0,4 L8,4")),
            pattern("dots", element("circle", cx=4, cy=4, r=1.2, class_="spot")),
            element(
                "pattern",
                [line(falling, "warn")],
                id="short",
                width=8,
                height=8,
                patternUnits="userSpaceOnUse",
            ),
        ],
    )


def paint(kind: str) -> dict[str, str]:
    """Attributes that fill a segment of this kind."""
    if kind in PALE:
        return {"class_": "pale"}
    if kind in PATTERNS:
        return {"fill": f"url(#{PATTERNS[kind]})"}
    return {"fill": FILLS.get(kind, _OTHER_POOL)[0]}


def ink_on(kind: str) -> str:
    """Class of a text on a segment of this kind."""
    if kind in PALE or kind in PATTERNS:
        return "on"
    return "light" if FILLS.get(kind, _OTHER_POOL)[1] else "dark"
