// What a test asks a page of its looks; it is there before each page is.
window.looks = {
  // Serious findings of axe-core below an element, else in the whole page; by one rule, else by all.
  async findings(place, only) {
    const found = await axe.run(place ?? document, { resultTypes: ["violations"], ...(only ? { runOnly: [only] } : {}) });
    const serious = found.violations.filter((each) => ["serious", "critical"].includes(each.impact));
    return serious.flatMap((each) => each.nodes.map((node) => `${each.id} at ${node.target}: ${node.failureSummary}`));
  },

  twoFrames() {
    return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  },

  // What makes the page wider than the window.
  wider() {
    if (document.scrollingElement.scrollWidth <= innerWidth) return [];
    const all = [...document.querySelectorAll("body *")];
    const beyond = all.filter((each) => each.getBoundingClientRect().right > innerWidth);
    return beyond.filter((each) => !each.closest(".scroll, .graph, pre")).map((each) => each.outerHTML.slice(0, 100));
  },

  // Lines of a log in which one text lies over another.
  overlapping() {
    const boxOf = (element) => {
      const range = document.createRange();
      range.selectNodeContents(element);
      return range.getBoundingClientRect();
    };
    const isOver = (a, b) => a.right > b.left && b.right > a.left && a.bottom > b.top + 1 && b.bottom > a.top + 1;
    const lines = [...document.querySelectorAll(".log li")].filter((line) => {
      const boxes = [...line.children].map(boxOf).filter((box) => box.width);
      return boxes.some((a, at) => boxes.slice(at + 1).some((b) => isOver(a, b)));
    });
    return lines.map((line) => line.textContent);
  },

  // How many columns of the first table can be seen before scrolling.
  columnsInSight() {
    const table = document.querySelector("#live table");
    const edge = table.parentElement.getBoundingClientRect().right + 1;
    return [...table.querySelectorAll("thead th")].filter((each) => each.getBoundingClientRect().left < edge).length;
  },

  // Where the focus is, and whether that can be seen.
  focus() {
    const at = document.activeElement;
    if (!at || at === document.body) return null;
    const style = getComputedStyle(at);
    const box = at.getBoundingClientRect();
    const node = at.querySelector("rect");
    return {
      what: at.outerHTML.slice(0, 120),
      isShown: (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) > 0)
        || (node !== null && getComputedStyle(node).strokeWidth === "2.5px"),
      isInSight: box.bottom > 0 && box.top < innerHeight,
    };
  },

  operable() {
    const all = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")];
    return all.filter((each) => each.checkVisibility() && !each.disabled && !each.closest("dialog")).length;
  },

  // The names of all images and gauges, wherever they come from.
  chartNames() {
    return [...document.querySelectorAll("main :is(svg:not([aria-hidden]), [data-chart], progress)")].map((each) =>
      each.getAttribute("aria-label") || each.querySelector("title")?.textContent
        || document.getElementById(each.getAttribute("aria-labelledby"))?.textContent || null);
  },

  // Of each form that cancels, whether it asks first.
  cancellations() {
    const forms = [...document.querySelectorAll("form[action$='/cancel']")];
    return forms.map((each) => Boolean(each.dataset.ask || each.closest("dialog")));
  },

  dialogs() {
    return [...document.querySelectorAll("dialog")].map((each) => each.id);
  },
};
