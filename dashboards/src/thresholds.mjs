// SPDX-License-Identifier: Apache-2.0
//
// The numbers that the alerts compare with, so that a line in a graph is where its alert fires.
import fs from 'node:fs';
import { fileURLToPath } from 'node:url';

import { parse } from 'yaml';

const file = fileURLToPath(new URL('../../alerts/thresholds.yml', import.meta.url));
const source = parse(fs.readFileSync(file, 'utf8'));

export const settings = source.settings;

export function limit(name) {
  const found = source.thresholds[name];
  if (!found) throw new Error(`alerts/thresholds.yml has no threshold ${name}`);
  return Number(found.value);
}
