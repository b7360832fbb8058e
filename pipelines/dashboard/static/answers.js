// The answers, by pointer or keyboard. Each is sent with its turn: a key that is pressed twice
// cannot reach a record that was not shown yet.
const ACTIONS = [
  ["skip", "Skip", "s"],
  ["not_sure", "Not sure", "n"],
  ["undo", "Undo", "u"],
  ["change", "Change last answer", "c"],
];
const ALWAYS = ["undo", "change", "keep"];
const MANY = 12; // classes from which they can be searched

export default {
  props: { turn: Number, open: Boolean, choices: Array, numeric: Boolean, closed: Boolean, gone: Boolean, doubt: Object, changing: Object },
  emits: ["given"],
  data() {
    return { sent: null, other: "", query: "" };
  },
  computed: {
    found() {
      const wanted = this.query.trim().toLowerCase();
      return this.choices.filter((one) => one.name.toLowerCase().includes(wanted));
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
    const answerable = this.open || Boolean(this.changing);
    const actions = ACTIONS.filter(([name]) => (this.open && !this.changing) || ALWAYS.includes(name)).map(action);
    return h("div", { class: "answers" }, [
      gone,
      changing,
      answerable && search,
      answerable && h("div", { class: "choices", role: "group", "aria-label": "Classes" }, this.found.map(choice)),
      answerable && doubt,
      answerable && !this.closed && other,
      h("div", { class: "actions", role: "group", "aria-label": "Instead of a label" }, actions),
    ]);
  },
  mounted() {
    this.heard = (event) => {
      if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
      if (["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName)) return;
      const pressed = event.key.toLowerCase();
      if (pressed === "escape" && this.changing) return this.give("keep");
      const search = pressed === "/" && document.getElementById("class-search");
      if (search) {
        event.preventDefault();
        return search.focus();
      }
      const chosen = this.choices.find((one) => one.key === pressed);
      const action = ACTIONS.find(([, , shortcut]) => shortcut === pressed);
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
    give(action, label = null, sure = false) {
      if (this.sent === this.turn || !(this.open || this.changing || ALWAYS.includes(action))) return;
      this.sent = this.turn;
      this.$emit("given", { turn: this.turn, action, label, sure });
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
