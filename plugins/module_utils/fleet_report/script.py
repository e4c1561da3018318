# Copyright: (c) 2026, gpufleet maintainers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The script of the page: sorts, filters and opens rows. The page reads without it.

What is shown is in the fragment of the address, so that a view can be shared: C(#state=failed&sort=pinned&dir=desc),
C(q) for a search, C(open) for the row of a node.
"""

from __future__ import annotations

SCRIPT = """
'use strict';
(() => {
const root = document.documentElement, table = document.getElementById('nodes');
root.classList.add('js');
const heads = [...table.tHead.rows[0].cells], rows = [...table.tBodies];
const search = document.getElementById('q'), choice = document.getElementById('state');
const shown = document.getElementById('shown');
const stored = document.getElementById('details');
const details = stored ? JSON.parse(stored.textContent) : null;
const order = [...choice.options].map(option => option.value);
const natural = new Intl.Collator('en', {numeric: true, sensitivity: 'base'});
const told = row => (row.rows[0].textContent + ' ' + (row.dataset.codes || '')).toLowerCase();
const index = new Map(rows.map(row => [row, told(row)]));
const first = new Map(rows.map((row, place) => [row, place]));
let view = {};

const value = (row, column) => {
  const cell = row.rows[0].cells[column], kind = heads[column].dataset.kind;
  if (kind === 'state') return order.indexOf(row.dataset.state);
  const text = cell.dataset.v || cell.textContent;
  if (kind !== 'number') return text === '\\u2013' ? null : text;
  const number = parseFloat(text.replace(/,/g, ''));
  return Number.isNaN(number) ? null : number;
};
const compare = (a, b) => typeof a === 'number' ? a - b : natural.compare(a, b);

let sorted = '';
function sort() {
  const wanted = (view.sort || '') + ' ' + (view.dir || '');
  // Rows are as they should be when the page comes, and moving a thousand takes time.
  if (wanted === sorted || (!sorted && !view.sort)) return;
  sorted = wanted;
  const column = heads.findIndex(head => head.dataset.key === view.sort);
  heads.forEach(head => head.removeAttribute('aria-sort'));
  const moved = [...rows];
  if (column >= 0) {
    const sign = view.dir === 'desc' ? -1 : 1, known = new Map(rows.map(row => [row, value(row, column)]));
    heads[column].setAttribute('aria-sort', sign < 0 ? 'descending' : 'ascending');
    moved.sort((a, b) => {
      const one = known.get(a), other = known.get(b);
      if (one === null || other === null) return (one === null) - (other === null) || first.get(a) - first.get(b);
      return sign * compare(one, other) || first.get(a) - first.get(b);
    });
  }
  const all = document.createDocumentFragment();
  moved.forEach(row => all.append(row));
  table.append(all);
}

function filter() {
  const words = (view.q || '').toLowerCase().split(/\\s+/).filter(Boolean);
  let count = 0;
  for (const row of rows) {
    const meant = !view.state || row.dataset.state === view.state;
    const fits = meant && words.every(word => index.get(row).includes(word));
    row.hidden = !fits;
    count += fits;
  }
  const grouped = number => number.toLocaleString('en');
  shown.textContent = grouped(count) + ' of ' + grouped(rows.length) + ' shown';
}

function open(row, wanted) {
  const button = row.rows[0].querySelector('button');
  let more = row.rows[1];
  if (!more && wanted && details) {
    more = row.insertRow();
    more.className = 'more';
    const cell = more.insertCell();
    cell.colSpan = heads.length;
    cell.innerHTML = details.rows[+row.dataset.place].map(piece => details.pieces[piece]).join('');
  }
  if (more) more.classList.toggle('open', wanted);
  button.setAttribute('aria-expanded', String(wanted));
}

function read() {
  view = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  if (!order.includes(view.state || '')) delete view.state;
  search.value = view.q || '';
  choice.value = view.state || '';
  sort();
  filter();
  for (const row of rows) if (view.open && row.dataset.node === view.open) open(row, true);
}

function write(change) {
  Object.assign(view, change);
  const kept = Object.entries(view).filter(([, said]) => said);
  history.replaceState(null, '', kept.length ? '#' + new URLSearchParams(kept) : location.pathname + location.search);
}

heads.forEach((head, column) => head.querySelector('button').addEventListener('click', () => {
  const again = view.sort === head.dataset.key;
  const numbers = head.dataset.kind === 'number';
  const next = again ? (view.dir === 'desc' ? 'asc' : 'desc') : (numbers ? 'desc' : 'asc');
  write({sort: head.dataset.key, dir: next});
  sort();
}));
table.addEventListener('click', event => {
  const button = event.target.closest('tbody.row > tr > th button');
  if (!button) return;
  const row = button.closest('tbody'), wanted = button.getAttribute('aria-expanded') !== 'true';
  open(row, wanted);
  write({open: wanted ? row.dataset.node : ''});
});
let waiting;
search.addEventListener('input', () => {
  clearTimeout(waiting);
  waiting = setTimeout(() => { write({q: search.value.trim()}); filter(); }, 80);
});
choice.addEventListener('change', () => { write({state: choice.value}); filter(); });
document.getElementById('clear').addEventListener('click', () => { history.replaceState(null, '', '#'); read(); });
search.form.addEventListener('submit', event => event.preventDefault());
addEventListener('hashchange', read);
read();
if (rows.length === 1) open(rows[0], true);
addEventListener('load', () => {
  const height = document.body.offsetHeight, took = Math.round(performance.now());
  root.dataset.openedMs = took;
  document.getElementById('opened').textContent = height ? 'Opened in ' + (took / 1000).toFixed(2) + ' s.' : '';
});
})();
"""
