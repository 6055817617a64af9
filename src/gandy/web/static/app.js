// What pages do beyond links and forms; every page works without it, but for charts and the graph.
(function () {
  "use strict";

  // Instants: written in UTC by the server, and here in the zone of the page; how long ago, beside full ones.
  const own = Intl.DateTimeFormat().resolvedOptions().timeZone;
  let isLocal = false;
  try { isLocal = localStorage.getItem("gandy-zone") === "local"; } catch (error) { isLocal = false; }
  function zone() {
    return isLocal ? own : "UTC";
  }
  const fields = { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit" };
  function partsOf(date) {
    const format = new Intl.DateTimeFormat("en-GB", { ...fields, timeZone: zone(), hourCycle: "h23" });
    return Object.fromEntries(format.formatToParts(date).map((part) => [part.type, part.value]));
  }
  const forms = {
    full: (at) => at.year + "-" + at.month + "-" + at.day + " " + at.hour + ":" + at.minute + ":" + at.second,
    minute: (at) => at.year + "-" + at.month + "-" + at.day + " " + at.hour + ":" + at.minute,
    clock: (at) => at.hour + ":" + at.minute + ":" + at.second,
    hour: (at) => at.hour + ":" + at.minute,
    log: (at, date) => forms.clock(at) + "." + String(date.getUTCMilliseconds()).padStart(3, "0"),
    day: (at, date) => at.day + " " + new Intl.DateTimeFormat("en-US", { month: "short", timeZone: zone() }).format(date),
  };
  forms.sentence = forms.full;
  function written(date, form) {
    return forms[form](partsOf(date), date);
  }
  function writeTimes() {
    document.querySelectorAll("time[datetime]").forEach((element) => {
      const date = new Date(element.dateTime);
      const text = element.firstChild;
      const said = written(date, element.dataset.form || "full");
      if (text && text.nodeType === Node.TEXT_NODE && text.data !== said) text.data = said;
      element.title = written(date, "full") + " " + zone();
    });
    document.querySelectorAll("[data-zone]").forEach((button) => {
      button.disabled = own === "UTC";
      button.textContent = "Times in " + zone();
      button.title = own === "UTC" ? "" : "Show times in " + (isLocal ? "UTC" : own);
    });
  }
  function switchZone() {
    isLocal = !isLocal;
    try { localStorage.setItem("gandy-zone", isLocal ? "local" : "utc"); } catch (error) { /* for this page only, then */ }
    writeTimes();
    document.querySelectorAll("input[data-moment]").forEach((input) => { input.value = typedAgain(input.value); });
    feedCharts();
  }

  // Instants in forms: typed without an offset, they are in the zone of the page; they are sent in UTC.
  const typed = /^\s*(\d{4})-(\d\d)-(\d\d)[ T](\d\d):(\d\d)(?::(\d\d)(?:\.\d+)?)?\s*$/;
  function offsetAt(date) {
    const at = partsOf(date);
    return Date.UTC(at.year, at.month - 1, at.day, at.hour, at.minute, at.second) - Math.floor(date.getTime() / 1000) * 1000;
  }
  function instantOf(text) {
    const found = typed.exec(text);
    if (!found) return null;
    const [year, month, day, hour, minute, second] = found.slice(1).map((part) => Number(part || 0));
    const wall = Date.UTC(year, month - 1, day, hour, minute, second);
    if (!isLocal) return new Date(wall);
    const guess = new Date(wall - offsetAt(new Date(wall)));
    return new Date(wall - offsetAt(guess));
  }
  const sent = /^\s*\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:\d\d)\s*$/;
  let before = isLocal;
  function typedAgain(text) {
    const now = isLocal;
    isLocal = before;
    const date = sent.test(text) ? new Date(text.trim().replace(" ", "T")) : instantOf(text);
    before = isLocal = now;
    return date ? written(date, "full") : text;
  }
  document.addEventListener("submit", (event) => {
    event.target.querySelectorAll("input[data-moment]").forEach((input) => {
      const date = instantOf(input.value);
      if (date) input.value = date.toISOString().slice(0, 19) + "Z";
    });
  });

  const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
  function ago(seconds) {
    const size = Math.abs(seconds);
    if (size < 1) return "now";
    const [unit, length] = units.find(([, each]) => size >= each);
    const said = Math.floor(size / length) + " " + unit;
    return seconds >= 0 ? said + " ago" : "in " + said;
  }
  function tellTimes() {
    const now = Date.now();
    document.querySelectorAll("time[datetime]:not([data-form])").forEach((element) => {
      let note = element.querySelector("small");
      if (!note) {
        note = document.createElement("small");
        element.append(note);
      }
      note.textContent = ago((now - Date.parse(element.dateTime)) / 1000);
    });
  }

  // Charts: drawn here, fed from the page's own address for data.
  const charts = new Map();
  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }
  function clock(seconds) {
    return written(new Date(seconds * 1000), "hour");
  }
  function drawChart(element, data) {
    const bars = uPlot.paths.bars({ size: [0.72, 14], align: 1 });
    const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const series = data.series.map((each) => ({
      label: each.name, width: 0, stroke: colour(each.colour), fill: colour(each.colour), paths: bars, points: { show: false },
    }));
    const options = {
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone()),
      width: element.clientWidth, height: 190, cursor: { y: false }, legend: { show: false }, padding: [8, 18, 0, 0],
      scales: { x: { range: (self, low, high) => [low, high + 60] }, y: { range: (self, low, high) => [0, Math.max(high, 4) * 1.1] } },
      axes: [{ ...axis, size: 28, grid: { show: false }, space: 70, values: (self, marks) => marks.map(clock) }, { ...axis, size: 38 }],
      series: [{}, ...series],
    };
    const old = charts.get(element);
    if (old) old.destroy();
    charts.set(element, new uPlot(options, [data.at, ...data.series.map((each) => each.values)], element));
  }
  async function feedCharts() {
    for (const element of document.querySelectorAll("[data-chart]")) {
      const answer = await fetch(element.dataset.chart, { headers: { Accept: "application/json" } });
      if (!answer.ok) continue;
      const data = await answer.json();
      drawChart(element, data);
      const note = document.querySelector("[data-chart-note]");
      if (note) note.textContent = data.note + "; times in " + zone();
    }
  }

  // Tables: a box in the head ticks all below it.
  document.addEventListener("change", (event) => {
    const box = event.target;
    if (box.matches("[data-select-all]")) {
      box.closest("table").querySelectorAll("tbody input[type=checkbox]").forEach((each) => { each.checked = box.checked; });
    }
    if (box.matches("select[data-submit]")) box.form.requestSubmit();
  });

  // Buttons that only work with a script.
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-open]");
    if (opener) document.getElementById(opener.dataset.open).showModal();
    if (event.target.closest("[data-close]")) event.target.closest("dialog").close();
    if (event.target.closest("[data-zone]")) switchZone();
    if (event.target.closest("[data-theme-toggle]")) {
      window.gandyTheme.toggle();
      feedCharts();
    }
  });

  // A change that cannot be undone is asked for first: the dialog holds a copy of its form.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.ask) return;
    event.preventDefault();
    const dialog = document.getElementById("ask");
    const copy = dialog.querySelector("form");
    copy.action = form.getAttribute("action");
    copy.querySelectorAll("input").forEach((each) => each.remove());
    form.querySelectorAll("input").forEach((each) => copy.append(each.cloneNode()));
    dialog.querySelector("h2").textContent = form.dataset.ask;
    dialog.querySelector("p").textContent = form.dataset.note;
    dialog.querySelector("button.danger").textContent = form.querySelector("button").textContent;
    dialog.showModal();
  });

  // What scrolls is reached by keys, and has a name; a morph leaves both.
  const scrolling = ["tabindex", "role", "aria-label"];
  function openScrollers() {
    document.querySelectorAll(".scroll, .log, .graph, pre").forEach((element) => {
      const isCut = element.scrollWidth > element.clientWidth || element.scrollHeight > element.clientHeight;
      if (!isCut) scrolling.forEach((name) => element.removeAttribute(name));
      if (!isCut || element.hasAttribute("tabindex")) return;
      const title = (element.closest(".card") || document).querySelector("h2") || document.querySelector("h1");
      element.tabIndex = 0;
      element.setAttribute("aria-label", title.textContent.trim());
      if (!element.matches("ol")) element.setAttribute("role", "group");
    });
  }
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, element, kind) => kind !== "remove" || !scrolling.includes(name);

  // What somebody is in the middle of is not replaced under their hands.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const live = event.target;
    if (live.id !== "live") return;
    const busy = live.querySelector("input:checked, details[open], dialog[open], input:focus, textarea:focus, select:focus");
    if (busy || document.hidden || document.querySelector("dialog[open]") || !window.getSelection().isCollapsed) event.preventDefault();
  });
  document.addEventListener("htmx:afterSettle", () => { writeTimes(); tellTimes(); });
  document.addEventListener("htmx:afterSettle", openScrollers);

  // Keys: g and a letter goes somewhere, / searches, j and k walk a table, ? tells.
  let isGoing = false;
  function walk(step) {
    const links = [...document.querySelectorAll("#live tbody tr")].map((row) => row.querySelector("a")).filter(Boolean);
    if (!links.length) return;
    const at = links.indexOf(document.activeElement);
    links[Math.min(Math.max(at + step, 0), links.length - 1)].focus();
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, textarea, select")) return;
    if (isGoing) {
      isGoing = false;
      const place = document.querySelector('.side a[data-key="' + CSS.escape(event.key) + '"]');
      if (place) place.click();
      return;
    }
    const search = document.querySelector("[data-search]");
    if (event.key === "g") isGoing = true;
    else if (event.key === "/" && search) { event.preventDefault(); search.focus(); search.select(); }
    else if (event.key === "j") walk(1);
    else if (event.key === "k") walk(-1);
    else if (event.key === "?") document.getElementById("keys").showModal();
  });

  writeTimes();
  openScrollers();
  window.addEventListener("resize", openScrollers);
  tellTimes();
  document.querySelectorAll("input[data-moment]").forEach((input) => { if (sent.test(input.value)) input.value = typedAgain(input.value); });
  setInterval(tellTimes, 1000);
  if (document.querySelector("[data-chart]")) {
    feedCharts();
    setInterval(() => { if (!document.hidden) feedCharts(); }, 10000);
    window.addEventListener("resize", () => feedCharts());
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => feedCharts());
  }
})();
