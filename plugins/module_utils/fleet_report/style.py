# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Colours and layout of the page. States differ by mark and word as well; the colours are those of a plan's picture."""

from __future__ import annotations

from ansible_collections.gpufleet.sglang.plugins.module_utils.picture.style import FILLS, PALE

_UNDER = "background-color:var(--under);background-image:"
_PATTERNS = {
    "reserve": f"{_UNDER}repeating-linear-gradient(135deg,var(--mark) 0 1px,transparent 1px 6px)",
    "rest": f"{_UNDER}radial-gradient(var(--mark) 1px,transparent 1.3px);background-size:6px 6px",
    "driver": f"{_UNDER}repeating-linear-gradient(45deg,var(--mark) 0 1px,transparent 1px 4px)",
    "other": f"{_UNDER}repeating-linear-gradient(45deg,var(--mark) 0 1px,transparent 1px 4px)",
    "idle": f"{_UNDER}repeating-linear-gradient(0deg,var(--mark) 0 1px,transparent 1px 5px)",
}

BASE = """
:root{color-scheme:light dark;--ground:#fff;--ink:#1f2328;--dim:#59636e;--line:#d1d9e0;--soft:#f6f8fa;
  --under:#e2e7ec;--mark:#7d8793;--pale:#e9edf1;--bad:#b3261e;--warn:#8a5300;--good:#00664d;--link:#0b5cad;
  --focus:#0072b2;--actual:#3a4149}
@media (prefers-color-scheme:dark){
  :root{--ground:#0d1117;--ink:#e6edf3;--dim:#9198a1;--line:#30363d;--soft:#161b22;--under:#2a313c;
    --mark:#8b949e;--pale:#1c222b;--bad:#ff7b72;--warn:#e3a33c;--good:#3fbf9b;--link:#6cb6ff;--focus:#58a6ff;
    --actual:#b9c2cc}
}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
  font:14px/1.45 system-ui,-apple-system,"Segoe UI","Liberation Sans",Arial,sans-serif;
  font-variant-numeric:tabular-nums}
main,header,footer{padding:0 24px;max-width:1640px;margin:0 auto}
header{padding-top:20px}
h1{font-size:15px;font-weight:600;margin:0;color:var(--dim)}
h2{font-size:16px;margin:28px 0 8px}
h3{font-size:14px;margin:0 0 6px}
h1 span,h3 span{font-weight:400}
a{color:var(--link)}
code,pre{font:12.5px/1.45 ui-monospace,"Liberation Mono",Menlo,monospace}
.dim,small,footer{color:var(--dim)}
small{margin-left:6px;font-weight:400}
.verdict{border-left:5px solid var(--good);padding:2px 0 2px 14px;margin:12px 0 0}
.verdict.bad{border-color:var(--bad)}
.verdict.watch{border-color:var(--warn)}
.verdict p{margin:4px 0}
.verdict .says{font-size:24px;font-weight:600;line-height:1.25}
.bad>.says b{color:var(--bad)}
.watch>.says b{color:var(--warn)}
.good>.says b{color:var(--good)}
.counts a,.counts span{margin-right:14px;white-space:nowrap}
.verdict .next{margin-top:10px}
.next,.do{max-width:120ch}
code{background:var(--soft);padding:0 3px;border-radius:3px}
table{border-collapse:collapse;width:100%}
th,td{text-align:left;vertical-align:top;padding:4px 10px 4px 0;border-bottom:1px solid var(--line)}
th{font-weight:600}
.n{text-align:right;white-space:nowrap}
td.q{color:var(--dim)}
thead th{color:var(--dim);font-weight:600;font-size:12.5px;vertical-align:bottom}
#nodes thead th{position:sticky;top:0;background:var(--ground);z-index:1;box-shadow:0 1px 0 var(--line)}
thead button{font:inherit;color:inherit;background:none;border:0;padding:0;cursor:pointer;text-align:inherit}
thead th[aria-sort] button{color:var(--ink)}
th[aria-sort=ascending] button::after{content:" ▲";font-size:9px}
th[aria-sort=descending] button::after{content:" ▼";font-size:9px}
tbody>tr>th button{font:inherit;font-weight:600;color:var(--link);background:none;border:0;padding:0;
  cursor:pointer;text-align:left}
tbody>tr>th button::before{content:"▸ ";color:var(--dim)}
tbody>tr>th button[aria-expanded=true]::before{content:"▾ "}
html:not(.js) tbody>tr>th button::before{content:""}
html:not(.js) .js-only{display:none}
tbody.row>tr:first-child:hover{background:var(--soft)}
:focus-visible{outline:2px solid var(--focus);outline-offset:2px;border-radius:2px}
.state{white-space:nowrap}
.state b{display:inline-block;width:1.3em;text-align:center}
.failed,.unreachable,.unread,.error{color:var(--bad)}
.degraded,.unproven,.warning{color:var(--warn)}
.serves{color:var(--good)}
.starting,.stopped,.empty,.info{color:var(--dim)}
.sev{white-space:nowrap}
form{display:flex;gap:18px;align-items:end;flex-wrap:wrap;margin:8px 0 10px}
label{color:var(--dim);font-size:12.5px}
input,select{display:block;font:inherit;font-size:14px;color:var(--ink);background:var(--ground);
  border:1px solid var(--line);border-radius:4px;padding:4px 8px;min-width:16em}
select{min-width:12em}
form button{font:inherit;padding:4px 10px;border:1px solid var(--line);border-radius:4px;background:var(--soft);
  color:var(--ink);cursor:pointer}
output{color:var(--dim);padding-bottom:5px}
.js tr.more:not(.open),.row[hidden]{display:none}
tr.more>td{padding:4px 0 18px 14px;border-left:3px solid var(--line)}
.detail{display:grid;grid-template-columns:repeat(auto-fit,minmax(340px,1fr));gap:18px 40px;max-width:1240px}
.detail .wide{grid-column:1/-1}
.detail p{margin:2px 0 6px;max-width:120ch}
.detail ul{margin:4px 0;padding-left:18px}
.remedy{color:var(--dim)}
.detail td,.detail th{padding:3px 10px 3px 0}
.problems td:nth-child(3){width:100%}
.note{color:var(--warn)}
.bars{table-layout:fixed}
.bars th:first-child{width:210px}
.bars th:nth-child(n+3){width:185px}
.bars th:nth-child(4){width:280px}
.stages th:nth-child(n+3){width:130px}
.stages th:nth-child(5){width:190px}
.bars .sum>*{font-weight:600}
.bar{position:relative;display:flex;height:16px;background:var(--soft)}
.bar i{display:block;height:100%;border-right:1px solid var(--ground)}
.bar u{position:absolute;top:-3px;bottom:-3px;width:2px;background:var(--ink);margin-left:-1px}
.thin{height:5px;margin-top:2px}
.thin i{display:block;height:100%}
.track i{position:absolute;top:2px;bottom:2px;height:auto;border:0}
.k-actual{background:var(--actual)}
.k-stage{background:#0072b2}
.k-stage.open{background:var(--bad);min-width:4px}
.legend{display:flex;flex-wrap:wrap;gap:2px 16px;color:var(--dim);font-size:12.5px}
.sw{display:inline-block;width:14px;height:11px;margin-right:6px;border-radius:2px;vertical-align:-1px}
.sw.k-actual{height:5px;vertical-align:2px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:0}
dt{color:var(--dim)}
dd{margin:0;overflow-wrap:anywhere}
pre{white-space:pre-wrap;overflow-wrap:anywhere;background:var(--soft);padding:8px 10px;margin:0;
  max-height:24em;overflow:auto}
footer{padding-top:24px;padding-bottom:32px;font-size:12.5px}
@media print{
  form,.js-only{display:none!important}
  body{font-size:10px}
  main,header,footer{padding:0;max-width:none}
  #nodes thead th{position:static}
  tr{break-inside:avoid}
  pre{max-height:none}
  *{print-color-adjust:exact;-webkit-print-color-adjust:exact}
}
@media (max-width:900px){
  main,header,footer{padding:0 12px}
  .scroll{overflow-x:auto}
  #nodes thead th{position:static}
}
"""


def style() -> str:
    kinds = [f".k-{kind}{{background-color:{colour}}}" for kind, (colour, _light) in FILLS.items()]
    kinds += [f".k-{kind}{{background-color:var(--pale)}}" for kind in PALE]
    kinds += [f".k-{kind}{{{pattern}}}" for kind, pattern in _PATTERNS.items()]
    # A kind of pool that has no colour yet.
    return f"{BASE}\n:where(.bar i,.sw){{background-color:#cc79a7}}\n{''.join(kinds)}\n"
