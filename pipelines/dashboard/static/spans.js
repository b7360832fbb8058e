// The time range of all charts, chosen by pointer or keyboard, or by dragging over a chart.
const STEPS = [
  ["earlier", "Earlier"],
  ["later", "Later"],
  ["closer", "Zoom in"],
];

export default {
  props: { names: Array, chosen: String, told: String },
  emits: ["chosen"],
  render() {
    const button = (name, title, attributes) =>
      Vue.h("button", { type: "button", key: name, onClick: () => this.$emit("chosen", name), ...attributes }, title);
    return Vue.h("div", { class: "spans", role: "group", "aria-label": "Time shown by all charts" }, [
      ...(this.names ?? []).map((name) => button(name, name, { "aria-pressed": String(name === this.chosen) })),
      ...STEPS.map(([name, title]) => button(name, title, {})),
      Vue.h("span", { role: "status", class: "told" }, this.told ?? ""),
    ]);
  },
};
