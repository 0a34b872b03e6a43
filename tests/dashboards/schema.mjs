// SPDX-License-Identifier: Apache-2.0
//
// Boards against schemas made of the SDK's own types: one for the board, one for each kind of panel's options, field
// configuration and targets. usage: node schema.mjs BOARD.json...; each finding is a line, exit code 1 where there is one.
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import Ajv from 'ajv';
import { createFormatter, createParser, SchemaGenerator } from 'ts-json-schema-generator';
import ts from 'typescript';

const sdk = fileURLToPath(new URL('../../dashboards/src/node_modules/@grafana/grafana-foundation-sdk/dist/', import.meta.url));
const KINDS = ['timeseries', 'stat', 'gauge', 'bargauge', 'table', 'heatmap'];
const WITH_FIELDS = new Set(['timeseries', 'heatmap']); // kinds with a field configuration of their own

const ajv = new Ajv({ strict: false, allErrors: true, validateFormats: false });

const sources = ['dashboard', 'prometheus', 'common', ...KINDS].map((folder) => path.join(sdk, folder, 'types.gen.d.ts'));
const program = ts.createProgram(sources, { types: [], lib: ['lib.es5.d.ts'], skipLibCheck: true, moduleResolution: ts.ModuleResolutionKind.Node10 });
const config = { additionalProperties: false, expose: 'all', topRef: true, jsDoc: 'none', skipTypeCheck: true, encodeRefs: false, functions: 'comment' };
const generator = new SchemaGenerator(program, createParser(program, config), createFormatter(config), config);

/** A check by the schema of a type. Every key has to be known; what has a default may be missing. */
function check(folder, type, open = false) {
  const file = program.getSourceFile(path.join(sdk, folder, 'types.gen.d.ts'));
  const node = file.statements.find((s) => s.name?.text === type);
  const schema = generator.createSchemaFromNodes([node]);
  relax(schema, open);
  const validate = ajv.compile(schema);
  return (value, where) => (validate(value) ? [] : validate.errors.map((e) => `${where}${e.instancePath}: ${e.message}${e.params.additionalProperty ? ` (${e.params.additionalProperty})` : ''}`));
}

/** Types list as required what the SDK fills in; and open ones stand for what the kind of panel defines. */
function relax(node, open) {
  if (Array.isArray(node)) node.forEach((n) => relax(n, open));
  else if (node && typeof node === 'object') {
    delete node.required;
    if (open && node.additionalProperties === false) delete node.additionalProperties;
    Object.values(node).forEach((n) => relax(n, open));
  }
}

const board = check('dashboard', 'Dashboard', true);
const target = check('prometheus', 'Dataquery');
const fields = check('dashboard', 'FieldConfigSource', true);
const options = Object.fromEntries(KINDS.map((k) => [k, check(k, 'Options')]));
const custom = Object.fromEntries(KINDS.filter((k) => WITH_FIELDS.has(k)).map((k) => [k, check(k, 'FieldConfig')]));
custom.table = check('common', 'TableFieldOptions');
const KNOWN = new Set(['id', 'type', 'title', 'description', 'datasource', 'targets', 'gridPos', 'links', 'transformations', 'interval', 'options', 'fieldConfig', 'collapsed', 'panels', 'transparent', 'repeatDirection']);
const DEFAULTS = new Set(['unit', 'decimals', 'min', 'max', 'mappings', 'thresholds', 'color', 'links', 'noValue', 'custom', 'actions', 'displayName', 'fieldMinMax']);

const found = [];
for (const file of process.argv.slice(2)) {
  const json = JSON.parse(fs.readFileSync(file, 'utf8'));
  const name = path.basename(file, '.json');
  found.push(...board(json, name));
  for (const panel of json.panels) {
    const where = `${name}: ${panel.title}: `;
    for (const key of Object.keys(panel)) if (!KNOWN.has(key)) found.push(`${where}no panel has a key ${key}`);
    if (panel.type === 'row') continue;
    if (!KINDS.includes(panel.type)) {
      found.push(`${where}no schema for the kind ${panel.type}`);
      continue;
    }
    found.push(...options[panel.type](panel.options, `${where}options`));
    found.push(...fields(panel.fieldConfig, `${where}fieldConfig`));
    for (const key of Object.keys(panel.fieldConfig.defaults)) if (!DEFAULTS.has(key)) found.push(`${where}fieldConfig.defaults has a key ${key}`);
    const own = panel.fieldConfig.defaults.custom ?? {};
    if (custom[panel.type]) found.push(...custom[panel.type](own, `${where}fieldConfig.defaults.custom`));
    else if (Object.keys(own).length) found.push(`${where}fieldConfig.defaults.custom: this kind has none`);
    panel.targets.forEach((t, i) => found.push(...target(t, `${where}targets/${i}`)));
  }
}
found.forEach((line) => console.log(line));
process.exit(found.length ? 1 : 0);
