// SPDX-License-Identifier: Apache-2.0
#include "exporter/web/status_assets.h"

namespace roce {

// Contrasts: text at least 4.5 to 1 on its ground in both schemes, edges of boxes and lines 3 to 1.
const std::string_view kStatusStyle = R"css(
:root{color-scheme:light dark;--ground:#fff;--raised:#f5f6f8;--text:#14181d;--soft:#4e5761;--line:#c9ced6;--edge:#7b8591;
--bad:#a3130f;--bad-ground:#fdeceb;--warn:#7a4b00;--warn-ground:#fff4dc;--good:#12602f;--good-ground:#e5f5ea;--chart:#1f5fa8;
--unknown:#5b2a86;--unknown-ground:#f3eafa}
@media(prefers-color-scheme:dark){:root{--ground:#101418;--raised:#1a2027;--text:#e8ebee;--soft:#a5aeb8;--line:#353d46;--edge:#828d99;
--bad:#ff9a91;--bad-ground:#45130f;--warn:#ffc766;--warn-ground:#3d2a05;--good:#84dfa3;--good-ground:#0f3320;--chart:#7db8ff;
--unknown:#d5b0f5;--unknown-ground:#33194a}}
*{box-sizing:border-box}
body{font:16px/1.5 system-ui,sans-serif;margin:0 auto;max-width:84rem;padding:1rem 1.25rem 3rem;background:var(--ground);color:var(--text)}
h1{font-size:1.05rem;margin:0;font-weight:600}h2{font-size:1.15rem;margin:2rem 0 .6rem}h3{font-size:1.05rem;margin:0}
p{margin:.3rem 0}a{color:inherit}:focus-visible{outline:3px solid var(--chart);outline-offset:2px}
.hidden{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
a.skip:not(:focus){position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
header{display:flex;flex-wrap:wrap;gap:.2rem 1rem;align-items:baseline;justify-content:space-between}
header nav a{margin-left:1rem}header nav a:first-child{margin-left:0}
.note,.soft{color:var(--soft)}.note{font-size:.875rem}
.bar{display:flex;flex-wrap:wrap;gap:.25rem .9rem;align-items:center;color:var(--soft);font-size:.875rem;margin:.5rem 0 0}
.live{display:inline-flex;gap:.5rem;align-items:center}
button{font:inherit;color:var(--text);background:var(--raised);border:1px solid var(--edge);border-radius:6px;padding:.15rem .7rem;min-height:1.75rem}
.recording{border:1px dashed var(--edge);border-radius:8px;padding:.4rem .8rem;margin:.6rem 0 0}
.verdict{display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;align-items:center;border-radius:12px;border:2px solid;padding:.9rem 1.3rem;margin:.7rem 0 0}
.verdict .word{font-size:2.1rem;line-height:1.15;font-weight:750;letter-spacing:.01em;margin:0;text-transform:uppercase}
.verdict .why{flex:1 1 20rem;color:var(--text)}.verdict .why strong{font-size:1.2rem;display:block;line-height:1.35}
.verdict.critical{color:var(--bad);background:var(--bad-ground)}.verdict.warning{color:var(--warn);background:var(--warn-ground)}
.verdict.ok{color:var(--good);background:var(--good-ground)}.verdict.unknown{color:var(--unknown);background:var(--unknown-ground)}
.verdict.idle{color:var(--soft);background:var(--raised)}
.lost .verdict{filter:grayscale(1)}
.badge{display:inline-block;border:1px solid;border-radius:999px;font-size:.8rem;font-weight:650;line-height:1.35;padding:0 .6rem;white-space:nowrap}
.badge.critical,.bad{color:var(--bad)}.badge.warning,.warn{color:var(--warn)}.badge.unknown,.doubt{color:var(--unknown)}.badge.ok,.good{color:var(--good)}
.badge.info{color:var(--soft)}
.findings{list-style:none;margin:0;padding:0;display:grid;gap:.7rem}
.finding{border:1px solid var(--line);border-left:6px solid var(--edge);border-radius:8px;padding:.6rem 1rem .7rem}
.finding.critical{border-left-color:var(--bad)}.finding.warning{border-left-color:var(--warn)}.finding.unknown{border-left-color:var(--unknown)}
.finding h3{display:flex;flex-wrap:wrap;gap:.1rem .6rem;align-items:baseline}
.finding ul{margin:.35rem 0;padding-left:1.1rem}.finding li{overflow-wrap:anywhere}.finding .next{font-weight:600}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem .9rem;margin:.3rem 0}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
summary{cursor:pointer;color:var(--soft);min-height:1.75rem}
.wide{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;vertical-align:top;padding:.4rem .8rem .4rem 0;border-bottom:1px solid var(--line)}
thead th{font-size:.8rem;font-weight:600;color:var(--soft);white-space:nowrap}tbody th{font-weight:600}
tbody tr.critical>:first-child{box-shadow:inset 4px 0 var(--bad);padding-left:.7rem}tbody tr.warning>:first-child{box-shadow:inset 4px 0 var(--warn);padding-left:.7rem}
tbody tr.unknown>:first-child{box-shadow:inset 4px 0 var(--unknown);padding-left:.7rem}
td .soft,th .soft{display:block;font-weight:400;font-size:.85rem}td.names{overflow-wrap:anywhere}.whole{display:inline-block}
.spark{display:block;width:7.2rem;height:1.75rem;overflow:visible}
.spark .line{fill:none;stroke:var(--chart);stroke-width:1.5;vector-effect:non-scaling-stroke;stroke-linejoin:round;stroke-linecap:round}
.spark .area{fill:var(--chart);opacity:.16}.spark .base{stroke:var(--line);stroke-width:1;vector-effect:non-scaling-stroke}
.spark.alarm .line{stroke:var(--bad)}.spark.alarm .area{fill:var(--bad)}
.picture{display:block;max-width:100%;height:auto}
.picture text{font:600 14px system-ui,sans-serif;fill:var(--text)}.picture text.small{font-weight:400;font-size:12.5px;fill:var(--soft)}
.picture rect{fill:var(--raised);stroke:var(--edge)}.picture rect.node{fill:none;stroke:var(--line)}
.picture .edge{fill:none;stroke:var(--edge);stroke-width:1.5}
.picture .critical rect{stroke:var(--bad);stroke-width:2.5;fill:var(--bad-ground)}.picture .critical.edge{stroke:var(--bad);stroke-width:3;stroke-dasharray:7 4}
.picture .warning rect{stroke:var(--warn);stroke-width:2;fill:var(--warn-ground)}.picture .warning.edge{stroke:var(--warn);stroke-width:2.5;stroke-dasharray:7 4}
.picture .off rect{stroke-dasharray:4 4}.picture .off.edge{stroke-dasharray:2 5}
.tree{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.tree .critical,.tree .critical *{color:var(--bad)}.tree .warning{color:var(--warn)}
footer{margin-top:2.5rem;color:var(--soft);font-size:.875rem}
@media(max-width:60rem){.picture{display:none}
.tree{position:static;width:auto;height:auto;overflow:visible;clip-path:none;white-space:normal;margin:0;padding-left:1.1rem;line-height:1.7}.tree ul{padding-left:1.1rem}}
@media(max-width:60rem){.cards,.cards tbody,.cards tr,.cards th,.cards td{display:block;border:0;padding:0}
.cards thead{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%)}
.cards tr{display:grid;grid-template-columns:repeat(auto-fill,minmax(8.4rem,1fr));gap:.5rem 1rem;border:1px solid var(--line);border-radius:8px;padding:.6rem .8rem;margin:.6rem 0}
.cards tbody tr.critical,.cards tbody tr.warning,.cards tbody tr.unknown{border-left-width:6px}
.cards tbody tr.critical{border-left-color:var(--bad)}.cards tbody tr.warning{border-left-color:var(--warn)}.cards tbody tr.unknown{border-left-color:var(--unknown)}
.cards tbody tr>:first-child{grid-column:1/-1;box-shadow:none!important;padding-left:0!important}
.cards td.target{grid-column:1/-1}
.cards td::before{content:attr(data-label);display:block;font-size:.8rem;color:var(--soft)}}
@media(max-width:30rem){body{padding:.7rem .7rem 2rem}.verdict{padding:.7rem .9rem}.verdict .word{font-size:1.8rem}}
@media(forced-colors:active){.picture rect,.picture .edge,.spark .line{stroke:CanvasText}.picture rect{fill:Canvas}.picture text{fill:CanvasText}}
@media print{button,header nav{display:none}}
)css";

const std::string_view kStatusScript = R"js(
'use strict';
(() => {
  const pause = 5000, slowest = 40000;
  const bar = document.getElementById('bar'), said = document.getElementById('said');
  if (!bar || !said || !window.fetch || !window.DOMParser) return;
  const button = document.createElement('button');
  const state = document.createElement('span');
  button.type = 'button';
  const live = document.createElement('span');
  live.className = 'live';
  live.append(button, state);
  bar.append(live);
  let stopped = false, wait = pause, timer = 0, lost = '';
  const clock = () => new Date().toLocaleTimeString();
  const show = (text, alarm) => { state.textContent = text; state.className = alarm ? 'bad' : ''; };
  const label = () => {
    button.textContent = stopped ? 'Go on' : 'Pause';
    if (stopped) show('Not refreshed');
    else if (!lost) show('Refreshed every 5 s');
  };
  const busy = part => {
    const selection = document.getSelection();
    return selection && !selection.isCollapsed && part.contains(selection.anchorNode);
  };
  // Puts the new part in the place of the old one; what was opened or in focus stays so.
  const exchange = (old, fresh) => {
    for (const from of old.querySelectorAll('details[id]')) {
      const to = fresh.querySelector('#' + CSS.escape(from.id));
      if (to) to.open = from.open;
    }
    if (old.outerHTML === fresh.outerHTML || busy(old)) return;
    const held = old.contains(document.activeElement) ? document.activeElement.closest('[id]') : null;
    old.replaceWith(fresh);
    if (!held) return;
    const again = document.getElementById(held.id);
    const target = again && (again.matches('details') ? again.querySelector('summary') : again);
    if (target) target.focus({preventScroll: true});
  };
  const take = page => {
    const before = document.getElementById('verdict'), after = page.getElementById('verdict');
    if (!before || !after) throw new Error('another page');
    const news = before.dataset.news !== after.dataset.news ? after.dataset.news : '';
    for (const part of [...document.querySelectorAll('[data-part]')]) {
      const fresh = page.getElementById(part.id);
      if (fresh) exchange(part, document.importNode(fresh, true));
    }
    document.title = page.title;
    if (news) said.textContent = news;
  };
  const tick = async () => {
    clearTimeout(timer);
    if (!stopped && !document.hidden) {
      const cut = new AbortController(), limit = setTimeout(() => cut.abort(), 15000);
      try {
        const answer = await fetch(location.pathname, {cache: 'no-store', credentials: 'same-origin', signal: cut.signal});
        if (!answer.ok) throw new Error('HTTP ' + answer.status);
        take(new DOMParser().parseFromString(await answer.text(), 'text/html'));
        if (lost) said.textContent = 'The exporter answers again.';
        lost = ''; wait = pause;
        document.body.classList.remove('lost');
        label();
      } catch (e) {
        if (!lost) { lost = clock(); said.textContent = 'The exporter does not answer.'; }
        document.body.classList.add('lost');
        show('No answer since ' + lost + '. What is shown is older.', true);
        if (!document.title.startsWith('? ')) document.title = '? ' + document.title;
        wait = Math.min(2 * wait, slowest);
      } finally { clearTimeout(limit); }
    }
    clearTimeout(timer);
    timer = setTimeout(tick, wait);
  };
  button.addEventListener('click', () => { stopped = !stopped; label(); if (!stopped) tick(); });
  document.addEventListener('visibilitychange', () => { if (!document.hidden) tick(); });
  label();
  timer = setTimeout(tick, pause);
})();
)js";

}  // namespace roce
