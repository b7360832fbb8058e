// Leads the anchors of panels that this page had before to the pages that have them now.
export default {
  props: { moved: Object },
  render() {
    return Vue.h("span", { hidden: true });
  },
  mounted() {
    const address = this.moved?.[location.hash.slice(1)];
    if (address) location.replace(address + location.hash);
  },
};
