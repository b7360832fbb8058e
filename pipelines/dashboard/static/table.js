// A table whose cells may carry a bar, a scale or a shade. All text goes in as text, never as markup.
const drawn = ({ at, low, high, marks }, colour) => {
  const place = (share) => `${Math.round(1000 * share) / 10}%`;
  const part = (kind, share) => Vue.h("span", { class: kind, style: { left: place(share) } });
  const known = marks.map((mark, i) => [mark, i]).filter(([mark]) => mark !== null);
  return Vue.h("span", { class: "scale", "aria-hidden": "true" }, [
    Vue.h("span", { class: "band", style: { left: place(low), width: place(high - low) } }),
    part("middle", 0.5),
    ...known.map(([mark, i]) => part(`mark mark-${i + 1}`, mark)),
    at === null ? null : part(`at ${colour ?? "series-1"}`, at),
  ]);
};
const isMore = (value) => typeof value === "object" && value !== null;
const cell = (value, i, head, chars) => {
  const { text, bar, colour, shade, note, scale, link, picture } = isMore(value) ? value : { text: value };
  const words = Vue.h("bdi", { class: "text" }, text);
  let inside = [link ? Vue.h("a", { href: link }, [words]) : words];
  if (picture) inside.unshift(Vue.h("img", { class: "thumb", src: picture, alt: "" }));
  if (note) inside.unshift(Vue.h("span", { class: "sr-only" }, note));
  if (scale) inside = [Vue.h("span", { class: "line" }, [drawn(scale, colour), ...inside])];
  if (bar !== undefined && bar !== null) {
    const fill = Vue.h("span", {
      class: ["fill", colour ?? "series-1"],
      style: { width: `${Math.round(1000 * Math.min(Math.max(bar, 0), 1)) / 10}%` },
    });
    inside.unshift(Vue.h("span", { class: "bar", "aria-hidden": "true" }, [fill]));
    inside = [Vue.h("span", { class: "line", style: { "--chars": chars } }, inside)];
  }
  const style = shade ? { "--shade": `${Math.round(45 * shade)}%` } : undefined;
  const kind = [head.kind, { barred: bar !== undefined && bar !== null, shaded: Boolean(shade), wrong: colour === "bad" }];
  return i === 0
    ? Vue.h("th", { scope: "row", class: kind, style }, inside)
    : Vue.h("td", { class: kind, style }, inside);
};

export default {
  props: { caption: String, columns: Array, rows: Array },
  data() {
    return { shown: this.rows ?? [] };
  },
  mounted() {
    this.$el.addEventListener("change-of-data", (event) => {
      const rows = this.shown.slice();
      for (const [i, j, value] of event.detail.cells) {
        if (!rows[i]) continue;
        rows[i] = rows[i].slice();
        // What differs of a cell that has more than a text.
        rows[i][j] = isMore(value) && isMore(rows[i][j]) ? { ...rows[i][j], ...value } : value;
      }
      this.shown = rows;
    });
  },
  watch: {
    rows(rows) {
      this.shown = rows;
    },
  },
  render() {
    const head = this.columns.map((column) => Vue.h("th", { scope: "col", class: column.kind }, [Vue.h("bdi", column.text)]));
    // The longest text of each column; what is beside a bar takes as much room in all rows.
    const chars = this.columns.map((_, i) => Math.max(0, ...this.shown.map((row) => (row[i]?.text ?? row[i] ?? "").length)));
    const rows = this.shown.map((row, n) =>
      Vue.h("tr", { key: n }, row.map((value, i) => cell(value, i, this.columns[i] ?? {}, chars[i]))),
    );
    const table = Vue.h("table", [
      Vue.h("caption", { class: "sr-only" }, this.caption),
      Vue.h("thead", [Vue.h("tr", head)]),
      Vue.h("tbody", rows),
    ]);
    // Wide tables scroll in their own box, which the keyboard can reach.
    return Vue.h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `Table: ${this.caption}` }, [table]);
  },
};
