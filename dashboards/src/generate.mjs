#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
//
// Makes dashboards/*.json of boards/*.mjs, with the numbers of alerts/thresholds.yml.
//
//     npm ci && node generate.mjs                writes them anew
//     node generate.mjs --check                  exit 1 where a file is not what it would write
//     node generate.mjs --set runbooks=URL       with other runbooks than thresholds.yml has; jobs are chosen on the boards
//     node generate.mjs --to DIR                 somewhere else
import fs from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { settings } from './thresholds.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const usage = 'usage: generate.mjs [--check] [--set runbooks=URL] [--to DIR]';
function commandLine() {
  const options = {
    check: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
    set: { type: 'string', multiple: true, default: [] },
    to: { type: 'string', default: path.dirname(here) },
  };
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    console.error(`generate.mjs: ${error.message}\n${usage}`);
    process.exit(2);
  }
}
const words = commandLine();
if (words.help) {
  console.log(usage);
  process.exit(0);
}
for (const word of words.set) {
  const [key, ...value] = word.split('=');
  if (key !== 'runbooks') {
    console.error(`generate.mjs: no setting \`${key}\`; there is: runbooks`);
    process.exit(2);
  }
  settings[key] = value.join('=');
}

let differ = 0;
for (const file of fs.readdirSync(path.join(here, 'boards')).sort()) {
  const { default: make } = await import(path.join(here, 'boards', file));
  const board = make();
  const target = path.join(words.to, `${board.uid}.json`);
  const text = `${JSON.stringify(board, null, 2)}\n`;
  if (fs.existsSync(target) && fs.readFileSync(target, 'utf8') === text) continue;
  differ += 1;
  console.log(`${words.check ? 'differs' : 'written'}: ${path.basename(target)}`);
  if (!words.check) {
    fs.mkdirSync(words.to, { recursive: true });
    fs.writeFileSync(target, text);
  }
}
process.exit(words.check && differ ? 1 : 0);
