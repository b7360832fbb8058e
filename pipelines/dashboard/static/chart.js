// Curves over time, drawn by ECharts in the page's own colours, and the same as a table that can be
// opened. What changes of them comes by itself: what is pointed at, or left out of the legend, stays.
// ECharts is a megabyte, for which nothing else on a page has to wait.

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const precise = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });

const duration = (v) =>
  v >= 1 ? `${precise.format(v)}\u00a0s` : v >= 1e-3 ? `${precise.format(v * 1e3)}\u00a0ms` : `${precise.format(v * 1e6)}\u00a0µs`;

const FORMATS = {
  percent: [(v) => `${precise.format(100 * v)}\u00a0%`, (v) => `${(100 * v).toFixed(1)}\u00a0%`],
  count: [(v) => (Math.abs(v) < 10_000 ? precise : compact).format(v), (v) => precise.format(v)],
  seconds: [(v) => (v ? duration(v) : "0"), duration],
};

const colours = (element) => {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(`--${name}`).trim();
};

const ROWS = 12; // of the table that says the same
const HEIGHT_OF_TICKS = 7;

// Signs of the legend: as curves, bands, vertical lines and ticks are drawn.
const ICONS = {
  solid: "path://M0 0h24v2h-24z",
  dashed: "path://M0 0h6v2h-6zM9 0h6v2h-6zM18 0h6v2h-6z",
  dotted: "path://M0 0h2v2h-2zM5 0h2v2h-2zM11 0h2v2h-2zM17 0h2v2h-2zM22 0h2v2h-2z",
  band: "rect",
  line: "path://M0 0h2v10h-2z",
  ticks: "path://M0 0h2v7h-2zM6 0h2v7h-2zM12 0h2v7h-2z",
};

// A value between two gaps has no line to be seen by.
const isAlone = (values, i) => values[i] !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null;

// Where each series stands in a row, whose first is the time; one with a band has two more.
function places(series) {
  let next = 1;
  return series.map((one) => {
    const at = next;
    next += one.band ? 3 : 1;
    return at;
  });
}

// The value of a series in a row; of one that is a band alone, only its ends.
function reading(series, row, at, said) {
  const [value, low, high] = row.slice(at, at + 3);
  const ends = series.band && typeof low === "number" ? `${said(low)} to ${said(high)}` : "";
  if (!series.line) return ends || said(null);
  return said(value) + (ends && ` (${ends})`);
}

function band(series, at, rows, colour) {
  const common = {
    type: "line",
    stack: `band ${series.name}`,
    stackStrategy: "all",
    symbol: "none",
    silent: true,
    lineStyle: { opacity: 0 },
    tooltip: { show: false },
    z: 1,
  };
  const width = (row) => (row[at + 2] === null || row[at + 1] === null ? null : row[at + 2] - row[at + 1]);
  const low = { ...common, id: `${series.name}: low`, data: rows.map((row) => [row[0], row[at + 1]]) };
  const high = { ...common, id: `${series.name}: high`, areaStyle: { color: colour, opacity: 0.18 } };
  return [low, { ...high, data: rows.map((row) => [row[0], width(row)]) }];
}

function curve(series, at, rows, colour) {
  const values = rows.map((row) => row[at]);
  return {
    id: series.name,
    name: series.name,
    type: "line",
    data: rows.map((row, i) => ({ value: [row[0], row[at]], symbol: isAlone(values, i) ? "circle" : "none" })),
    showAllSymbol: true,
    symbolSize: 5,
    step: series.stepped ? "end" : false,
    lineStyle: { width: series.line ? 2 : 0, type: series.dash, color: colour },
    itemStyle: { color: colour, opacity: series.line ? 1 : 0.3 },
    emphasis: { disabled: true },
    z: 2,
  };
}

