// SPDX-License-Identifier: Apache-2.0
//
// Opens the exporter's status page in Chromium and tells what is wrong with it. usage: node look.mjs JOBS.json
// JOBS: {out, jobs: [{name, url, width, dark, script, spoil}]}; for each job a picture OUT/NAME.png and the facts OUT/NAME.json:
// {errors, foreign: [url], violations: [text], wide: pixels beyond the window, reached: how many things the Tab key reaches,
// text}. `spoil` is run in the page first: what makes it worse has to be found.
import fs from 'node:fs';
import path from 'node:path';

import axe from 'axe-core';
import puppeteer from 'puppeteer-core';

const work = JSON.parse(fs.readFileSync(process.argv[2], 'utf8'));
fs.mkdirSync(work.out, { recursive: true });
const browser = await puppeteer.launch({
  executablePath: '/usr/bin/chromium', headless: true,
  args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--hide-scrollbars', '--force-color-profile=srgb', '--disable-extensions'],
});

async function look(job) {
  const page = await browser.newPage();
  const errors = [];
  const foreign = [];
  page.on('pageerror', (e) => errors.push(String(e.message)));
  page.on('console', (m) => { if (['error', 'warn'].includes(m.type())) errors.push(m.text()); });
  page.on('request', (r) => { if (new URL(r.url()).origin !== new URL(job.url).origin) foreign.push(r.url()); });
  await page.setViewport({ width: job.width, height: 900 });
  await page.emulateMediaFeatures([{ name: 'prefers-color-scheme', value: job.dark ? 'dark' : 'light' }]);
  await page.setJavaScriptEnabled(job.script);
  await page.goto(job.url, { waitUntil: 'networkidle2' });
  if (job.spoil) await page.evaluate(job.spoil);
  let reached = 0;
  for (; reached < 200; ++reached) {
    await page.keyboard.press('Tab');
    if (await page.evaluate(() => document.activeElement === document.body)) break;
  }
  // It needs timers, which a page without scripts has not; what it looks at is the same there.
  if (job.script) await page.evaluate(axe.source);
  const found = job.script ? await page.evaluate(() => axe.run()) : { violations: [] };
  const facts = {
    errors, foreign, reached,
    violations: found.violations.filter((v) => ['serious', 'critical'].includes(v.impact)).flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.target}: ${v.help}`)),
    wide: await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth),
    text: await page.evaluate(() => document.body.innerText),
  };
  await page.screenshot({ path: path.join(work.out, `${job.name}.png`), fullPage: true });
  fs.writeFileSync(path.join(work.out, `${job.name}.json`), JSON.stringify(facts));
  await page.close();
}

for (const job of work.jobs) await look(job);
await browser.close();
