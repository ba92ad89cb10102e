// What a flame graph looks like and how it answers to the mouse: its style and its script.
#pragma once

namespace tracesmith::trace {

/// Of frames on the CPU, waiting, native ones of both; differences; light and dark.
inline constexpr const char* kFlameStyle = R"(
:root, svg { --back: #ffffff; --ink: #202124; --dim: #5f6368; --edge: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root, svg { --back: #17191d; --ink: #e8eaed; --dim: #9aa0a6; --edge: #17191d; }
}
#back { fill: var(--back); }
text { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; fill: var(--ink); }
#title { font-size: 16px; font-weight: 600; }
.dim { fill: var(--dim); }
.f { cursor: pointer; }
.f text { font-size: 11.5px; fill: #16181b; pointer-events: none; }
.f rect { stroke: var(--edge); stroke-width: 0.6px; }
.f:hover rect { stroke: var(--ink); stroke-width: 1.6px; }
.c0 { fill: #f6b26b; } .c1 { fill: #f2a35e; } .c2 { fill: #f4c078; } .c3 { fill: #eb9b63; } .c4 { fill: #f7c98c; }
.w0 { fill: #9fc0e8; } .w1 { fill: #8fb4e0; } .w2 { fill: #aecbee; } .w3 { fill: #86abdc; } .w4 { fill: #b9d3f0; }
.n0 { fill: #e08a76; } .n1 { fill: #d97f6e; } .n2 { fill: #e69983; } .n3 { fill: #d37766; } .n4 { fill: #eaa590; }
.v0 { fill: #a5a9d8; } .v1 { fill: #999dd0; } .v2 { fill: #b1b5df; } .v3 { fill: #9094c8; } .v4 { fill: #bdc0e6; }
.g { fill: #c3c7cc; } .r { fill: #e5533d; } .b { fill: #3d7de5; }
.under { fill: #e4e6e9; }
.m rect { fill: #c678dd; }
.m rect.b, .m rect.r, .m rect.g { fill-opacity: 1; }
.up { opacity: 0.55; }
.tools { font: 12px system-ui, -apple-system, "Segoe UI", sans-serif; display: flex; gap: 6px; justify-content: flex-end; color-scheme: light dark; }
.tools input { width: 150px; }
)";

inline constexpr const char* kFlameScript = R"(
(function () {
  var script = document.currentScript, root = (script && script.ownerSVGElement) || document.documentElement;
  var one = function (id) { return root.querySelector('#' + id); };
  var names = root.dataset.names.split('|'), scale = [+root.dataset.la, +root.dataset.lb], diff = root.dataset.diff === '1';
  var path = [], all = Array.prototype.map.call(root.querySelectorAll('svg.f'), function (e, i) {
    var n = { e: e, i: i, d: +e.dataset.d, v: [+e.dataset.a, +e.dataset.b], text: e.querySelector('text') };
    n.name = n.text.textContent;
    path.length = n.d;
    n.parent = path[n.d - 1];
    path.push(n);
    e.querySelector('title').remove();  // the line above the frames tells more
    return n;
  });
  var zoom = all[0], mode = 'all', words = null;
  function share(n, k) { return scale[k] ? n.v[k] / scale[k] : 0; }
  function weight(n) { return mode === 'all' ? share(n, 0) + share(n, 1) : share(n, mode === 'first' ? 0 : 1); }
  function percent(part, whole) { return whole > 0 ? (100 * part / whole).toFixed(part / whole < 0.1 ? 2 : 1) + ' %' : '–'; }
  function layout() {
    var whole = weight(zoom), above = [], width = root.getBoundingClientRect().width || window.innerWidth;
    for (var p = zoom; p; p = p.parent) above.push(p);
    all.forEach(function (n) {
      n.shown = false;
      if (above.indexOf(n) >= 0) { n.x = 0; n.w = 1; n.shown = true; }
      else if (n.parent.shown && (n.parent === zoom || !n.parent.over) && whole > 0) {
        n.x = n.parent.next; n.w = weight(n) / whole; n.parent.next += n.w; n.shown = n.w > 0;
      }
      n.over = n !== zoom && above.indexOf(n) >= 0;
      n.next = n.x;
      n.e.style.display = n.shown ? '' : 'none';
      if (!n.shown) return;
      n.e.setAttribute('x', 100 * n.x + '%');
      n.e.setAttribute('width', 100 * n.w + '%');
      n.e.classList.toggle('up', n.over);
      n.text.style.display = n.w * width < 28 ? 'none' : '';
    });
    found();
  }
  function found() {
    var sum = 0;
    all.forEach(function (n) {
      n.hit = words !== null && words.test(n.name);
      n.inside = n.parent && (n.parent.hit || n.parent.inside);
      n.e.classList.toggle('m', n.hit);
      if (n.hit && !n.inside) sum += weight(n);
    });
    one('found').textContent = words === null ? '' : 'found in ' + percent(sum, weight(all[0]));
  }
  function tell(n) {
    if (!n) { one('detail').textContent = one('detail').dataset.rest; return; }
    var t = n.name + ' — ';
    if (diff)
      t += names[0] + ': ' + percent(share(n, 0), 1) + ' of its time (' + n.v[0] + '), ' + names[1] + ': ' + percent(share(n, 1), 1) + ' (' + n.v[1] + ')';
    else
      t += (n.v[0] + n.v[1]) + (n.v[0] + n.v[1] === 1 ? ' sample, ' : ' samples, ') + percent(n.v[0] + n.v[1], all[0].v[0] + all[0].v[1]) + ' of all; ' +
        percent(n.v[0], n.v[0] + n.v[1]) + ' of them on CPU' +
        (zoom !== all[0] ? '; ' + percent(weight(n), weight(zoom)) + ' of what is shown' : '');
    one('detail').textContent = t;
  }
  function nodeAt(target) {
    var e = target.closest ? target.closest('svg.f') : null;
    return e ? all.find(function (n) { return n.e === e; }) : null;
  }
  function search(text) {
    words = null;
    if (text) try { words = new RegExp(text, 'i'); } catch (e) { words = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'i'); }
    found();
  }
  function reset() { zoom = all[0]; layout(); }
  root.addEventListener('click', function (e) { var n = nodeAt(e.target); if (n) { zoom = n; layout(); tell(n); } });
  root.addEventListener('mousemove', function (e) { tell(nodeAt(e.target)); });
  window.addEventListener('resize', layout);
  window.addEventListener('keydown', function (e) {
    var typing = e.target === one('search');
    if (e.key === 'Escape') { one('search').value = ''; search(''); reset(); }
    else if (e.key === '/' && !typing) { one('search').focus(); e.preventDefault(); }
  });
  one('search').addEventListener('input', function () { search(this.value); });
  one('mode').addEventListener('change', function () { mode = this.value; layout(); });
  one('reset').addEventListener('click', reset);
  layout();
})();
)";

}  // namespace tracesmith::trace
