# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The page of a fleet in a real browser, as a person or a link would have it."""

from __future__ import annotations

import re
import shutil
import subprocess
import zlib
from html.parser import HTMLParser
from pathlib import Path

import pytest

from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.facts import fleet_facts
from ansible_collections.gpufleet.sglang.plugins.module_utils.fleet_report.page import fleet_page
from ansible_collections.gpufleet.sglang.tests.unit.plugins.module_utils.fleet_report.simulated import (
    SHARES,
    hosts,
    simulated,
)

# Of the page that is opened once, and of the one that is opened again and again.
MANY, NODES = 1000, 100
EVIL = "<script>document.title = 'taken'</script><img src=x onerror=\"document.title = 'taken'\">"


class Dom(HTMLParser):
    """The rows of the table, as the browser has them: name, whether it is shown and open, its cells."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.rows: list[dict[str, str | None]] = []
        self.cells: list[list[str]] = []
        self.sorted_by: dict[str, str] = {}
        self.opened: list[str] = []
        self._cell = False
        self._depth = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag == "tbody" and told.get("class") == "row":
            self.rows.append(told)
            self.cells.append([])
        if tag == "th" and told.get("aria-sort"):
            self.sorted_by[str(told["data-key"])] = str(told["aria-sort"])
        if tag == "tr" and told.get("class") == "more open" and self.rows:
            self.opened.append(str(self.rows[-1]["data-node"]))
        if tag in ("td", "th") and self.rows and len(self.cells[-1]) < 12:
            self.cells[-1].append("")
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self._cell = False

    def handle_data(self, data: str) -> None:
        if self._cell:
            self.cells[-1][-1] += data

    @property
    def shown(self) -> list[str]:
        return [str(row["data-node"]) for row in self.rows if "hidden" not in row]

    def column(self, place: int) -> list[float | None]:
        """The numbers of the rows that are shown."""
        texts = [cells[place] for row, cells in zip(self.rows, self.cells) if "hidden" not in row]
        return [None if text == "–" else float(text.replace(",", "")) for text in texts]

    def said(self, pattern: str) -> str:
        found = re.search(pattern, self.text, re.DOTALL)
        assert found, pattern
        return found[1]


def chromium(page: Path, profile: Path, *arguments: str, fragment: str = "") -> str:
    browser = shutil.which("chromium")
    assert browser, "chromium is not installed: run tools/system-packages"
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
        + [*arguments, f"{page.as_uri()}{fragment and '#'}{fragment}"],
        check=True,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.fixture(scope="module", name="folder")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "many.html").write_text(fleet_page(simulated(MANY)), encoding="utf-8")
    (folder / "fleet.html").write_text(fleet_page(simulated(NODES)), encoding="utf-8")
    (folder / "one.html").write_text(fleet_page(simulated(1)), encoding="utf-8")
    fleet = hosts(3)
    for host in fleet:
        host["inventory_hostname"] += EVIL
        host["report_answer"] = {"failed": True, "msg": EVIL}
    (folder / "evil.html").write_text(fleet_page(fleet_facts(fleet), title=EVIL), encoding="utf-8")
    return folder


def dom(folder: Path, name: str, fragment: str = "") -> Dom:
    return Dom(chromium(folder / name, folder / "profile", "--dump-dom", fragment=fragment))


def test_a_thousand_nodes_open_whole(folder: Path) -> None:
    page = dom(folder, "many.html", "state=serves")
    opened, size = int(page.said(r'data-opened-ms="(\d+)"')), (folder / "many.html").stat().st_size
    elements = len(re.findall(r"<[a-z]", page.text.split("<script", 1)[0]))
    print(f"\n{MANY} nodes: {size / 1e6:.1f} MB, {elements} elements, opened in {opened / 1000:.2f} s")
    assert len(page.rows) == MANY
    assert len(page.shown) == MANY * (100 - sum(SHARES.values())) // 100
    assert f"{len(page.shown)} of 1,000 shown" in page.text
    assert page.said(r"Opened in ([\d.]+) s\.")
    assert (size / MANY, elements / MANY) < (2600, 25)


def test_a_link_sorts(folder: Path) -> None:
    page = dom(folder, "fleet.html", "sort=pinned&dir=desc")
    assert page.sorted_by == {"pinned": "descending"}
    sizes = page.column(7)
    known = [size for size in sizes if size is not None]
    assert len(sizes) == NODES
    # What has no number comes last either way.
    assert known == sorted(known, reverse=True)
    assert sizes[len(known) :] == [None] * (NODES - len(known))
    up = dom(folder, "fleet.html", "sort=pinned&dir=asc").column(7)
    assert up[: len(known)] == sorted(known)
    names = dom(folder, "fleet.html", "sort=node").shown
    assert names[0] < names[-1]
    assert names != page.shown


def test_a_link_filters_by_state_and_by_words(folder: Path) -> None:
    for state in ("failed", "unreachable"):
        page = dom(folder, "fleet.html", f"state={state}")
        assert len(page.shown) == SHARES[state] * NODES // 100
        assert {row["data-state"] for row in page.rows if "hidden" not in row} == {state}
    assert len(dom(folder, "fleet.html", "q=gpu_lost").shown) == SHARES["degraded"]
    page = dom(folder, "fleet.html", "q=kimi+SERVES")
    assert 0 < len(page.shown) < NODES // 2
    assert all("Kimi" in cells[3] for row, cells in zip(page.rows, page.cells) if "hidden" not in row)
    assert dom(folder, "fleet.html", "q=no+such+words").shown == []
    # What is no state shows all.
    assert len(dom(folder, "fleet.html", "state=wrong").shown) == NODES


def test_a_link_opens_a_node(folder: Path) -> None:
    name = dom(folder, "fleet.html", "state=failed").shown[0]
    page = dom(folder, "fleet.html", f"open={name}")
    assert page.opened == [name]
    assert "Last lines of its log" in page.text.split('id="details"')[0]
    one = dom(folder, "one.html")
    assert len(one.opened) == 1


def test_markup_of_others_is_never_run(folder: Path) -> None:
    page = dom(folder, "evil.html")
    assert len(page.rows) == 3
    assert page.said(r"<title>(.*?)</title>").startswith("&lt;script&gt;")
    assert "<img" not in page.text
    assert 'data-opened-ms="' in page.text


def pixels(picture: Path) -> bytes:
    """The colours of a PNG of Chromium's, 8 bits a channel and no interlacing, as they lie in the file."""
    data, at, packed = picture.read_bytes(), 8, b""
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += 12 + size
    return zlib.decompress(packed)


def test_light_and_dark(folder: Path) -> None:
    first = {}
    for name, number in (("light", 1), ("dark", 0)):
        picture = folder / f"{name}.png"
        scheme = f"--blink-settings=preferredColorScheme={number}"
        chromium(folder / "one.html", folder / "profile", f"--screenshot={picture}", "--window-size=1400,900", scheme)
        # Behind the byte that tells how the first line is packed, the colour of the corner.
        first[name] = tuple(pixels(picture)[1:4])
    assert first["light"] == (255, 255, 255)
    assert first["dark"] == (13, 17, 23)
