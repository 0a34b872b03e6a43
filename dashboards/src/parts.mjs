// SPDX-License-Identifier: Apache-2.0
//
// What boards are made of. A panel says in its description what it shows, what is bad, what an empty panel means and what
// to do next; it has a unit and a way on. What a colour says stands beside it as text or number.
import * as bargauge from '@grafana/grafana-foundation-sdk/bargauge';
import * as common from '@grafana/grafana-foundation-sdk/common';
import * as dashboard from '@grafana/grafana-foundation-sdk/dashboard';
import * as heatmap from '@grafana/grafana-foundation-sdk/heatmap';
import * as prometheus from '@grafana/grafana-foundation-sdk/prometheus';
import * as stat from '@grafana/grafana-foundation-sdk/stat';
import * as table from '@grafana/grafana-foundation-sdk/table';
import * as timeseries from '@grafana/grafana-foundation-sdk/timeseries';

import { settings } from './thresholds.mjs';

export const GOOD = 'green';
export const WARN = 'orange';
export const BAD = 'red';
export const NONE = 'text'; // no judgement: a number
export const CLEAR = 'transparent'; // the same: a cell
export const PLAIN = 'blue'; // the same: a bar
const SCRAPE = '15s'; // as alerts/prometheus.yml scrapes: a rate needs four of them
const SOURCE = { type: 'prometheus', uid: '${datasource}' };

// Selectors. The variables of boards that choose several hosts may be empty, as links of alerts about the whole fleet
// leave them; then they choose all.
export const JOB = 'job="$job"';
export const PROBER = 'job="$prober_job"';
export const HOST = 'job="$job",instance="$instance"';
export const PROBER_HOST = 'job="$prober_job",host="$host"';
export const PORT = 'job="$job",instance="$instance",device="$device",port="$port"';
export const EXPORTERS = 'job="$job",instance=~"$instance.*"';
export const PROBERS = 'job="$prober_job",instance=~"$instance.*"';

// A rate of those series that grew within the time range. One that grew and stopped goes on at 0: a legend's last value is now's.
export const grown = (series) => `rate(${series}[$__rate_interval]) and increase(${series}[$__range]) > 0`;
export const grownBy = (series) => `increase(${series}[$__rate_interval]) and increase(${series}[$__range]) > 0`;

// The number of what is wrong, 0 where there is none, and nothing where the sources of it are not there at all.
export const countOr0 = (bad, all) => `count(${bad}) or 0 * count(${all})`;

// The sources of what rules make: there only while this Prometheus has the rules, without which nothing would ever be wrong.
export const withRules = (all) => `${all} and on () ALERTS{alertname="Watchdog",alertstate="firing",component="exporter"}`;
// What fires, a row an alert. Without the rules it is a row that says so: an empty table would say that nothing fires.
export const fires = (by, where) =>
  `sum by (${by}) (ALERTS{alertstate="firing",severity!="info",${where},alertname=~"Roce.*"}) or label_replace(sum(absent(ALERTS{alertname="Watchdog",alertstate="firing",component="exporter"})), "severity", "none", "", "")`;
export const withRecord = (all, record) => `${all} and on () ${record}`;

// Links ---------------------------------------------------------------------------------------------------------------

const KEEP = '${__url_time_range}&${datasource:queryparam}&${job:queryparam}&${prober_job:queryparam}';

/** To another board; vars {instance: '${__data.fields.instance}'}. */
export function to(title, uid, vars = {}) {
  const more = Object.entries(vars).map(([name, value]) => `&var-${name}=${value}`).join('');
  return link(title, `/d/${uid}?${KEEP}${more}`);
}
export const runbook = (alert) => link(`Runbook ${alert}`, `\${runbooks}/${alert}.md`, true);
export const allRunbooks = () => link('Runbook of this alert', '${runbooks}/${__data.fields.alert}.md', true);
const link = (title, url, targetBlank = false) => ({ title, url, targetBlank });

const builtLink = (l) => new dashboard.DashboardLinkBuilder(l.title).type('link').url(l.url).targetBlank(l.targetBlank);

// Values --------------------------------------------------------------------------------------------------------------

/** Without a value there is no colour: nothing known is not good. */
const nothing = (text, color = CLEAR) => ({ type: 'special', options: { match: 'null', result: { text, color, index: 99 } } });

