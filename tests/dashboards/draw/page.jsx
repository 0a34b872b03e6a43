// SPDX-License-Identifier: Apache-2.0
//
// Draws a board as Grafana's own libraries do: scenes for variables, queries and transformations, @grafana/ui for panels. What
// stands in Grafana's core alone is supplied here for the kinds of panels that the boards have.
import {
  cacheFieldDisplayNames, createTheme, displayNameOverrideProcessor, dataLinksOverrideProcessor, EventBusSrv, FieldColorModeId, getDisplayProcessor, getFieldDisplayValues, identityOverrideProcessor, LoadingState,
  numberOverrideProcessor, PanelPlugin, standardFieldConfigEditorRegistry, standardTransformers, standardTransformersRegistry, stringOverrideProcessor, thresholdsOverrideProcessor, ThemeContext,
  toDataFrame, unitOverrideProcessor, valueMappingsOverrideProcessor,
} from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { setAppEvents, setBackendSrv, setDataSourceSrv, setEchoSrv, setPluginImportUtils, setRunRequest, setTemplateSrv, config, setLocationSrv } from '@grafana/runtime';
import {
  ConstantVariable, DataSourceVariable, EmbeddedScene, QueryVariable, registerRuntimeDataSource, registerRuntimePanelPlugin, SceneDataTransformer, sceneGraph, SceneGridItem, SceneGridLayout,
  SceneGridRow, SceneQueryRunner, SceneTimeRange, SceneVariableSet, VariableValueSelectors, VizPanel,
} from '@grafana/scenes';
import { BarGauge, BigValue, GlobalStyles, PortalContainer, TimeSeries, TooltipPlugin2, useTheme2, VizRepeater } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';
import { useMemo } from 'react';
import { createRoot } from 'react-dom/client';
import { MemoryRouter } from 'react-router-dom';
import { of } from 'rxjs';
import { catchError, map } from 'rxjs/operators';

import { Prometheus } from './source.js';

const asked = new URLSearchParams(window.location.search);

// What Grafana's core supplies ------------------------------------------------------------------------------------------

const theme = createTheme({ colors: { mode: 'dark' } });
config.theme2 = theme;
config.featureToggles = config.featureToggles ?? {};

const replace = (text, scoped, format) => {
  const object = scoped?.__sceneObject?.value;
  const scene = object?.valueOf?.() ?? window.roce.scene;
  return sceneGraph.interpolate(scene, text, scoped, format);
};
const prometheus = new Prometheus(replace);
const settings = { uid: 'here', name: 'Prometheus', type: 'prometheus', meta: { id: 'prometheus', name: 'Prometheus' }, jsonData: {}, isDefault: true, access: 'proxy', readOnly: true };

setTemplateSrv({ replace, getVariables: () => [], containsTemplate: (t) => /\$/.test(t ?? ''), updateTimeRange: () => {} });
setDataSourceSrv({ get: async () => prometheus, getList: () => [settings], getInstanceSettings: () => settings, reload: () => {}, registerRuntimeDataSource: () => {} });
setEchoSrv({ addEvent: () => {}, flush: () => {}, addBackend: () => {} });
setBackendSrv({});
setAppEvents(new EventBusSrv());
setLocationSrv?.({ update: () => {} });
setPluginImportUtils({ importPanelPlugin: async (id) => { throw new Error(`no panel of kind ${id}`); }, getPanelPluginFromCache: () => undefined });
setRunRequest((source, request) =>
  source.query(request).pipe(
    map((answer) => ({ state: LoadingState.Done, series: answer.data, timeRange: request.range, request })),
    catchError((error) => of({ state: LoadingState.Error, series: [], timeRange: request.range, request, error: { message: String(error.message ?? error) }, errors: [{ message: String(error.message ?? error) }] })),
  ));