function lines(group, colour) {
  const line = { color: colour, type: "solid", width: 2 };
  return {
    id: group.name,
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

function ticks(group, low, colour) {
  return {
    id: group.name,
    name: group.name,
    type: "scatter",
    data: group.times.map((time) => [time, low]),
    symbol: "rect",
    symbolSize: [2, HEIGHT_OF_TICKS],
    symbolOffset: [0, HEIGHT_OF_TICKS / 2 + 1],
    clip: false,
    silent: true,
    itemStyle: { color: colour },
    tooltip: { show: false },
    z: 3,
  };
}

function tooltip(frame, text, colour) {
  const [, exact] = FORMATS[frame.unit];
  const said = (value) => (value === null || value === undefined ? "–" : exact(value));
  return {
    trigger: "axis",
    renderMode: "richText",
    confine: true,
    backgroundColor: colour("surface"),
    borderColor: colour("border"),
    textStyle: { ...text, color: colour("text") },
    axisPointer: { lineStyle: { color: colour("muted") } },
    formatter(found) {
      const at = found[0]?.axisValue;
      const row = this.rows.get(at) ?? [];
      const shown = new Set(found.map((one) => one.seriesName));
      const starts = places(frame.series);
      const lines = frame.series.flatMap((one, i) => {
        if (!shown.has(one.name)) return [];
        return [`${one.name}  ${reading(one, row, starts[i], said)}`];
      });
      const told = [new Date(at).toLocaleTimeString("en-GB"), ...lines].join("\n");
      this.$refs.chart.dataset.told = told;
      return told;
    },
  };
}

// How many lines the names of a legend take, by about how wide they are.
function linesOf(names, width) {
  let [lines, used] = [1, 0];
  for (const name of names) {
    const wide = 44 + 7 * name.length;
    if (used && used + wide > width) [lines, used] = [lines + 1, 0];
    used += wide;
  }
  return lines;
}

function options(frame, rows, marks, ends, colour, width) {
  const [axis] = FORMATS[frame.unit];
  const text = { color: colour("muted"), fontFamily: "system-ui, sans-serif", fontSize: 12 };
  const strokes = { lineStyle: { color: colour("border") } };
  const starts = places(frame.series);
  const series = frame.series.flatMap((one, i) => [
    ...(one.band ? band(one, starts[i], rows, colour(one.colour)) : []),
    curve(one, starts[i], rows, colour(one.colour)),
  ]);
  for (const group of marks) {
    series.push(group.ticks ? ticks(group, frame.low ?? 0, colour(group.colour)) : lines(group, colour(group.colour)));
  }
  const names = [
    ...frame.series.map((one) => ({ name: one.name, icon: ICONS[one.line ? one.dash : "band"] })),
    ...marks.map((one) => ({ name: one.name, icon: ICONS[one.ticks ? "ticks" : "line"] })),
  ];
  const named = names.map((one) => one.name);
  return {
    animation: false,
    textStyle: text,
    grid: { left: 4, right: 30, top: named.length > 1 ? 12 + 22 * linesOf(named, width) : 12, bottom: 4, containLabel: true },
    legend: {
      show: named.length > 1,
      data: names,
      top: 0,
      left: 0,
      width: width - 12, // its padding on both sides
      itemWidth: 24,
      itemHeight: 10,
      textStyle: text,
      inactiveColor: colour("border"),
    },
    tooltip: tooltip(frame, text, colour),
    xAxis: {
      type: "time",
      min: ends[0],
      max: ends[1],
      axisLabel: { ...text, hideOverlap: true, margin: HEIGHT_OF_TICKS + 6 },
      axisLine: strokes,
      axisTick: strokes,
      splitLine: { show: false },
      splitNumber: 5,
    },
    yAxis: {
      type: "value",
      min: frame.low,
      max: frame.high,
      scale: false,
      splitNumber: 4,
      interval: frame.unit === "percent" && frame.high === 1 ? 0.25 : undefined,
      minInterval: frame.unit === "count" && frame.whole ? 1 : undefined,
      axisLabel: { ...text, formatter: axis },
      splitLine: strokes,
    },
    series,
  };
}

// Where the lowest and the highest value of a column stand.
function extremes(rows, at) {
  const known = [...rows.keys()].filter((i) => typeof rows[i][at] === "number");
  if (!known.length) return [];
  const most = (isBefore) => known.reduce((a, b) => (isBefore(rows[b][at], rows[a][at]) ? b : a));
  return [most((b, a) => b < a), most((b, a) => b > a)];
}

function table(frame, rows, label) {
  const [, exact] = FORMATS[frame.unit];
  const said = (value) => (value === null || value === undefined ? "—" : exact(value));
  const n = rows.length;
  const starts = places(frame.series);
  const evenly = [...Array(ROWS).keys()].map((i) => Math.round((i * (n - 1)) / (ROWS - 1)));
  const kept = [...new Set([...evenly, ...starts.flatMap((at) => extremes(rows, at))])].sort((a, b) => a - b);
  const line = (row) =>
    Vue.h("tr", { key: row[0] }, [
      Vue.h("th", { scope: "row", class: "words" }, new Date(row[0]).toLocaleString("en-GB")),
      ...frame.series.map((one, i) => Vue.h("td", { class: "number" }, reading(one, row, starts[i], said))),
    ]);
  const heads = [Vue.h("th", { scope: "col", class: "words" }, "Time")];
  for (const one of frame.series) heads.push(Vue.h("th", { scope: "col", class: "number" }, one.name));
  const left = `${kept.length} of ${n} points: evenly spaced, plus minima and maxima.`;
  const caption = Vue.h("caption", { class: kept.length < n ? "about" : "sr-only" }, kept.length < n ? left : label);
  const parts = [caption, Vue.h("thead", [Vue.h("tr", heads)]), Vue.h("tbody", kept.reverse().map((i) => line(rows[i])))];
  return Vue.h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Table: ${label}` }, [
    Vue.h("table", parts),
  ]);
}

export default {
  props: { spec: Object, label: String },
  emits: ["zoom"],
  data() {
    return { open: false, drawn: 0 };
  },
  render() {
    const rows = this.open ? this.sorted() : [];
    return Vue.h("div", { class: "curves" }, [
      Vue.h("div", { class: "chart", role: "img", "aria-label": this.label, ref: "chart" }),
      Vue.h("div", { class: "brush", ref: "brush", hidden: true }),
      Vue.h("details", { class: "as-table", onToggle: (event) => (this.open = event.target.open) }, [
        Vue.h("summary", "Show as table"),
        this.open && this.drawn && rows.length ? table(this.spec.frame, rows, this.label) : null,
      ]),
    ]);
  },
  created() {
    this.take();
  },
  async mounted() {
    this.$el.addEventListener("change-of-data", (event) => this.change(event.detail));
    const { echarts } = await import("nicegui-echart");
    if (!this.$refs.chart) return; // it went meanwhile
    this.chart = echarts.init(this.$refs.chart, null, { renderer: "canvas" });
    this.resized = new ResizeObserver(() => this.chart.resize());
    this.resized.observe(this.$refs.chart);
    // The theme is a class of the body.
    this.recoloured = new MutationObserver(() => this.draw());
    this.recoloured.observe(document.body, { attributeFilter: ["class"] });
    this.watchDragging();
    this.draw();
  },
  beforeUnmount() {
    this.resized?.disconnect();
    this.recoloured?.disconnect();
    this.chart?.dispose();
  },
  methods: {
    sorted() {
      return [...this.rows.values()].sort((a, b) => a[0] - b[0]);
    },
    take() {
      this.rows = new Map(this.spec.rows.map((row) => [row[0], row]));
      this.marks = this.spec.marks;
      this.ends = this.spec.ends;
    },
    change({ gone = [], put = [], marks, ends }) {
      for (const time of gone) this.rows.delete(time);
      for (const row of put) this.rows.set(row[0], row);
      this.marks = marks ?? this.marks;
      // Unless told otherwise, the axis goes on to its newest row.
      this.ends = ends ?? [this.ends[0], Math.max(0, ...this.rows.keys())];
      this.draw();
    },
    draw() {
      if (!this.chart) return;
      const rows = this.sorted();
      const made = options(this.spec.frame, rows, this.marks, this.ends, colours(document.body), this.$refs.chart.clientWidth);
      const tell = made.tooltip.formatter;
      made.tooltip.formatter = (found) => tell.call(this, found);
      this.chart.setOption(made, { replaceMerge: ["series"] });
      this.drawn += 1;
      // For whoever wants to know what is drawn without looking: how far the curves reach.
      Object.assign(this.$refs.chart.dataset, {
        points: rows.length,
        first: rows.at(0)?.[0] ?? "",
        last: rows.at(-1)?.[0] ?? "",
        from: this.ends[0] ?? "",
        to: this.ends[1] ?? "",
      });
    },
    watchDragging() {
      const paper = this.chart.getZr();
      const brush = this.$refs.brush;
      const at = (x) => this.chart.convertFromPixel({ xAxisIndex: 0 }, x);
      let begun = null;
      paper.on("mousedown", (event) => {
        if (this.chart.containPixel("grid", [event.offsetX, event.offsetY])) begun = event.offsetX;
      });
      paper.on("mousemove", (event) => {
        if (begun === null) return;
        brush.hidden = false;
        brush.style.height = `${this.$refs.chart.offsetHeight}px`;
        brush.style.left = `${Math.min(begun, event.offsetX)}px`;
        brush.style.width = `${Math.abs(event.offsetX - begun)}px`;
      });
      const end = (event) => {
        if (begun !== null && Math.abs(event.offsetX - begun) > 5) this.$emit("zoom", [at(begun), at(event.offsetX)]);
        begun = null;
        brush.hidden = true;
      };
      paper.on("mouseup", end);
      paper.on("globalout", () => {
        begun = null;
        brush.hidden = true;
      });
    },
  },
  watch: {
    spec() {
      this.take();
      this.draw();
    },
  },
};
