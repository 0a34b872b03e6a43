// SPDX-License-Identifier: Apache-2.0
//
// Bundles draw/page.jsx with Grafana's own panel packages. usage: node build.mjs OUTPUT-FOLDER
import fs from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

const here = path.dirname(fileURLToPath(import.meta.url));
const modules = path.join(here, '..', 'node_modules');

// Editors and maps that no panel of the boards draws: whatever is asked of them is an empty thing.
const UNUSED = /^(monaco-editor|ol|geotiff|@opentelemetry\/|slate|slate-react|@grafana\/faro|react-monaco-editor|@codemirror\/|codemirror|@lezer\/|@monaco-editor|react-hook-form|ol-)/;

const shims = {
  name: 'shims',
  setup(b) {
    // Made for a router of another version, whose names the one that is here has too.
    b.onResolve({ filter: /^react-router-dom-v5-compat$/ }, () => ({ path: path.join(modules, 'react-router-dom', 'dist', 'index.js') }));
    // Asks for names that newer versions of its peers have, and does without them: as members, not as imports.
    b.onLoad({ filter: /plugin-compat\/dist\/esm\/.*\.mjs$/ }, (a) => ({
      contents: fs.readFileSync(a.path, 'utf8').replace(/^import \{([^}]*)\} from ('@grafana\/runtime(?:\/unstable)?');/gm, (_, names, from) => {
        const all = `peer${from.includes('unstable') ? 'Unstable' : ''}`;
        return [`import * as ${all} from ${from};`, ...names.split(',').map((n) => n.trim().split(' as ')).map(([name, as = name]) => `const ${as} = ${all}['${name}'];`)].join(' ');
      }),
      loader: 'js',
    }));
    b.onResolve({ filter: UNUSED }, (a) => ({ path: a.path, namespace: 'unused' }));
    b.onLoad({ filter: /.*/, namespace: 'unused' }, () => ({
      contents: 'const thing = new Proxy(function () {}, { get: (_, key) => (key === "__esModule" ? false : key === Symbol.toPrimitive ? () => "" : thing), construct: () => ({}), apply: () => ({}) }); module.exports = thing;',
      loader: 'js',
    }));
  },
};

const done = await build({
  entryPoints: [path.join(here, 'page.jsx')],
  outdir: process.argv[2],
  bundle: true,
  format: 'iife',
  platform: 'browser',
  target: 'chrome120',
  jsx: 'automatic',
  mainFields: ['module', 'browser', 'main'],
  conditions: ['import', 'module', 'browser'],
  nodePaths: [modules],
  define: { 'process.env.NODE_ENV': '"production"', global: 'globalThis', 'process.env': '{}' },
  loader: { '.svg': 'dataurl', '.woff2': 'dataurl', '.woff': 'dataurl', '.ttf': 'dataurl', '.png': 'dataurl' },
  plugins: [shims],
  logLevel: 'error',
  logLimit: 30,
  legalComments: 'none',
  minifySyntax: true,
  metafile: true,
});
const sizes = Object.values(done.metafile.outputs)[0].inputs;
if (process.argv[3] === '--sizes') {
  const by = {};
  for (const [file, { bytesInOutput }] of Object.entries(sizes)) {
    const m = file.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/);
    by[m?.[1] ?? 'own'] = (by[m?.[1] ?? 'own'] ?? 0) + bytesInOutput;
  }
  console.log(Object.entries(by).sort((a, b) => b[1] - a[1]).slice(0, 30));
}