const standard = (id, process, more = {}) => ({
  id, path: id, name: id, description: id, isCustom: false, process, override: process, shouldApply: () => true, editor: () => null, settings: {}, ...more,
});
standardFieldConfigEditorRegistry.setInit(() => [
  standard('unit', unitOverrideProcessor), standard('min', numberOverrideProcessor), standard('max', numberOverrideProcessor), standard('decimals', numberOverrideProcessor),
  standard('displayName', displayNameOverrideProcessor), standard('color', identityOverrideProcessor), standard('noValue', stringOverrideProcessor),
  standard('thresholds', thresholdsOverrideProcessor), standard('mappings', valueMappingsOverrideProcessor), standard('links', dataLinksOverrideProcessor), standard('fieldMinMax', identityOverrideProcessor),
  standard('filterable', identityOverrideProcessor), standard('actions', identityOverrideProcessor),
]);
standardTransformersRegistry.setInit(() => {
  const seen = new Map();
  for (const transformation of Object.values(standardTransformers)) {
    if (!seen.has(transformation.id)) seen.set(transformation.id, { id: transformation.id, name: transformation.name, transformation: async () => transformation, editor: () => null, imageDark: '', imageLight: '' });
  }
  return [...seen.values()];
});

// Panels ----------------------------------------------------------------------------------------------------------------

const CUSTOM = {
  timeseries: ['drawStyle', 'lineInterpolation', 'barAlignment', 'barWidthFactor', 'lineWidth', 'fillOpacity', 'gradientMode', 'lineStyle', 'spanNulls', 'insertNulls', 'showPoints', 'pointSize', 'stacking',
    'axisPlacement', 'axisLabel', 'axisColorMode', 'axisBorderShow', 'axisWidth', 'axisSoftMin', 'axisSoftMax', 'axisGridShow', 'axisCenteredZero', 'scaleDistribution', 'hideFrom', 'thresholdsStyle', 'showValues'],
  table: ['align', 'cellOptions', 'width', 'minWidth', 'filterable', 'hidden', 'inspect', 'hideHeader', 'wrapHeaderText', 'footer'],
};
const DEFAULTS = {
  timeseries: { drawStyle: 'line', lineInterpolation: 'linear', lineWidth: 1, fillOpacity: 0, gradientMode: 'none', spanNulls: false, showPoints: 'auto', pointSize: 5, stacking: { mode: 'none', group: 'A' },
    axisPlacement: 'auto', axisLabel: '', axisColorMode: 'text', axisBorderShow: false, axisGridShow: undefined, axisCenteredZero: false, scaleDistribution: { type: 'linear' }, barAlignment: 0, barWidthFactor: 0.6,
    hideFrom: { legend: false, tooltip: false, viz: false }, thresholdsStyle: { mode: 'off' } },
  table: { align: 'auto', cellOptions: { type: 'auto' }, inspect: false },
};
const COLOURS = { timeseries: FieldColorModeId.PaletteClassic };

function plugin(kind, component) {
  const made = new PanelPlugin(component);
  made.meta = { id: kind, name: kind, type: 'panel', sort: 0, baseUrl: '', module: '', info: { version: '', logos: { small: '', large: '' }, links: [], screenshots: [], author: {}, description: '', updated: '' } };
  made.useFieldConfig({
    standardOptions: { color: { defaultValue: { mode: COLOURS[kind] ?? FieldColorModeId.Thresholds }, settings: {} } },
    useCustomConfig: (builder) => {
      for (const path of CUSTOM[kind] ?? []) {
        builder.addCustomEditor({ id: path, path, name: path, defaultValue: DEFAULTS[kind][path], editor: () => null, override: identityOverrideProcessor, process: identityOverrideProcessor, shouldApply: () => true });
      }
    },
  });
  registerRuntimePanelPlugin({ pluginId: kind, plugin: made });
}

const Nothing = ({ fieldConfig }) => <div data-nothing style={{ display: 'flex', height: '100%', alignItems: 'center', justifyContent: 'center' }}>{fieldConfig?.defaults.noValue ?? 'No data'}</div>;
const empty = (data) => data.series.every((f) => f.length === 0 || f.fields.length === 0);

