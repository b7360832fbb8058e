// The answers, by pointer or keyboard. Each is sent with its turn: a key that is pressed twice
// cannot reach a record that was not shown yet.
const ACTIONS = [
  ["skip", "Skip", "s"],
  ["not_sure", "Not sure", "n"],
  ["undo", "Undo", "u"],
  ["change", "Change last answer", "c"],
  ["similar", "Similar records", "m"],
];
const ALWAYS = ["undo", "change", "keep"];
const MANY = 12; // classes from which they can be searched

export default {
  props: { turn: Number, open: Boolean, choices: Array, numeric: Boolean, closed: Boolean, gone: Boolean, doubt: Object, changing: Object, bulk: Boolean, similar: Array },
  emits: ["given"],
  data() {
    return { sent: null, other: "", query: "", left: [], place: "" };
  },
  computed: {
    found() {
      const wanted = this.query.trim().toLowerCase();
      return this.choices.filter((one) => one.name.toLowerCase().includes(wanted));
    },
    grid() {
      return this.open && !this.changing && !this.gone && Boolean(this.similar?.length);
    },
    checked() {
      return this.similar.map((one) => one.id).filter((id) => !this.left.includes(id));
    },
  },
  render() {
    const h = Vue.h;
    const key = (text) => h("kbd", { "aria-hidden": "true" }, text);
    const choice = (one) =>
      h("button", {
        type: "button",
        class: ["choice", { guess: one.guess }],
        "aria-keyshortcuts": one.key ?? undefined,
        onClick: () => this.give("label", one.label),
      }, [
        one.key ? key(one.key) : h("span", { class: "no-key" }),
        h("bdi", { class: "name" }, one.name),
        h("span", { class: "share" }, one.share ?? ""),
        one.share && h("span", { class: "bar", "aria-hidden": "true" }, [
          h("span", { class: "fill", style: { width: `${100 * one.part}%` } }),
        ]),
      ]);
    const action = ([name, text, shortcut]) =>
      h("button", {
        type: "button",
        "aria-keyshortcuts": shortcut,
        onClick: () => this.give(name),
      }, [key(shortcut.toUpperCase()), text]);
    const other = h("form", { class: "other", onSubmit: this.submit }, [
      h("label", { for: "other-label" }, "Another class"),
      h("input", {
        id: "other-label",
        value: this.other,
        autocomplete: "off",
        inputmode: this.numeric ? "numeric" : undefined,
        onInput: (event) => (this.other = event.target.value),
      }),
      h("button", { type: "submit", disabled: !this.other.trim() }, "Submit"),
    ]);
    const search = this.choices.length > MANY && h("form", { class: "other", role: "search", onSubmit: this.choose }, [
      h("label", { for: "class-search" }, "Find a class"),
      h("input", {
        id: "class-search",
        type: "search",
        value: this.query,
        autocomplete: "off",
        "aria-keyshortcuts": "/",
        onInput: (event) => (this.query = event.target.value),
      }),
      key("/"),
    ]);
    const button = (words, name, label) =>
      h("button", { type: "button", onClick: () => this.give("label", label, true) }, [words, h("bdi", name)]);
    const doubt = this.doubt && h("div", { class: "doubt", role: "alert" }, [
      h("p", [h("bdi", this.doubt.name), " is a new class. Did you mean ", h("bdi", this.doubt.near), "?"]),
      h("div", { class: "actions" }, [
        button("Yes, it is ", this.doubt.near, this.doubt.known),
        button("No, add ", this.doubt.name, this.doubt.label),
      ]),
    ]);
    const gone = this.gone && !this.changing && h("div", { class: "doubt gone", role: "alert" }, [
      h("p", "It was answered or expired meanwhile. Any answer key opens the next record."),
      h("div", { class: "actions" }, [
        h("button", { type: "button", onClick: () => this.give("next") }, "Next record"),
      ]),
    ]);
    const changing = this.changing && h("div", { class: "doubt changing", role: "alert", tabindex: -1 }, [
      h("p", ["Record ", h("bdi", this.changing.id), " is ", h("bdi", this.changing.label), ". What is it instead?"]),
      h("div", { class: "actions" }, [
        h("button", { type: "button", "aria-keyshortcuts": "Escape", onClick: () => this.give("keep") }, [key("Esc"), "Cancel"]),
      ]),
    ]);
    const answerable = !this.grid && (this.open || Boolean(this.changing));
    const offered = ([name]) => (this.open && !this.changing && (name !== "similar" || (this.bulk && !this.gone))) || ALWAYS.includes(name);
    const actions = !this.grid && ACTIONS.filter(offered).map(action);
    const card = (one) => h("li", h("label", [
      h("input", { type: "checkbox", checked: !this.left.includes(one.id), onChange: (event) => this.check(one.id, event.target.checked) }),
      one.picture && h("img", { src: one.picture, alt: "" }),
      h("span", { class: "about" }, [
        h("span", { class: "whose" }, ["record ", h("bdi", one.name)]),
        one.text && h("bdi", { class: "excerpt" }, one.text),
      ]),
    ]));
    const n = this.grid && this.checked.length;
    const grid = this.grid && h("form", { class: "similar", onSubmit: this.submitAll, "aria-labelledby": "similar-title" }, [
      h("h3", { id: "similar-title", tabindex: -1 }, "Similar records"),
      h("p", { class: "about" }, "Uncheck the records of another class."),
      h("ul", { class: "cards" }, this.similar.map(card)),
      h("div", { class: "other" }, [
        h("label", { for: "similar-class" }, "Class"),
        h("select", { id: "similar-class", value: this.place, onChange: (event) => (this.place = event.target.value) }, [
          h("option", { value: "" }, "Choose a class"),
          ...this.choices.map((one, place) => h("option", { value: String(place) }, one.key ? `${one.key}: ${one.name}` : one.name)),
        ]),
        h("button", { type: "submit", disabled: !n || this.place === "" }, `Label ${n} record${n === 1 ? "" : "s"}`),
        h("button", { type: "button", "aria-keyshortcuts": "Escape", onClick: () => this.give("close") }, [key("Esc"), "Cancel"]),
      ]),
    ]);
    return h("div", { class: "answers" }, [
      gone,
      changing,
      grid,
      answerable && search,
      answerable && h("div", { class: "choices", role: "group", "aria-label": "Classes" }, this.found.map(choice)),
      answerable && doubt,
      answerable && !this.closed && other,
      actions && h("div", { class: "actions", role: "group", "aria-label": "Instead of a label" }, actions),
    ]);
  },
  mounted() {
    this.heard = (event) => {
      if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
      const pressed = event.key.toLowerCase();
      if (pressed === "escape" && this.grid) return this.give("close");
      const focused = document.activeElement;
      if (["INPUT", "TEXTAREA", "SELECT"].includes(focused?.tagName) && focused.type !== "checkbox") return;
      if (this.grid) {
        const at = this.choices.findIndex((one) => one.key === pressed);
        if (at >= 0) this.place = String(at);
        if (pressed === "enter" && !["A", "BUTTON", "SUMMARY"].includes(focused?.tagName)) this.submitAll(event);
        return;
      }
      if (pressed === "escape" && this.changing) return this.give("keep");
      const search = pressed === "/" && document.getElementById("class-search");
      if (search) {
        event.preventDefault();
        return search.focus();
      }
      const chosen = this.choices.find((one) => one.key === pressed);
      const action = ACTIONS.find(([name, , shortcut]) => shortcut === pressed && (name !== "similar" || this.bulk));
      if (!chosen && !action) return;
      event.preventDefault();
      if (chosen) this.give("label", chosen.label);
      else this.give(action[0]);
    };
    document.addEventListener("keydown", this.heard);
    if (this.changing) this.turnToChange();
  },
  beforeUnmount() {
    document.removeEventListener("keydown", this.heard);
  },
  methods: {
    turnToChange() {
      const asked = this.$el.querySelector(".changing");
      asked.focus({ preventScroll: true });
      document.querySelector(".record")?.scrollIntoView();
      asked.scrollIntoView({ block: "nearest" });
    },
    check(id, isChecked) {
      this.left = this.left.filter((other) => other !== id);
      if (!isChecked) this.left.push(id);
    },
    submitAll(event) {
      event.preventDefault();
      if (this.place !== "" && this.checked.length) this.give("label", this.choices[this.place].label, true, this.checked);
    },
    give(action, label = null, sure = false, ids = []) {
      if (this.sent === this.turn || !(this.open || this.changing || ALWAYS.includes(action))) return;
      this.sent = this.turn;
      this.$emit("given", { turn: this.turn, action, label, sure, ids });
    },
    choose(event) {
      event.preventDefault();
      if (!this.query.trim() || !this.found.length) return;
      document.activeElement.blur(); // the next key is an answer again
      this.give("label", this.found[0].label);
    },
    submit(event) {
      event.preventDefault();
      if (!this.other.trim()) return;
      this.give("label", this.other.trim());
      this.other = "";
    },
  },
  watch: {
    turn() {
      this.query = "";
      this.left = [];
      this.place = "";
    },
    grid(opened) {
      if (opened) Vue.nextTick(() => this.$el.querySelector("#similar-title").focus());
    },
    changing(begun, before) {
      if (Boolean(begun) === Boolean(before)) return;
      if (begun) this.from = document.activeElement;
      Vue.nextTick(() => {
        if (!begun) return this.from?.isConnected && this.from.focus({ preventScroll: true });
        this.turnToChange();
      });
    },
    doubt(asked) {
      if (asked) Vue.nextTick(() => this.$el.querySelector(".doubt button").focus());
    },
  },
};
