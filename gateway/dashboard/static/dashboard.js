// The dashboard's frame: fetches what is live anew, tells how an action ended, shows times in the reader's zone.

import { showTimes } from "/static/frame.js";

const content = document.getElementById("content");
const stale = document.getElementById("stale");
const told = document.getElementById("told");

// Whether somebody has chosen something in a form that they have not sent yet.
function hasChosen() {
  return [...content.querySelectorAll("form[hx-post] select")].some((select) => {
    const given = [...select.options].findIndex((option) => option.defaultSelected);
    return select.selectedIndex !== Math.max(0, given);
  });
}

// Somebody who types, chooses, or has something open is not interrupted, nor is one whose finger or key is on its way:
// a row that moves under it is not the one that was meant.
const ATTENDED_MS = 10_000; // with the keyboard's focus in the list and no key since, it is old enough to be fetched anew
const LANDS_MS = 300; // from lifting a finger to the click that it makes

let isPressed = false;
let isMissed = false; // something has changed meanwhile
let attended = -Infinity;

function isBusy() {
  const focused = document.activeElement;
  if (content.contains(focused) && focused.matches("input, select, textarea")) return true;
  if (hasChosen()) return true;
  if (isPressed || (focused !== content && content.contains(focused) && performance.now() - attended < ATTENDED_MS)) return true;
  return Boolean(content.querySelector("dialog[open], [data-keep]"));
}

function catchUp() {
  if (isMissed && !isBusy() && !document.querySelector(".htmx-request")) refresh(LIVE);
}

function letGo() {
  isPressed = false;
  catchUp();
}

for (const kind of ["focusin", "keydown"]) content.addEventListener(kind, () => (attended = performance.now()));
content.addEventListener("focusout", () => setTimeout(catchUp, LANDS_MS));
content.addEventListener("pointerdown", () => (isPressed = true));
for (const kind of ["pointerup", "pointercancel", "blur"]) addEventListener(kind, () => setTimeout(letGo, LANDS_MS));

// The answer to an action is told to its button, which must still be there: nothing is swapped until it has come.
let action = null;
const isActing = () => action !== null && action.readyState > 0 && action.readyState < 4;
// One style of dates everywhere, that of the server's: "2026-11-29 14:05", in the reader's zone.
const two = (number) => String(number).padStart(2, "0");
const dayOf = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
const timeOf = (at) => `${two(at.getHours())}:${two(at.getMinutes())}`;
const momentOf = (at) => `${dayOf(at)} ${timeOf(at)}`;

// Moments that matter to the minute.
function showMoments() {
  const local = (moment) => momentOf(new Date(moment));
  for (const time of content.querySelectorAll("time[data-moment]")) time.textContent = local(time.dateTime);
  for (const option of content.querySelectorAll("option[data-at]")) {
    option.textContent = option.textContent.replace(option.dataset.utc, local(option.dataset.at));
  }
}

let last = ""; // what the server answered last
let focused = ""; // the action or link that has the keyboard's focus

function found(one) {
  const by = ["hx-post", "href"].find((each) => one.hasAttribute(each));
  return by ? `[${by}="${CSS.escape(one.getAttribute(by))}"]` : "";
}

const LIVE = new Event("changed"); // whoever asked for it, it was nobody at the page

function refresh(event) {
  isMissed = false;
  if (!document.hidden) window.htmx.ajax("GET", location.pathname + location.search, { target: "#content", event });
}

// A row that an action has changed stays where the person has seen it, until they ask for another list.
let list = location.pathname + location.search;
let order = [];
const rows = () => [...content.querySelectorAll("table[data-steady] > tbody > tr")];
const name = (row) => row.querySelector("a[href]")?.getAttribute("href");