function useValues(props) {
  const styles = useTheme2();
  return () => getFieldDisplayValues({
    fieldConfig: props.fieldConfig, reduceOptions: props.options.reduceOptions, replaceVariables: props.replaceVariables, theme: styles, data: props.data.series, timeZone: props.timeZone,
  });
}

plugin('stat', (props) => {
  const styles = useTheme2();
  const values = useValues(props);
  return (
    <VizRepeater getValues={values} source={props.data} renderCounter={props.renderCounter} width={props.width} height={props.height} orientation={props.options.orientation ?? 'auto'} autoGrid
      renderValue={({ value, width, height, count }) => (
        <BigValue value={value.display} count={count} width={width} height={height} theme={styles} colorMode={props.options.colorMode} graphMode={props.options.graphMode}
          justifyMode={props.options.justifyMode} textMode={props.options.textMode} text={props.options.text} disableWideLayout={!props.options.wideLayout} />
      )} />
  );
});

plugin('bargauge', (props) => {
  const styles = useTheme2();
  const values = useValues(props);
  if (empty(props.data)) return <Nothing {...props} />;
  return (
    <VizRepeater getValues={values} source={props.data} renderCounter={props.renderCounter} width={props.width} height={props.height} orientation={props.options.orientation}
      minVizWidth={props.options.minVizWidth} minVizHeight={props.options.minVizHeight} maxVizHeight={props.options.maxVizHeight} itemSpacing={10}
      getAlignmentFactors={(all) => all.reduce((most, v) => ({ title: longer(most.title, v.display.title), text: longer(most.text, v.display.text), prefix: '', suffix: longer(most.suffix, v.display.suffix) }), { title: '', text: '', suffix: '' })}
      renderValue={({ value, width, height, alignmentFactors, orientation, count }) => (
        <BarGauge value={value.display} width={width} height={height} theme={styles} orientation={orientation} field={value.field} display={value.view ? value.view.getFieldDisplayProcessor(value.colIndex) : getDisplayProcessor({ field: value.field, theme: styles })}
          text={props.options.text} itemSpacing={10} lcdCellWidth={8} displayMode={props.options.displayMode} alignmentFactors={count > 1 ? alignmentFactors : undefined} showUnfilled={props.options.showUnfilled}
          valueDisplayMode={props.options.valueMode} namePlacement={props.options.namePlacement} />
      )} />
  );
});
const longer = (a = '', b = '') => (b.length > a.length ? b : a);

plugin('timeseries', (props) => {
  if (empty(props.data)) return <Nothing {...props} fieldConfig={{ defaults: {} }} />;
  return (
    <TimeSeries frames={props.data.series} structureRev={props.data.structureRev} timeRange={props.timeRange} timeZone={props.timeZone} width={props.width} height={props.height} legend={props.options.legend}
      options={props.options} replaceVariables={props.replaceVariables} />
  );
});

plugin('table', (props) => {
  const frame = props.data.series.find((f) => f.fields.length > 0 && f.length > 0);
  if (!frame) return <Nothing {...props} />;
  cacheFieldDisplayNames(props.data.series);
  return (
    <TableNG width={props.width} height={props.height} data={frame} showTypeIcons={false} noHeader={false} sortBy={props.options.sortBy} initialSortBy={props.options.sortBy} cellHeight={props.options.cellHeight}
      timeRange={props.timeRange} enableSharedCrosshair={false} fieldConfig={props.fieldConfig} getActions={() => []} structureRev={props.data.structureRev ?? 1} frozenColumns={0} disableKeyboardEvents />
  );
});

// Its drawing code is part of Grafana's core: here it tells what it was given.
plugin('heatmap', (props) => <div data-heatmap>{empty(props.data) ? 'No data' : `heat map of ${props.data.series.length} buckets (drawn by Grafana itself)`}</div>);

// The board ---------------------------------------------------------------------------------------------------------------

