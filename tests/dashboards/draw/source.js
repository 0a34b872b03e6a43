// SPDX-License-Identifier: Apache-2.0
//
// A data source for Grafana's scenes that asks a Prometheus, as Grafana's own does (which is under another licence).
import { FieldType, toDataFrame } from '@grafana/data';
import { RuntimeDataSource } from '@grafana/scenes';
import { from } from 'rxjs';

const SCRAPE = 15;

async function api(path, params) {
  const answer = await fetch(`/api/v1/${path}?${new URLSearchParams(params)}`);
  const json = await answer.json();
  if (json.status !== 'success') throw new Error(`${path} ${JSON.stringify(params)}: ${json.error}`);
  return json.data;
}

const number = (text) => (text === '+Inf' ? Infinity : text === '-Inf' ? -Infinity : Number(text));

function legend(format, labels) {
  if (format) return format.replace(/\{\{\s*(\w+)\s*\}\}/g, (_, name) => labels[name] ?? '');
  const { __name__: name = '', ...rest } = labels;
  const inner = Object.entries(rest).map(([k, v]) => `${k}="${v}"`).join(', ');
  return name + (inner ? `{${inner}}` : '') || 'Value';
}

/** How a variable stands in a query: several values as an alternative, their special characters escaped. */
function forQuery(value, variable) {
  if (!variable.multi && !variable.includeAll) return String(value).replace(/\\/g, '\\\\').replace(/"/g, '\\"');
  const escape = (v) => String(v).replace(/[\\^$.*+?()[\]{}|]/g, '\\\\$&');
  if (typeof value === 'string') return escape(value);
  return value.length === 1 ? escape(value[0]) : `(${value.map(escape).join('|')})`;
}

export class Prometheus extends RuntimeDataSource {
  constructor(replace) {
    super('prometheus', 'here');
    this.replace = replace;
    this.asked = [];
  }

  query(request) {
    return from(Promise.all(request.targets.map((t) => this.one(request, t))).then((all) => {
      const tables = request.targets.filter((t) => t.format === 'table').length;
      const data = all.flat();
      if (tables > 1) for (const frame of data) for (const f of frame.fields) if (f.name === 'Value') f.name = `Value #${frame.refId}`;
      return { data: data.map((f) => toDataFrame(f)) };
    }));
  }

  async one(request, target) {
    const step = Math.max(Math.ceil((request.intervalMs ?? 15000) / 1000), 1);
    const rate = Math.max(step + SCRAPE, 4 * SCRAPE);
    const range = `${request.range.to.unix() - request.range.from.unix()}s`;
    const scoped = { ...request.scopedVars, __rate_interval: { text: `${rate}s`, value: `${rate}s` }, __interval: { text: `${step}s`, value: `${step}s` }, __range: { text: range, value: range } };
    const expr = this.replace(target.expr, scoped, forQuery);
    const end = request.range.to.unix();
    const data = target.instant
      ? await api('query', { query: expr, time: end })
      : await api('query_range', { query: expr, start: Math.floor(request.range.from.unix() / step) * step, end: Math.floor(end / step) * step, step });
    const result = data.resultType === 'scalar' ? [{ metric: {}, value: data.result }] : data.result;
    this.asked.push({ expr, series: result.length });
    if (target.format === 'table') return this.table(target, result);
    return result.map((series) => {
      const points = series.values ?? [series.value];
      return {
        refId: target.refId,
        meta: { type: 'timeseries-multi' },
        fields: [
          { name: 'Time', type: FieldType.time, values: points.map((p) => p[0] * 1000), config: { interval: step * 1000 } }, // a longer way is a gap
          { name: 'Value', type: FieldType.number, values: points.map((p) => number(p[1])), labels: series.metric, config: { displayNameFromDS: legend(target.legendFormat, series.metric) } },
        ],
      };
    });
  }

  table(target, result) {
    const names = [...new Set(result.flatMap((s) => Object.keys(s.metric)))].sort();
    if (result.length === 0) return [{ refId: target.refId, fields: [] }];
    return [{
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: result.map((s) => s.value[0] * 1000), config: {} },
        ...names.map((name) => ({ name, type: FieldType.string, values: result.map((s) => s.metric[name] ?? ''), config: {} })),
        { name: 'Value', type: FieldType.number, values: result.map((s) => number(s.value[1])), config: {} },
      ],
    }];
  }

  async metricFindQuery(query, options) {
    const range = options?.range;
    const text = this.replace(typeof query === 'string' ? query : query.query, options?.scopedVars ?? {}, forQuery);
    const m = /^label_values\((.*),\s*(\w+)\)$/.exec(text);
    if (!m) throw new Error(`variable query ${text}`);
    const params = { 'match[]': m[1], ...(range ? { start: range.from.unix(), end: range.to.unix() } : {}) };
    return (await api(`label/${m[2]}/values`, params)).map((value) => ({ text: value }));
  }

  async testDatasource() {
    return { status: 'success', message: '' };
  }
}
