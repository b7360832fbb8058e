// Curves over time, drawn by ECharts in the page's own colours. What they say is also said in
// `label`, and in the table that stands below them.
import { echarts } from "nicegui-echart";

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const precise = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

const duration = (v) =>
  v >= 1 ? `${precise.format(v)} s` : v >= 1e-3 ? `${precise.format(v * 1e3)} ms` : `${precise.format(v * 1e6)} µs`;

const FORMATS = {
  percent: [(v) => `${precise.format(100 * v)} %`, (v) => `${(100 * v).toFixed(1)} %`],
  count: [(v) => compact.format(v), (v) => precise.format(v)],
  seconds: [(v) => (v ? duration(v) : "0"), duration],
};

const colours = (element) => {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(`--${name}`).trim();
};

const pairs = (times, values) => times.map((time, i) => [time, values[i]]);

// A value between two gaps has no line to be seen by.
const isAlone = (values, i) => values[i] !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null;

function band(series, times, colour, index) {
  const width = series.high.map((high, i) => (high === null || series.low[i] === null ? null : high - series.low[i]));
  const common = {
    type: "line",
    stack: `band ${index}`,
    stackStrategy: "all",
    symbol: "none",
    silent: true,
    lineStyle: { opacity: 0 },
    tooltip: { show: false },
    z: 1,
  };
  return [
    { ...common, name: `${series.name}: low`, data: pairs(times, series.low) },
    { ...common, name: `${series.name}: high`, data: pairs(times, width), areaStyle: { color: colour, opacity: 0.18 } },
  ];
}

function curve(series, times, colour) {
  return {
    name: series.name,
    type: "line",
    data: times.map((time, i) => ({
      value: [time, series.values[i]],
      symbol: isAlone(series.values, i) ? "circle" : "none",
    })),
    showAllSymbol: true,
    symbolSize: 5,
    step: series.stepped ? "end" : false,
    lineStyle: { width: 2, type: series.dash, color: colour },
    itemStyle: { color: colour },
    emphasis: { disabled: true },
    z: 2,
  };
}

function marks(group, colour) {
  const line = { color: colour, type: group.dash, width: group.width, opacity: group.width > 1 ? 1 : 0.6 };
  return {
    name: group.name,
    type: "line",
    data: [],
    lineStyle: line,
    itemStyle: { color: colour },
    tooltip: { show: false },
    markLine: {
      silent: true,
      symbol: "none",
      label: { show: false },
      lineStyle: line,
      data: group.times.map((time) => ({ xAxis: time })),
    },
  };
}

function options(spec, colour) {
  const [axis, exact] = FORMATS[spec.unit];
  const text = { color: colour("muted"), fontFamily: "system-ui, sans-serif", fontSize: 12 };
  const lines = { lineStyle: { color: colour("border") } };
  const series = [];
  spec.series.forEach((one, i) => {
    if (one.low) series.push(...band(one, spec.times, colour(one.colour), i));
    series.push(curve(one, spec.times, colour(one.colour)));
  });
  for (const group of spec.marks) series.push(marks(group, colour(group.colour)));
  const named = [...spec.series, ...spec.marks].map((one) => one.name);
  return {
    animation: false,
    textStyle: text,
    grid: { left: 4, right: 12, top: named.length > 1 ? 34 : 12, bottom: 4, containLabel: true },
    legend: {
      show: named.length > 1,
      data: named,
      top: 0,
      left: 0,
      type: "scroll",
      itemWidth: 22,
      itemHeight: 8,
      icon: "inherit",
      textStyle: text,
      inactiveColor: colour("border"),
      pageIconColor: colour("text"),
      pageTextStyle: text,
    },
    tooltip: {
      trigger: "axis",
      renderMode: "richText",
      confine: true,
      backgroundColor: colour("surface"),
      borderColor: colour("border"),
      textStyle: { ...text, color: colour("text") },
      valueFormatter: (value) => (value === null || value === undefined ? "–" : exact(value)),
      axisPointer: { lineStyle: { color: colour("muted") } },
    },
    xAxis: {
      type: "time",
      axisLabel: { ...text, hideOverlap: true },
      axisLine: lines,
      axisTick: lines,
      splitLine: { show: false },
      splitNumber: 5,
    },
    yAxis: {
      type: "value",
      min: spec.low,
      max: spec.high,
      scale: false,
      splitNumber: 4,
      interval: spec.unit === "percent" && spec.high === 1 ? 0.25 : undefined,
      minInterval: spec.unit === "count" && spec.whole ? 1 : undefined,
      axisLabel: { ...text, formatter: axis },
      splitLine: lines,
    },
    series,
  };
}

export default {
  props: { spec: Object, label: String },
  render() {
    return Vue.h("div", { class: "chart", role: "img", "aria-label": this.label });
  },
  mounted() {
    this.chart = echarts.init(this.$el, null, { renderer: "canvas" });
    this.resized = new ResizeObserver(() => this.chart.resize());
    this.resized.observe(this.$el);
    // The theme is a class of the body.
    this.recoloured = new MutationObserver(() => this.draw());
    this.recoloured.observe(document.body, { attributeFilter: ["class"] });
    this.draw();
  },
  beforeUnmount() {
    this.resized.disconnect();
    this.recoloured.disconnect();
    this.chart.dispose();
  },
  methods: {
    draw() {
      this.chart.setOption(options(this.spec, colours(document.body)), { notMerge: true });
      // For whoever wants to know what is drawn without looking: how far the curves reach.
      this.$el.dataset.points = this.spec.times.length;
      this.$el.dataset.last = this.spec.times.at(-1) ?? "";
    },
  },
  watch: {
    spec() {
      this.draw();
    },
  },
};
