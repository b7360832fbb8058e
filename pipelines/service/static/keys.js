// Tells of the keys it is to know, with the record that was shown when they were pressed: one that
// is pressed twice cannot reach a record nobody has seen.
export default {
  props: { known: Array, record: String },
  emits: ["pressed"],
  render() {
    return null;
  },
  mounted() {
    this.heard = (event) => {
      if (event.repeat || event.ctrlKey || event.altKey || event.metaKey) return;
      if (["INPUT", "TEXTAREA", "SELECT"].includes(document.activeElement?.tagName)) return;
      const key = event.key.toLowerCase();
      if (!this.known.includes(key)) return;
      event.preventDefault();
      this.$emit("pressed", { key, record: this.record });
    };
    document.addEventListener("keydown", this.heard);
  },
  beforeUnmount() {
    document.removeEventListener("keydown", this.heard);
  },
};
