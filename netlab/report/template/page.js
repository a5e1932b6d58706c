(function () {
  "use strict";
  var root = document.documentElement;
  var button = document.getElementById("nl-theme");
  var stored = null;
  try { stored = localStorage.getItem("netlab-theme"); } catch (error) { stored = null; }
  var system = window.matchMedia("(prefers-color-scheme: dark)");
  function dress(theme) {
    root.setAttribute("data-theme", theme);
    if (button) {
      button.textContent = theme === "dark" ? "Light" : "Dark";
      button.setAttribute("aria-label", "Show in " + (theme === "dark" ? "light" : "dark") + " colours");
    }
  }
  dress(stored || (system.matches ? "dark" : "light"));
  system.addEventListener("change", function (event) { if (!stored) { dress(event.matches ? "dark" : "light"); } });
  if (button) {
    button.addEventListener("click", function () {
      stored = root.getAttribute("data-theme") === "dark" ? "light" : "dark";
      try { localStorage.setItem("netlab-theme", stored); } catch (error) { /* private window or file: only this page view */ }
      dress(stored);
    });
  }
  var blocks = document.querySelectorAll("script.nl-spec");
  var drawn = 0;
  root.setAttribute("data-charts", String(blocks.length));
  root.setAttribute("data-drawn", "0");
  function draw(block) {
    var place = document.getElementById(block.getAttribute("data-for"));
    var spec = JSON.parse(block.textContent);
    // ast: the policy of this page forbids building functions from text.
    return vegaEmbed(place, spec, { mode: "vega", actions: false, ast: true, renderer: "svg", tooltip: { theme: "custom" } }).then(function () {
      drawn += 1;
      root.setAttribute("data-drawn", String(drawn));
    });
  }
  var chain = Promise.resolve();
  Array.prototype.forEach.call(blocks, function (block) {
    chain = chain.then(function () { return draw(block); }).catch(function (error) {
      document.getElementById(block.getAttribute("data-for")).textContent = "This chart could not be drawn: " + error.message;
      console.error(error);
    });
  });
  window.addEventListener("hashchange", unfold);
  function unfold() {
    var target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") { target.open = true; }
  }
  unfold();
})();
