// Light, dark, or as the system has it; remembered by this browser alone.
const KEY = "streamboost-theme";
const VALUES = { system: "auto", light: false, dark: true };

const stored = () => {
  try {
    const value = localStorage.getItem(KEY);
    return value in VALUES ? value : "system";
  } catch {
    return "system"; // storage is switched off
  }
};

export default {
  data() {
    return { value: stored() };
  },
  render() {
    const choose = (event) => {
      this.value = event.target.value;
      try {
        localStorage.setItem(KEY, this.value);
      } catch {
        // It holds for this page then.
      }
      this.apply();
    };
    const names = Object.keys(VALUES).map((name) =>
      Vue.h("option", { value: name, selected: name === this.value }, name),
    );
    return Vue.h("label", { class: "theme", title: "Theme" }, [
      Vue.h("span", "Theme"),
      Vue.h("select", { onChange: choose }, names),
    ]);
  },
  mounted() {
    this.apply();
    // NiceGUI's notice of a lost connection is outside of all landmarks, and has no role.
    document.getElementById("popup")?.setAttribute("role", "alert");
    // Escape, or a click elsewhere, closes an open explanation.
    const close = (kept) => {
      for (const info of document.querySelectorAll(".info[open]")) info.open = info === kept;
    };
    document.addEventListener("click", (event) => close(event.target.closest(".info")));
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") close(null);
    });
  },
  methods: {
    apply() {
      Quasar.Dark.set(VALUES[this.value]);
      const scheme = this.value === "system" ? "light dark" : this.value;
      document.getElementById("nicegui-color-scheme")?.setAttribute("content", scheme);
    },
  },
};