function variable(v) {
  const chosen = asked.getAll(`var-${v.name}`);
  const base = { name: v.name, label: v.label, hide: v.hide };
  if (v.type === 'datasource') return new DataSourceVariable({ ...base, pluginId: v.query, value: 'here' });
  if (v.type === 'constant') return new ConstantVariable({ ...base, value: v.query });
  const several = v.multi || v.includeAll;
  const value = chosen.length ? (several ? chosen : chosen[0]) : v.includeAll ? ['$__all'] : '';
  return new QueryVariable({
    ...base, datasource: v.datasource, query: v.query, refresh: v.refresh, sort: v.sort, isMulti: v.multi, includeAll: v.includeAll, allValue: v.allValue, value, text: value,
    defaultToAll: v.includeAll,
  });
}

function panel(p) {
  const runner = new SceneQueryRunner({ datasource: p.datasource, queries: p.targets, minInterval: p.interval, maxDataPoints: 600 });
  return new VizPanel({
    key: `panel-${p.id}`, pluginId: p.type, title: p.title, description: p.description, options: p.options, fieldConfig: p.fieldConfig,
    $data: p.transformations?.length ? new SceneDataTransformer({ $data: runner, transformations: p.transformations }) : runner,
  });
}

function scene(board) {
  const children = board.panels.map((p) => {
    const place = { x: p.gridPos.x, y: p.gridPos.y, width: p.gridPos.w, height: p.gridPos.h };
    if (p.type === 'row') return new SceneGridRow({ title: p.title, y: p.gridPos.y, x: 0, isCollapsed: false, isCollapsible: false, children: [] });
    return new SceneGridItem({ ...place, body: panel(p) });
  });
  return new EmbeddedScene({
    $timeRange: new SceneTimeRange({ from: asked.get('from') ?? board.time.from, to: asked.get('to') ?? board.time.to, timeZone: 'utc' }),
    $variables: new SceneVariableSet({ variables: board.templating.list.map(variable) }),
    controls: [new VariableValueSelectors({})],
    body: new SceneGridLayout({ isLazy: false, isDraggable: false, isResizable: false, children }),
  });
}

async function start() {
  await initPluginTranslations('roce');
  const board = await (await fetch(`/boards/${asked.get('board')}.json`)).json();
  registerRuntimeDataSource({ dataSource: prometheus });
  const root = scene(board);
  window.roce = { scene: root, prometheus, ready: () => settled(root) };
  createRoot(document.getElementById('root')).render(
    <MemoryRouter>
      <ThemeContext.Provider value={theme}>
        <GlobalStyles />
        <PortalContainer />
        <div style={{ padding: 8, background: theme.colors.background.canvas, color: theme.colors.text.primary }}>
          <h1 style={{ fontSize: 18, margin: '0 0 8px' }}>{board.title}</h1>
          <root.Component model={root} />
        </div>
      </ThemeContext.Provider>
    </MemoryRouter>,
  );
}

/** Whether all panels have their data; the errors that they met, and on which panels. */
function settled(root) {
  const errors = [];
  const failed = [];
  let waiting = 0;
  for (const v of sceneGraph.getVariables(root).state.variables) {
    if (v.state.error) errors.push(`variable ${v.state.name}: ${v.state.error.message ?? v.state.error}`);
    if (v.state.loading) waiting += 1;
  }
  for (const p of sceneGraph.findAllObjects(root, (o) => o instanceof VizPanel)) {
    const data = sceneGraph.getData(p).state.data;
    if (!data || data.state === LoadingState.Loading || data.state === LoadingState.NotStarted) waiting += 1;
    else if (data.state === LoadingState.Error) {
      failed.push(p.state.title);
      errors.push(`${p.state.title}: ${data.errors?.[0]?.message ?? data.error?.message}`);
    }
  }
  return { waiting, errors, failed, panels: sceneGraph.findAllObjects(root, (o) => o instanceof VizPanel).length };
}

window.roce = {};
start();
