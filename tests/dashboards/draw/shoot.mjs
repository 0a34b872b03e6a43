// SPDX-License-Identifier: Apache-2.0
//
// Draws boards in Chromium and tells what stands there. usage: node shoot.mjs JOBS.json
// JOBS: {bundle, boards, prometheus: {name: url}, out, jobs: [{name, board, data, from, to, vars: {}}]}; for each job a picture
// OUT/NAME.png and the facts OUT/NAME.json: {errors, panels: {title: {kind, text, values: [{text, color}], series, canvases}}}.
import fs from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import puppeteer from 'puppeteer-core';

const here = path.dirname(fileURLToPath(import.meta.url));
const work = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
const ICONS = path.join(here, '..', 'node_modules', '@grafana', 'ui', 'dist', 'public', 'img');
const PAGE = '<!doctype html><html><head><meta charset="utf-8"><link rel="stylesheet" href="/bundle/page.css"><style>body{margin:0;background:#111217} *{animation:none!important;transition:none!important}</style></head>'
  + '<body class="theme-dark"><div id="root"></div><script src="/bundle/page.js"></script></body></html>';
const KINDS = { '.js': 'text/javascript', '.css': 'text/css', '.json': 'application/json', '.svg': 'image/svg+xml' };

function serve(data) {
  return new Promise((resolve) => {
    const server = http.createServer((request, response) => {
      const url = new URL(request.url, 'http://x');
      const give = (folder, rest) => {
        const file = path.join(folder, rest);
        if (!file.startsWith(folder) || !fs.existsSync(file)) {
          response.writeHead(404).end();
          return;
        }
        response.writeHead(200, { 'content-type': KINDS[path.extname(file)] ?? 'application/octet-stream' }).end(fs.readFileSync(file));
      };
      if (url.pathname === '/') response.writeHead(200, { 'content-type': 'text/html' }).end(PAGE);
      else if (url.pathname.startsWith('/bundle/')) give(work.bundle, url.pathname.slice(8));
      else if (url.pathname.startsWith('/boards/')) give(work.boards, url.pathname.slice(8));
      else if (url.pathname.includes('/img/icons/')) {
        // Few icons are part of the packages; in place of the others there is an empty one.
        const file = path.join(ICONS, url.pathname.slice(url.pathname.indexOf('/img/') + 5));
        response.writeHead(200, { 'content-type': 'image/svg+xml' }).end(fs.existsSync(file) ? fs.readFileSync(file) : '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24"/>');
      } else if (url.pathname.startsWith('/api/v1/')) {
        http.get(`${work.prometheus[data]}${request.url}`, (answer) => {
          response.writeHead(answer.statusCode, { 'content-type': 'application/json' });
          answer.pipe(response);
        }).on('error', () => response.writeHead(502).end());
      } else response.writeHead(404).end();
    });
    server.listen(0, '127.0.0.1', () => resolve(server));
  });
}

/** Runs in the page: what each panel shows. */
function look() {
  const seen = (el) => {
    const style = getComputedStyle(el);
    return { background: style.backgroundColor, image: style.backgroundImage, color: style.color };
  };
  const clear = (c) => c === 'rgba(0, 0, 0, 0)' || c === 'transparent';
  // The colour behind an element: the first of it and what holds it that has one.
  const behind = (el, stop) => {
    for (let e = el; e && e !== stop; e = e.parentElement) {
      const s = seen(e);
      if (s.image.includes('gradient')) return /rgba?\([^)]*\)/.exec(s.image)[0];
      if (!clear(s.background)) return s.background;
    }
    return '';
  };
  const leaves = (root) => [...root.querySelectorAll('*')].filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()));
  const out = {};
  for (const section of document.querySelectorAll('[data-testid^="data-testid Panel header "]')) {
    const title = section.getAttribute('data-testid').replace('data-testid Panel header ', '');
    const content = section.querySelector('[data-testid="data-testid panel content"]') ?? section;
    const cells = [...content.querySelectorAll('[role="gridcell"]')];
    const canvases = content.querySelectorAll('canvas').length;
    const nothing = Boolean(content.querySelector('[data-nothing]'));
    const shown = cells.length ? cells : leaves(content);
    const values = shown.map((e) => {
      const inner = leaves(e).pop() ?? e;
      return { text: e.textContent.trim(), color: seen(inner).color, behind: behind(inner, content), column: e.getAttribute('aria-colindex') ?? undefined, row: e.closest('[role="row"]')?.getAttribute('aria-rowindex') ?? undefined };
    });
    const headers = [...content.querySelectorAll('[role="columnheader"]')].map((e) => e.textContent.trim());
    const box = section.getBoundingClientRect();
    // Text that does not fit its panel; tables and legends scroll.
    const inside = content.getBoundingClientRect();
    const cut = leaves(content).filter((e) => {
      if (e.closest('[role="grid"], table')) return false;
      const range = document.createRange();
      range.selectNodeContents(e);
      const r = range.getBoundingClientRect();
      return r.left < inside.left - 3 || r.right > inside.right + 3 || r.top < inside.top - 6 || r.bottom > inside.bottom + 6 || (getComputedStyle(e).textOverflow === 'ellipsis' && e.scrollWidth > e.clientWidth + 1);
    }).map((e) => e.textContent.trim());
    const head = section.querySelector('h2');
    if (head && head.scrollWidth > head.clientWidth + 1) cut.push(title);
    const bars = [...content.querySelectorAll('[data-testid="data-testid Bar gauge value"]')].map((e) => {
      const text = e.textContent.trim();
      let holder = e;
      while (holder !== content && holder.textContent.trim() === text) holder = holder.parentElement;
      return { name: holder.textContent.replace(text, '').trim(), text, color: seen(e).color };
    });
    out[title] = { text: content.innerText.trim(), values, headers, bars, canvases, nothing, cut, box: [box.x, box.y, box.width, box.height].map(Math.round) };
  }
  return out;
}

