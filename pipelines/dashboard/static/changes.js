// Hands on what changed of charts and tables. Each lot has a number: whoever sees one missing asks
// for everything again.
export default {
  props: { said: Array },
  render() {
    return Vue.h("span", { hidden: true });
  },
  created() {
    this.number = this.said[0];
  },
  watch: {
    said([number, changes]) {
      const isNext = number === this.number + 1;
      this.number = number;
      if (!isNext) {
        emitEvent("missed");
        return;
      }
      for (const [id, detail] of Object.entries(changes)) {
        document.getElementById(`c${id}`)?.dispatchEvent(new CustomEvent("change-of-data", { detail }));
      }
    },
  },
};
