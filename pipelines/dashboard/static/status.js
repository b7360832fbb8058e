// How a pipeline stands, in one line. What is told of it comes with its age, which goes on growing
// here: a line that nobody renews turns grey, whoever it is that has fallen silent.
const SILENT = 12; // seconds; `serve` says something every four

const ago = (seconds) => {
  if (seconds < 2) return "updated just now";
  if (seconds < 120) return `updated ${Math.round(seconds)} s ago`;
  if (seconds < 7200) return `updated ${Math.round(seconds / 60)} min ago`;
  return `updated ${Math.round(seconds / 3600)} h ago`;
};

export default {
  props: { word: String, tone: String, parts: Array, notices: Array, steps: String, age: Number, beat: Number },
  data() {
    return { told: performance.now(), now: performance.now() };
  },
  render() {
    const silent = (this.now - this.told) / 1000;
    const isCut = silent > SILENT;
    const parts = isCut ? [`no answer from the server for ${Math.round(silent)} s`] : [...(this.parts ?? [])];
    const [first, ...others] = isCut ? [] : (this.notices ?? []);
    const notices = [];
    if (first) notices.push(["notice", first.link, first.text]);
    if (others.length) notices.push(["more", this.steps, `and ${others.length} more`]);
    if (this.age !== null && this.age !== undefined) parts.push(ago(this.age + silent));
    return Vue.h("p", { class: ["state", isCut ? "grey" : this.tone] }, [
      // What follows changes with every second: too often to be read aloud.
      Vue.h("span", { class: "chip", role: "status" }, isCut ? "No contact" : this.word),
      ...notices.map(([kind, href, text]) =>
        Vue.h("span", { class: ["part", kind], title: text }, [Vue.h("a", { href }, [Vue.h("bdi", text)])]),
      ),
      ...parts.map((part) => Vue.h("span", { class: "part" }, part)),
    ]);
  },
  mounted() {
    this.clock = setInterval(() => (this.now = performance.now()), 1000);
  },
  beforeUnmount() {
    clearInterval(this.clock);
  },
  watch: {
    $props: {
      deep: true,
      handler() {
        this.told = this.now = performance.now();
      },
    },
  },
};