/** Texts of values: {4: ['active', GOOD]}. */
export function texts(values) {
  const options = {};
  Object.entries(values).forEach(([value, [text, color]], index) => {
    options[value] = { text, color, index };
  });
  return [{ type: 'value', options }];
}

export const level = () => ({ title: 'level', width: 90, texts: texts({ critical: ['critical', BAD], warning: ['warning', WARN], none: ['NO RULES', WARN] }) });

/** [[GOOD], [1, BAD]]: the first from minus infinity. */
const steps = (list) => new dashboard.ThresholdsConfigBuilder().mode('absolute').steps(list.map(([value, color]) => (color ? { value, color } : { value: null, color: value })));

const describe = (p) => [p.tells, `**Bad:** ${p.bad}`, `**Empty:** ${p.empty}`, `**Next:** ${p.next}`].join('\n\n');

// Panels --------------------------------------------------------------------------------------------------------------

function query(spec, index, instant, format) {
  const { expr, legend } = typeof spec === 'string' ? { expr: spec } : spec;
  const q = new prometheus.DataqueryBuilder().datasource(SOURCE).refId(String.fromCharCode(65 + index)).expr(expr.replace(/\s*\n\s*/g, ' ').trim());
  if (legend) q.legendFormat(legend);
  if (format) q.format(format);
  return instant ? q.instant() : q.range();
}

function begin(builder, p, { instant = false, format = undefined, empty = false } = {}) {
  for (const key of ['title', 'tells', 'bad', 'empty', 'next', 'unit', 'queries', 'links']) {
    if (!p[key] || p[key].length === 0) throw new Error(`panel \`${p.title}\` has no ${key}`);
  }
  builder.title(p.title).description(describe(p)).datasource(SOURCE).unit(p.unit).interval(SCRAPE);
  p.queries.forEach((q, i) => builder.withTarget(query(q, i, instant, format)));
  builder.noValue(p.noValue ?? 'no data');
  if (p.decimals !== undefined) builder.decimals(p.decimals);
  if (p.min !== undefined) builder.min(p.min);
  if (p.max !== undefined) builder.max(p.max);
  if (p.texts) builder.mappings(p.texts);
  if (empty) builder.mappings([...(p.texts ?? []), nothing(p.noValue ?? 'no data', p.steps || p.texts ? CLEAR : NONE)]);
  return { builder, w: p.w, h: p.h };
}

const latest = () => new common.ReduceDataOptionsBuilder().calcs(['lastNotNull']);
const byThresholds = () => new dashboard.FieldColorBuilder().mode('thresholds');

/** One number or state. Its whole field has the colour, its text says the same. */
export function number(p) {
  const made = begin(new stat.PanelBuilder(), { w: 4, h: 4, ...p }, { instant: true, empty: true });
  made.builder.thresholds(steps(p.steps ?? [[NONE]])).colorScheme(byThresholds()).reduceOptions(latest())
    .colorMode(p.steps || p.texts ? 'background' : 'value').graphMode('none').textMode(p.textMode ?? 'auto').links(p.links.map(builtLink));
  return made;
}

/** Values in time. `limit` is a dashed line where the alert fires. */
export function graph(p) {
  const made = begin(new timeseries.PanelBuilder(), { w: 12, h: 8, min: 0, ...p });
  made.builder
    .colorScheme(new dashboard.FieldColorBuilder().mode('palette-classic'))
    .drawStyle('line').lineWidth(p.texts ? 2 : 1).fillOpacity(p.stack ? 30 : 8).showPoints('never').spanNulls(false)
    .lineInterpolation(p.texts ? 'stepAfter' : 'linear')
    .legend(new common.VizLegendOptionsBuilder().displayMode('table').placement('bottom').showLegend(true).calcs(p.calcs ?? ['lastNotNull', 'max'])
      .sortBy('Last *').sortDesc(true))
    .tooltip(new common.VizTooltipOptionsBuilder().mode('multi').sort('desc'))
    .links(p.links.map(builtLink));
  if (p.stack) made.builder.stacking(new common.StackingConfigBuilder().mode('normal').group('A'));
  if (p.dataLinks) made.builder.dataLinks(p.dataLinks.map(builtLink));
  if (p.limit !== undefined) {
    // The line is always in sight, so that how far it is can be seen.
    made.builder.axisSoftMax(p.limit * 1.25);
    made.builder.thresholds(steps([[GOOD], [p.limit, BAD]])).thresholdsStyle(new common.GraphThresholdsStyleConfigBuilder().mode('dashed'));
  }
  return made;
}

