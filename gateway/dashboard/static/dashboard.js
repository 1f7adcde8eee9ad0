// The dashboard's frame: fetches what is live anew, tells how an action ended, shows times in the reader's zone.

import { showTimes } from "/static/frame.js";

const content = document.getElementById("content");
const stale = document.getElementById("stale");
const told = document.getElementById("told");

// Somebody who types, chooses, or has something open is not interrupted.
function isBusy() {
  const focused = document.activeElement;
  if (content.contains(focused) && focused.matches("input, select, textarea")) return true;
  return Boolean(content.querySelector("dialog[open], [data-keep]"));
}

// The answer to an action is told to its button, which must still be there: nothing is swapped until it has come.
let action = null;
const isActing = () => action !== null && action.readyState > 0 && action.readyState < 4;
// Moments that matter to the minute, in the reader's zone.
function showMoments() {
  const local = (moment) => new Date(moment).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  for (const time of content.querySelectorAll("time[data-moment]")) time.textContent = local(time.dateTime);
  for (const option of content.querySelectorAll("option[data-at]")) {
    option.textContent = option.textContent.replace(option.dataset.utc, local(option.dataset.at));
  }
}

let last = ""; // what the server answered last
let focused = ""; // the action that has the keyboard's focus

function refresh() {
  if (!document.hidden) window.htmx.ajax("GET", location.pathname + location.search, { target: "#content" });
}

// A transcript opens at its newest message, and stays there while more come; who has scrolled up is left in peace.
let follows = false;
const isAtEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 120;

function goToEnd() {
  if (content.querySelector("[data-from-end]")) scrollTo({ top: document.documentElement.scrollHeight, behavior: "instant" });
}

const SETTLES_MS = 700;

document.body.addEventListener("told", (event) => {
  content.classList.add("settling");
  setTimeout(() => content.classList.remove("settling"), SETTLES_MS);
  const { text, isError, go } = event.detail;
  told.textContent = text;
  told.classList.toggle("danger", isError);
  told.hidden = false;
  if (go) {
    sessionStorage.setItem("told", text); // the next page says it
    location.assign(go);
  } else if (!isError) refresh();
});

// A refusal by the sign-in or by the frame itself comes without a sentence for the page.
document.body.addEventListener("htmx:responseError", (event) => {
  const { xhr } = event.detail;
  if (xhr.status === 401) location.reload();
  else if (!xhr.getResponseHeader("hx-trigger")) {
    told.textContent = xhr.status === 403 ? "This page is out of date; load it again." : "Tieline could not do that.";
    told.classList.add("danger");
    told.hidden = false;
  }
});
document.body.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.requestConfig.verb !== "get") action = event.detail.xhr;
});
document.body.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr, target } = event.detail;
  if (!xhr.getResponseHeader("content-type")?.startsWith("text/html")) event.detail.shouldSwap = false;
  else if (target === content && isActing()) event.detail.shouldSwap = false;
  else if (target === content) {
    if (xhr.responseText === last) event.detail.shouldSwap = false;
    last = xhr.responseText;
    follows = isAtEnd();
    focused = content.contains(document.activeElement) ? document.activeElement.getAttribute("hx-post") : "";
  }
});
document.body.addEventListener("htmx:sendError", () => (stale.hidden = false));
document.body.addEventListener("htmx:afterOnLoad", () => (stale.hidden = true));
// In the same task as the exchange of the content: a key that is pressed meanwhile still meets its button.
document.body.addEventListener("htmx:afterSwap", () => {
  if (focused) content.querySelector(`[hx-post="${CSS.escape(focused)}"]`)?.focus();
  if (follows) goToEnd();
});
document.body.addEventListener("htmx:afterSettle", () => {
  // A field that was kept over the answer, such as a secret's, does not know yet that it is wrong.
  for (const mistake of content.querySelectorAll(".mistake[data-of]")) {
    document.getElementById(mistake.dataset.of)?.setAttribute("aria-invalid", "true");
  }
  showTimes(content);
  showMoments();
  draw();
});

let events = null;

function follow() {
  events?.close();
  events = null;
  if (document.hidden || !content.hasAttribute("data-live")) return;
  events = new EventSource("/live");
  events.addEventListener("changed", () => {
    stale.hidden = true;
    if (!isBusy()) refresh();
  });
  events.addEventListener("error", () => (stale.hidden = false));
}

document.addEventListener("visibilitychange", follow);

// --- plots: <div class="plot" data-plot='{"unit": …, "times": […], "series": [{"label", "values"}…]}'> ---

const COLOURS = ["--accent", "--code-word", "--code-number", "--danger", "--code-string"];

function shown(value, unit) {
  if (value == null) return "–";
  const text = value.toLocaleString(undefined, { maximumFractionDigits: Math.abs(value) < 10 ? 2 : 0 });
  return unit === "$" ? `$${text}` : unit ? `${text} ${unit}` : text;
}

// On an axis, where there is little room: "40M".
function short(value, unit) {
  if (value == null || Math.abs(value) < 100_000) return shown(value, unit);
  const text = value.toLocaleString(undefined, { notation: "compact", maximumFractionDigits: 1 });
  return unit === "$" ? `$${text}` : unit ? `${text} ${unit}` : text;
}

const HALF_A_DAY_S = 43_200; // a day of one hour has one point, around which uPlot would show years

function draw() {
  const style = getComputedStyle(document.documentElement);
  const [ink, line] = ["--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
  for (const place of content.querySelectorAll("[data-plot]")) {
    if (place.querySelector(".uplot")) continue;
    const { unit, times, series, stacked } = JSON.parse(place.dataset.plot);
    const axis = { stroke: resolve(place, ink), grid: { stroke: resolve(place, line) }, ticks: { stroke: resolve(place, line) } };
    new window.uPlot(
      {
        width: place.clientWidth,
        height: 180,
        cursor: { drag: { x: false, y: false } },
        scales: { x: { range: (_, min, max) => (min === max ? [min - HALF_A_DAY_S, max + HALF_A_DAY_S] : [min, max]) }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] } },
        axes: [axis, { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => short(tick, unit)) }],
        series: [
          { value: (_, at) => (at == null ? "" : new Date(at * 1000).toLocaleString(undefined, { dateStyle: "short", timeStyle: "short" })) },
          ...series.map(({ label }, number) => ({
            label,
            stroke: resolve(place, style.getPropertyValue(COLOURS[number % COLOURS.length]).trim()),
            width: 2,
            points: { show: times.length < 40, size: 5 },
            value: (plot, value) => (plot.cursor.idx == null ? "" : shown(value, unit)),
          })),
        ],
      },
      [times, ...series.map(({ values }) => values)],
      place,
    );
  }
}

// A colour as the canvas understands it: light-dark() is resolved by an element.
function resolve(place, colour) {
  const probe = document.createElement("span");
  probe.style.color = colour;
  place.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

function drawAnew() {
  for (const plot of content.querySelectorAll(".uplot")) plot.remove();
  draw();
}

addEventListener("resize", drawAnew);
for (const button of document.querySelectorAll("[data-switch-theme]")) button.addEventListener("click", () => setTimeout(drawAnew));

const menu = document.querySelector("[data-menu]");
menu.addEventListener("click", () => {
  const isOpen = document.body.classList.toggle("menu-open");
  menu.setAttribute("aria-expanded", String(isOpen));
});

const said = sessionStorage.getItem("told");
if (said) {
  sessionStorage.removeItem("told");
  told.textContent = said;
  told.hidden = false;
}

showTimes(document);
showMoments();
draw();
follow();
if (!location.hash) goToEnd();