function keepOrder() {
  const place = (row) => (order.includes(name(row)) ? order.indexOf(name(row)) : order.length);
  for (const row of rows().sort((one, other) => place(one) - place(other))) row.parentElement.append(row);
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
// A question that names what is chosen in its form, in place of "{choice}".
document.body.addEventListener("htmx:confirm", (event) => {
  const { elt, question, issueRequest } = event.detail;
  if (!question?.includes("{choice}")) return;
  event.preventDefault();
  const choice = elt.querySelector("select").selectedOptions[0].textContent.trim();
  if (confirm(question.replace("{choice}", choice))) issueRequest(true);
});
document.body.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.requestConfig.verb !== "get") action = event.detail.xhr;
});
document.body.addEventListener("htmx:beforeSwap", (event) => {
  const { xhr, target } = event.detail;
  if (!xhr.getResponseHeader("content-type")?.startsWith("text/html")) event.detail.shouldSwap = false;
  else if (target === content && (isActing() || (event.detail.requestConfig.triggeringEvent === LIVE && isBusy()))) event.detail.shouldSwap = false;
  else if (target === content) {
    if (xhr.responseText === last) event.detail.shouldSwap = false;
    last = xhr.responseText;
    follows = isAtEnd();
    order = event.detail.pathInfo.responsePath === list ? rows().map(name) : [];
    list = event.detail.pathInfo.responsePath;
    focused = content.contains(document.activeElement) ? found(document.activeElement) : "";
  }
});
// What was told concerns the page that somebody has left.
document.body.addEventListener("htmx:pushedIntoHistory", () => (told.hidden = true));
document.body.addEventListener("htmx:sendError", () => (stale.hidden = false));
document.body.addEventListener("htmx:afterOnLoad", () => (stale.hidden = true));
// In the same task as the exchange of the content: a key that is pressed meanwhile still meets its button.
document.body.addEventListener("htmx:afterSwap", () => {
  if (order.length) keepOrder();
  if (focused) content.querySelector(focused)?.focus({ preventScroll: true });
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
    if (isBusy()) isMissed = true;
    else refresh(LIVE);
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

// A day begins with its date; its hours stand alone.
function tickOf(tick) {
  const at = new Date(tick * 1000);
  return timeOf(at) === "00:00" ? dayOf(at) : timeOf(at);
}

function draw() {
  const style = getComputedStyle(document.documentElement);
  const [ink, line] = ["--soft", "--line"].map((name) => style.getPropertyValue(name).trim());
  for (const place of content.querySelectorAll("[data-plot]")) {
    if (place.querySelector(".uplot")) continue;
    const { unit, times, series, stacked } = JSON.parse(place.dataset.plot);
    const newest = times.length - 1; // the legend tells of it while nothing is pointed at
    const axis = { stroke: resolve(place, ink), grid: { stroke: resolve(place, line) }, ticks: { stroke: resolve(place, line) } };
    new window.uPlot(
      {
        width: place.clientWidth,
        height: 180,
        cursor: { drag: { x: false, y: false } },
        scales: { x: { range: (_, min, max) => (min === max ? [min - HALF_A_DAY_S, max + HALF_A_DAY_S] : [min, max]) }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] } },
        axes: [{ ...axis, space: 64, values: (_, ticks) => ticks.map(tickOf) }, { ...axis, size: 64, values: (_, ticks) => ticks.map((tick) => short(tick, unit)) }],
        series: [
          { value: (_, at) => (newest < 0 ? "" : momentOf(new Date((at ?? times[newest]) * 1000))) },
          ...series.map(({ label, values }, number) => ({
            label,
            stroke: resolve(place, style.getPropertyValue(COLOURS[number % COLOURS.length]).trim()),
            width: 2,
            points: { show: times.length < 40, size: 5 },
            value: (_, value, __, at) => shown(at == null ? values[newest] : value, unit),
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

function openMenu(isOpen) {
  document.body.classList.toggle("menu-open", isOpen);
  menu.setAttribute("aria-expanded", String(isOpen));
}

menu.addEventListener("click", () => openMenu(!document.body.classList.contains("menu-open")));
document.querySelector("main").addEventListener("click", () => openMenu(false));
addEventListener("keydown", (event) => event.key === "Escape" && openMenu(false));

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
