// Before anything is drawn: the colours that this person chose, or those of the system.
(function () {
  "use strict";
  var kept = null;
  try { kept = localStorage.getItem("gandy-theme"); } catch (error) { kept = null; }
  var dark = window.matchMedia("(prefers-color-scheme: dark)");
  function apply() {
    document.documentElement.dataset.theme = kept || (dark.matches ? "dark" : "light");
  }
  dark.addEventListener("change", apply);
  window.gandyTheme = {
    toggle: function () {
      kept = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
      try { localStorage.setItem("gandy-theme", kept); } catch (error) { /* for this page only, then */ }
      apply();
    },
  };
  apply();
})();
