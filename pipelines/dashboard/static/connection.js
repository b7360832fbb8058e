// A notice if the page never gets a websocket: then nothing is updated, and no button works.
const PATIENCE = 8; // seconds

export default {
  data() {
    return { isMissing: false };
  },
  render() {
    if (!this.isMissing) return Vue.h("span", { hidden: true });
    const text =
      "No connection for updates and answers: this page shows the state at its opening. If a proxy is in between, let it forward WebSockets.";
    return Vue.h("p", { class: "trouble unconnected", role: "alert" }, text);
  },
  mounted() {
    let seconds = 0;
    this.clock = setInterval(() => {
      seconds += 1;
      this.isMissing = !window.did_handshake && seconds >= PATIENCE;
      if (window.did_handshake) clearInterval(this.clock);
    }, 1000);
  },
  beforeUnmount() {
    clearInterval(this.clock);
  },
};
