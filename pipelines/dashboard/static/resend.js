// Editor for a dead letter: its text is fixed here and resent.
export default {
  props: { text: String, number: Number },
  emits: ["sent"],
  data() {
    return { value: this.text };
  },
  render() {
    const id = `letter-${this.number}`;
    return Vue.h("form", { class: "resend", onSubmit: this.submit }, [
      Vue.h("label", { for: id }, "Fix and resend it"),
      Vue.h("textarea", {
        id,
        rows: 5,
        spellcheck: "false",
        value: this.value,
        onInput: (event) => (this.value = event.target.value),
      }),
      Vue.h("button", { type: "submit", disabled: !this.value.trim() }, "Resend"),
    ]);
  },
  methods: {
    submit(event) {
      event.preventDefault();
      this.$emit("sent", { text: this.value });
    },
  },
};