/** Runs in the page: ends when it has drawn what it knows; the timer is for a page that is not shown. */
function frames() {
  return new Promise((done) => {
    requestAnimationFrame(() => requestAnimationFrame(done));
    setTimeout(done, 1000);
  });
}

/** Whether a panel shows something: a table its cells, not its head alone. */
const shows = (panel) => panel.nothing || (panel.headers.length ? panel.values.length > 0 : panel.text !== '' || panel.canvases > 0);

const PATIENCE = 180000; // a machine with other work takes long to draw
const pause = (ms) => new Promise((r) => setTimeout(r, ms));

const browser = await puppeteer.launch({
  executablePath: '/usr/bin/chromium', headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', '--force-color-profile=srgb', '--disable-extensions', '--font-render-hinting=none',
    '--disable-background-timer-throttling', '--disable-backgrounding-occluded-windows', '--disable-renderer-backgrounding'],
});
fs.mkdirSync(work.out, { recursive: true });
const servers = {};
for (const name of Object.keys(work.prometheus)) servers[name] = await serve(name);
/** One board, drawn; its picture and its facts. */
async function draw(page, job) {
  const errors = [];
  const onError = (e) => errors.push(`page error: ${String(e.stack ?? e.message).split('\n').slice(0, 6).join(' | ')}`);
  const onConsole = (m) => {
    if (m.type() === 'error' && !/Failed to load resource|downloadable font|grafanaBootData/.test(m.text())) errors.push(`console: ${m.text().slice(0, 600)}`);
  };
  page.on('pageerror', onError);
  page.on('console', onConsole);
  await page.setViewport({ width: job.width ?? 1700, height: 1000, deviceScaleFactor: 1 });
  const query = new URLSearchParams({ board: job.board, from: job.from, to: job.to });
  for (const [name, value] of Object.entries(job.vars ?? {})) query.append(`var-${name}`, value);
  await page.goto(`http://127.0.0.1:${servers[job.data].address().port}/?${query}`, { waitUntil: 'domcontentloaded' });
  const until = Date.now() + PATIENCE;
  let state = {};
  let calm = 0;
  while (Date.now() < until && calm < 3) {
    await pause(250);
    state = await page.evaluate(() => (window.roce?.ready ? window.roce.ready() : { waiting: 1, errors: [], failed: [] })).catch((e) => ({ waiting: 1, errors: [e.message], failed: [] }));
    calm = state.waiting === 0 && state.panels > 0 ? calm + 1 : 0;
  }
  if (state.waiting) errors.push(`${state.waiting} panels still wait`);
  errors.push(...(state.errors ?? []));
  const height = await page.evaluate(() => Math.max(...[...document.querySelectorAll('[data-testid^="data-testid Panel header "]')].map((e) => e.getBoundingClientRect().bottom + window.scrollY), 400));
  await page.setViewport({ width: job.width ?? 1700, height: Math.ceil(height) + 30, deviceScaleFactor: 1 });
  // Data is there before it is drawn, a table is drawn in steps: looks until all panels show something and three looks are alike.
  let panels = {};
  let blank = [];
  let last = '';
  let alike = 0;
  for (const end = Date.now() + PATIENCE; alike < 3 && Date.now() < end;) {
    await page.evaluate(frames);
    panels = await page.evaluate(look);
    blank = Object.keys(panels).filter((title) => !shows(panels[title]) && !state.failed.includes(title));
    const now = JSON.stringify(panels);
    alike = now === last && blank.length === 0 ? alike + 1 : 0;
    last = now;
    await pause(100);
  }
  errors.push(...blank.map((title) => `${title} is still blank`));
  if (alike < 3 && !blank.length) errors.push('what is drawn keeps changing');
  await page.screenshot({ path: path.join(work.out, `${job.name}.png`) });
  const queries = await page.evaluate(() => window.roce?.prometheus?.asked ?? []);
  const variables = await page.evaluate(() => Object.fromEntries(window.roce.scene.state.$variables.state.variables.map((v) => [v.state.name, v.getValue()?.formatter ? 'all' : v.getValue()])));
  fs.writeFileSync(path.join(work.out, `${job.name}.json`), JSON.stringify({ errors, variables, panels, queries }, null, 1));
  page.off('pageerror', onError);
  page.off('console', onConsole);
  console.log(`${job.name}: ${Object.keys(panels).length} panels, ${queries.length} queries, ${errors.length} errors`);
}

// Two at a time: one draws while the other waits for its answers.
const left = [...work.jobs];
await Promise.all([0, 1].map(async () => {
  const page = await (await browser.createBrowserContext()).newPage();
  for (let job = left.shift(); job; job = left.shift()) await draw(page, job);
}));
await browser.close();
Object.values(servers).forEach((s) => s.close());