/** A bar for each of a few; the number stands at its end. */
export function bars(p) {
  const made = begin(new bargauge.PanelBuilder(), { w: 8, h: 8, min: 0, ...p }, { instant: true });
  made.builder.thresholds(steps(p.steps ?? [[NONE]])).colorScheme(byThresholds()).reduceOptions(latest())
    .orientation('horizontal').displayMode('basic').valueMode('color').showUnfilled(true).namePlacement('top').links(p.links.map(builtLink));
  if (p.dataLinks) made.builder.dataLinks(p.dataLinks.map(builtLink));
  return made;
}

/**
 * A table of what queries give now. `columns` in their order: {name in the data: {title, unit, steps, texts, links, width}};
 * values are called `Value`, or `Value #A` of several queries. What is no column is hidden.
 */
export function list(p) {
  const made = begin(new table.PanelBuilder(), { w: 24, h: 8, unit: 'none', ...p }, { instant: true, format: 'table' });
  const hidden = {};
  for (const name of ['Time', ...(p.hide ?? [])]) hidden[name] = true;
  const names = Object.keys(p.columns);
  made.builder
    .withTransformation({ id: 'merge', options: {} })
    .withTransformation({
      id: 'organize',
      options: {
        excludeByName: hidden,
        indexByName: Object.fromEntries(names.map((n, i) => [n, i])),
        renameByName: Object.fromEntries(names.map((n) => [n, p.columns[n].title])),
      },
    })
    .colorScheme(byThresholds()).thresholds(steps([[NONE]])).align('auto').cellHeight('sm').showHeader(true).filterable(false)
    .links(p.links.map(builtLink));
  if (p.sort) made.builder.sortBy([new common.TableSortByFieldStateBuilder().displayName(p.sort.column).desc(p.sort.desc ?? false)]);
  for (const name of names) {
    const c = p.columns[name];
    const properties = [];
    if (c.unit) properties.push({ id: 'unit', value: c.unit });
    if (c.decimals !== undefined) properties.push({ id: 'decimals', value: c.decimals });
    if (c.width) properties.push({ id: 'custom.width', value: c.width });
    if (c.texts || c.steps) properties.push({ id: 'mappings', value: [...(c.texts ?? []), nothing('-')] });
    if (c.steps) properties.push({ id: 'thresholds', value: steps(c.steps).build() });
    if (c.steps || c.texts) properties.push({ id: 'custom.cellOptions', value: { type: 'color-background', mode: 'basic' } });
    if (c.links) properties.push({ id: 'links', value: c.links });
    properties.push({ id: 'noValue', value: '-' });
    made.builder.overrideByName(c.title, properties);
  }
  return made;
}

/** Who sees whom how: a row a prober, a column a peer, colour and text in each cell. */
export function matrix(p) {
  const made = begin(new table.PanelBuilder(), { w: 24, h: 10, ...p }, { instant: true, format: 'table' });
  made.builder
    .withTransformation({ id: 'sortBy', options: { sort: [{ field: p.column }] } })
    .withTransformation({ id: 'groupingToMatrix', options: { rowField: p.row, columnField: p.column, valueField: 'Value', emptyValue: 'null' } })
    .withTransformation({ id: 'organize', options: { excludeByName: {}, indexByName: {}, renameByName: { [`${p.row}\\${p.column}`]: p.corner } } })
    .colorScheme(byThresholds()).thresholds(steps(p.steps)).align('center').cellHeight('sm').showHeader(true).filterable(false)
    .cellOptions({ type: 'color-background', mode: 'basic' }).mappings([...(p.texts ?? []), nothing('-')])
    .overrideByName(p.corner, [{ id: 'custom.cellOptions', value: { type: 'auto' } }, { id: 'custom.align', value: 'left' }, { id: 'unit', value: 'none' }, { id: 'mappings', value: [] }, { id: 'links', value: [] }])
    .sortBy([new common.TableSortByFieldStateBuilder().displayName(p.corner).desc(false)])
    .links(p.links.map(builtLink)).dataLinks(p.dataLinks.map(builtLink));
  return made;
}

