"use strict";
// Zoom and search for flame graphs. Without this script all of it is on the page too.
for (const flame of document.querySelectorAll(".flame")) {
  const tools = flame.previousElementSibling;
  flame.classList.add("live");
  const frames = Array.from(flame.children, e => ({
    e, left: parseFloat(e.style.left), width: parseFloat(e.style.width), top: parseFloat(e.style.top),
    full: e.title.includes(": ") ? e.title.slice(0, e.title.lastIndexOf(": ")) : e.title,
  }));
  const short = full => full.slice(full.split("[")[0].lastIndexOf("/") + 1);
  const make = (kind, set) => tools.appendChild(Object.assign(document.createElement(kind), set));
  const search = make("input", {type: "search", placeholder: "Search functions", ariaLabel: "Search functions"});
  const whole = make("button", {type: "button", textContent: "Show all", hidden: true});
  const found = make("span", {ariaLive: "polite"});
  const rounding = 0.01;

  const zoom = to => {
    whole.hidden = !to;
    const left = to ? to.left : 0, width = to ? to.width : 100, end = left + width;
    for (const f of frames) {
      const above = to ? (to.top > f.top ? (left + rounding > f.left ? f.left + f.width + rounding > end : false) : false) : false;
      const within = f.left + rounding > left ? end + rounding > f.left + f.width : false;
      f.e.hidden = above ? false : !within;
      const size = above ? 100 : 100 * f.width / width;
      f.e.style.left = (above ? 0 : 100 * (f.left - left) / width) + "%";
      f.e.style.width = size + "%";
      f.e.textContent = size > 1 ? short(f.full) : "";
    }
  };
  flame.addEventListener("click", event => {
    const f = frames.find(f => f.e === event.target);
    if (f) zoom(f);
  });
  whole.addEventListener("click", () => zoom(null));
  document.addEventListener("keydown", event => { if (event.key === "Escape") zoom(null); });
  search.addEventListener("input", () => {
    const text = search.value.trim().toLowerCase();
    let sum = 0, end = -1;
    for (const f of frames) {
      const match = f.full.toLowerCase().includes(text);
      f.e.classList.toggle("unlike", text ? !match : false);
      if (match) if (f.left + rounding > end) { sum += f.width; end = f.left + f.width; } // not within another that is counted
    }
    found.textContent = text ? sum.toFixed(1) + " % of the whole" : "";
  });
}
