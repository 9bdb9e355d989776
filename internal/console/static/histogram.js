// Zooms into a histogram (parts/histogram.html): drag over it, or use the arrow keys, with
// shift to select more, and Enter. Without script each bar is a link.
import { announce } from "./console.js";

const namespace = "http://www.w3.org/2000/svg";
let drag = null; // the chart, and the first and the last bar that are selected

const chartOf = (target) => target.closest?.("[data-histogram] svg");
const barsOf = (chart) => Number(chart.dataset.bars);
const timeOf = (chart, bar) => new Date(Number(chart.dataset.begin) + bar * Number(chart.dataset.step)).toISOString();

// barAt returns the index of the bar below a pointer.
function barAt(chart, x) {
  const bounds = chart.getBoundingClientRect();
  const count = barsOf(chart);
  return Math.min(Math.max(Math.floor(((x - bounds.left) / bounds.width) * count), 0), count - 1);
}

function draw({ chart, first, last }) {
  let mark = chart.querySelector(".selection");
  if (!mark) {
    mark = document.createElementNS(namespace, "rect");
    mark.setAttribute("class", "selection");
    mark.setAttribute("y", "0");
    mark.setAttribute("height", "100");
    chart.append(mark);
  }
  mark.setAttribute("x", String(Math.min(first, last) * 10));
  mark.setAttribute("width", String((Math.abs(last - first) + 1) * 10));
}

// describe says what is selected.
function describe({ chart, first, last }) {
  const [begin, end] = [Math.min(first, last), Math.max(first, last)];
  const local = (bar) => new Date(timeOf(chart, bar)).toLocaleString();
  const alone = begin === end && chart.querySelector(`[data-bar="${begin}"]`);
  return alone ? alone.getAttribute("aria-label") : `${local(begin)} to ${local(end + 1)}`;
}

function clear() {
  drag?.chart.querySelector(".selection")?.remove();
  drag = null;
}

// zoom shows the page with the period that is selected.
function zoom() {
  const { chart, first, last } = drag;
  const url = new URL(location.href);
  for (const name of ["since", "cursor", "live"]) url.searchParams.delete(name);
  url.searchParams.set("from", timeOf(chart, Math.min(first, last)));
  url.searchParams.set("to", timeOf(chart, Math.max(first, last) + 1));
  location.assign(url);
}

addEventListener("pointerdown", (event) => {
  const chart = chartOf(event.target);
  if (!chart || event.button !== 0) return;
  clear();
  const at = barAt(chart, event.clientX);
  drag = { chart, first: at, last: at, pointer: event.pointerId };
});
addEventListener("pointermove", (event) => {
  if (drag?.pointer !== event.pointerId) return;
  const at = barAt(drag.chart, event.clientX);
  if (at === drag.last) return;
  drag.last = at;
  drag.moved = true;
  draw(drag);
});
addEventListener("pointerup", (event) => {
  if (drag?.pointer !== event.pointerId) return;
  if (!drag.moved) return clear(); // a click, on a link or not
  zoom();
});
addEventListener("pointercancel", (event) => drag?.pointer === event.pointerId && clear()); // the page scrolls
addEventListener("dragstart", (event) => chartOf(event.target) && event.preventDefault());

// With the script, one stop of the Tab key is enough for a chart.
function prepare() {
  for (const chart of document.querySelectorAll("[data-histogram] svg:not([tabindex])")) {
    chart.setAttribute("tabindex", "0");
    chart.setAttribute("aria-label", `${chart.getAttribute("aria-label")}. Arrow keys select, Enter zooms.`);
    for (const link of chart.querySelectorAll("a")) link.setAttribute("tabindex", "-1");
  }
}

addEventListener("keydown", (event) => {
  const chart = event.target;
  if (!chart.matches?.("[data-histogram] svg")) return;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step) {
    event.preventDefault();
    const end = barsOf(chart) - 1;
    if (drag?.chart !== chart) drag = { chart, first: step > 0 ? 0 : end, last: step > 0 ? 0 : end };
    else {
      drag.last = Math.min(Math.max(drag.last + step, 0), end);
      if (!event.shiftKey) drag.first = drag.last;
    }
    draw(drag);
    announce(describe(drag));
  } else if (event.key === "Enter" && drag?.chart === chart) {
    event.preventDefault();
    zoom();
  } else if (event.key === "Escape") clear();
});

prepare();
new MutationObserver(prepare).observe(document.getElementById("main"), { childList: true, subtree: true });