/** How values are spread in time, from the buckets of a histogram. */
export function heat(p) {
  const made = begin(new heatmap.PanelBuilder(), { w: 12, h: 9, ...p }, { format: 'heatmap' });
  made.builder.calculate(false).yAxis(new heatmap.YAxisConfigBuilder().unit(p.unit).min(0))
    .color(new heatmap.HeatmapColorOptionsBuilder().mode('scheme').scheme('Oranges').steps(64).exponent(0.5).scale('exponential').fill('dark-orange').reverse(false))
    .cellValues(new heatmap.CellValuesBuilder().unit('cps')).showLegend()
    .rowsFrame(new heatmap.RowsHeatmapOptionsBuilder().layout('auto'))
    .tooltip(new heatmap.HeatmapTooltipBuilder().mode('single').showColorScale(true).yHistogram(false)).links(p.links.map(builtLink));
  return made;
}

export const row = (title, ...panels) => ({ title, panels });

// Boards --------------------------------------------------------------------------------------------------------------

const ON_TIME_RANGE = 2;
const SORTED = 5; // alphabetical, letter case aside

/** A variable that lists values of a label. */
export function choose(name, label, query, more = {}) {
  const v = new dashboard.QueryVariableBuilder(name).label(label).datasource(SOURCE).query({ query, refId: name }).definition(query)
    .refresh(ON_TIME_RANGE).sort(SORTED).multi(more.multi ?? false).includeAll(more.all ?? false);
  if (more.all) v.allValue('.+').current({ selected: true, text: 'All', value: '$__all' });
  if (more.hide) v.hide(more.hide);
  if (more.description) v.description(more.description);
  return v;
}
export const HIDDEN = 2;

const annotation = (name, color, expr, title, text) => {
  const a = new dashboard.AnnotationQueryBuilder().name(name).datasource(SOURCE).enable(true).iconColor(color).expr(expr).step('60s').titleFormat(title).textFormat(text);
  return a;
};

/** Link changes, restarts and alerts of a board; `ports`, `exporters` and `alerts` are selectors. */
export function events({ ports, exporters, alerts, by }) {
  const where = by.map((label) => `{{${label}}}`).join(' ');
  return [
    annotation('Link changes', 'orange', `sum by (${by.join(', ')}) (changes(roce_port_state{${ports}}[1m])) > 0`, 'Port changed its state', where),
    annotation('Restarts', 'purple', `sum by (instance) (changes(process_start_time_seconds{${exporters}}[1m])) > 0`, 'Exporter or prober restarted', '{{instance}}'),
    annotation('Firing alerts', 'red', `sum by (alertname, host, severity) (ALERTS{alertstate="firing",severity!="info"${alerts ? `,${alerts}` : ''}})`, '{{alertname}}', '{{severity}} {{host}}'),
  ];
}

export function board({ uid, title, tells, variables, events: shown, rows }) {
  const b = new dashboard.DashboardBuilder(title).uid(uid).description(tells).tags(['roce']).readonly().timezone('browser').refresh('1m')
    .time({ from: 'now-1h', to: 'now' }).tooltip(1).version(1)
    .withVariable(new dashboard.DatasourceVariableBuilder('datasource').label('Prometheus').type('prometheus'))
    .withVariable(choose('job', 'Exporter job', 'label_values(roce_exporter_build_info, job)'))
    .withVariable(choose('prober_job', 'Prober job', 'label_values(roce_prober_build_info, job)'))
    .withVariable(new dashboard.ConstantVariableBuilder('runbooks').label('Runbooks').value(settings.runbooks))
    .link(new dashboard.DashboardLinkBuilder('RoCE boards').type('dashboards').tags(['roce']).asDropdown(false).includeVars(true).keepTime(true));
  for (const v of variables) b.withVariable(v);
  for (const a of shown) b.annotation(a);

  let id = 0;
  let y = 0;
  for (const { title: name, panels } of rows) {
    b.withRow(new dashboard.RowBuilder(name).id((id += 1)).gridPos({ x: 0, y, w: 24, h: 1 }));
    y += 1;
    let x = 0;
    let tallest = 0;
    for (const { builder, w, h } of panels) {
      if (x + w > 24) {
        y += tallest;
        x = 0;
        tallest = 0;
      }
      b.withPanel(builder.id((id += 1)).gridPos({ x, y, w, h }));
      x += w;
      tallest = Math.max(tallest, h);
    }
    y += tallest;
  }
  return b.build();
}
