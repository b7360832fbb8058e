// What was answered, the newest first; whoever may change an answer has a button for it.
const HEADINGS = ["Record", "Answer", "Who", "When", "State"];

export default {
  props: { rows: Array },
  emits: ["change"],
  render() {
    const h = Vue.h;
    const heading = (text) => h("th", { scope: "col", class: "words" }, text);
    const change = (row) =>
      h("button", {
        type: "button",
        "aria-label": `Change record ${row.id}, which is ${row.answer}`,
        onClick: () => this.$emit("change", { number: row.number }),
      }, "Change");
    const line = (row) =>
      h("tr", { key: row.number }, [
        h("th", { scope: "row" }, [h("bdi", row.id)]),
        h("td", [
          h("bdi", row.answer),
          row.others && h("span", { class: "others" }, ["; ", h("bdi", row.others)]),
        ]),
        h("td", [h("bdi", row.person)]),
        h("td", row.when),
        h("td", row.state),
        h("td", row.changeable ? [change(row)] : []),
      ]);
    const table = h("table", [
      h("caption", { class: "sr-only" }, "The newest answers, by everybody"),
      h("thead", [h("tr", [...HEADINGS.map(heading), h("td")])]),
      h("tbody", (this.rows ?? []).map(line)),
    ]);
    return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table: the newest answers" }, [table]);
  },
};
