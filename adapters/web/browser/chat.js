// Ties the parts of the chat page together.

import { Composer } from "./composer.js";
import { byId, newId, toast } from "./dom.js";
import { Gauge } from "./gauge.js";
import { Live } from "./live.js";
import { ask, post } from "./net.js";
import { Sending } from "./sending.js";
import { Sidebar } from "./sidebar.js";
import { Thread } from "./thread.js";

let room = null;
let typingTimer = 0;
let typing = null;
let missed = 0;

const thread = new Thread({ onPress: press, onOlder: loadOlder, onAgain: again });
const sending = new Sending({ thread, onTaken: () => sidebar.refresh().then(title) });
const composer = new Composer({
  onSend: (text, files) => sending.add(text, files),
  lastText: () => sending.lastText() || thread.lastText(),
});
const sidebar = new Sidebar(openRoom, title);
const gauge = new Gauge();
const live = new Live({ onEvent: handle, onState: connection });

async function press(message, choice) {
  try {
    await post(`c/${room}/press`, { id: newId(), message: message.id, action: choice.action });
    return true;
  } catch (refusal) {
    toast(refusal.message);
    return false;
  }
}

async function again(message) {
  try {
    const { outcome, reason } = await post(`c/${room}/again`, { id: newId(), message: message.id });
    if (outcome === "accepted" || outcome === "duplicate") return true;
    toast(reason || "Tieline did not take that");
  } catch (refusal) {
    toast(refusal.message);
  }
  return false;
}

async function loadOlder(before) {
  const asked = room;
  try {
    const { messages, has_older } = await ask(`c/${asked}/older?before=${before}`);
    if (asked === room) thread.prepend(messages, has_older);
  } catch (refusal) {
    toast(refusal.message);
  }
}

function openRoom(id) {
  if (id === room) return;
  room = id;
  history.replaceState(null, "", id === "main" ? "./" : `?c=${id}`);
  byId("thread").replaceChildren();
  sending.open(id);
  composer.open(id);
  sidebar.show(id);
  showTyping(null);
  gauge.open(id);
  live.follow(id);
  title();
  composer.focus();
}

function handle(event) {
  switch (event.type) {
    case "state":
      thread.reset(event);
      sending.show();
      composer.menu.use(event.commands);
      showTyping(event.typing);
      sidebar.refresh().then(title);
      gauge.refresh();
      break;
    case "shown":
      thread.show(event);
      if ((event.message.who === "bot" && !event.message.private) || event.message.tone) showTyping(null);
      if (event.message.who === "bot") {
        if (document.hidden) missed++;
        gauge.refresh();
      }
      title();
      break;
    case "gone":
      thread.gone(event.id);
      sending.unseen(event.id);
      gauge.refresh(); // a status line goes when its turn is over
      break;
    case "draft":
      thread.grow(event);
      if (typing && !typing.status) showTyping(null);
      break;
    case "typing":
      showTyping(event);
      break;
    case "toast":
      toast(event.text);
      break;
    case "commands":
      composer.menu.use(event.commands);
      break;
    case "removed":
      sidebar.gone().then(title);
      return;
    case "elsewhere":
      sidebar.refresh().then(title);
      break;
  }
  sidebar.read(room, thread.lastOrder);
  showWorking();
}

function showTyping(state) {
  clearTimeout(typingTimer);
  typing = state;
  if (state) typingTimer = setTimeout(() => showTyping(null), state.for_ms);
  showWorking();
}

function showWorking() {
  // A status also stands while a person is asked something: that can be stopped, too.
  const running = Boolean(typing) || thread.isGrowing || Boolean(thread.status);
  byId("working").hidden = !running;
  const text = thread.status || typing?.status || (thread.isGrowing ? "Answering" : "Thinking");
  if (byId("working-text").textContent !== text) byId("working-text").textContent = text;
  const stop = byId("stop");
  if (stop.hidden === running) {
    if (!running && document.activeElement === stop) composer.text.focus();
    stop.hidden = !running;
    stop.disabled = false;
  }
  byId("thread").setAttribute("aria-busy", String(thread.isGrowing));
}

byId("stop").addEventListener("click", async () => {
  byId("stop").disabled = true;
  try {
    await post(`c/${room}/stop`, { id: newId() });
  } catch (refusal) {
    toast(refusal.message);
  }
  setTimeout(() => (byId("stop").disabled = false), 2000);
});

// Escape stops an answer, unless it closes something that is open.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || event.defaultPrevented || byId("stop").hidden || byId("stop").disabled) return;
  if (byId("ask").open || !byId("menu").hidden || byId("side").classList.contains("open")) return;
  byId("stop").click();
});

function connection(state, wait) {
  byId("link").dataset.state = state;
  byId("link-text").textContent = { connected: "connected", lost: "no connection", "signed-out": "signed out" }[state];
  clearTimeout(connection.timer);
  if (state === "connected") {
    byId("banner").hidden = true;
    sending.go();
  } else if (state === "signed-out") {
    tellLost("You are signed out. Open a new sign-in link: run “tieline sign-in” on the machine.", false);
  } else {
    // a short gap, as at a restart, is not worth a word
    const tell = () => tellLost(`Connection lost. Trying again${wait > 1000 ? ` in ${Math.round(wait / 1000)} s` : ""}…`, true);
    if (byId("banner").hidden) connection.timer = setTimeout(tell, 1200);
    else tell();
  }
}

function tellLost(text, canRetry) {
  byId("banner-text").textContent = text;
  byId("retry").hidden = !canRetry;
  byId("banner").hidden = false;
}

byId("retry").addEventListener("click", () => live.now());

function title() {
  byId("title").textContent = sidebar.title;
  const count = missed + sidebar.unread;
  document.title = `${count ? `(${count}) ` : ""}${sidebar.title} · Tieline`;
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    missed = 0;
    title();
  }
});

// Whoever sends a link must not choose what the page asks for: it goes into addresses.
const asked = new URLSearchParams(location.search).get("c") ?? "main";
openRoom(/^[a-z0-9]{1,32}$/.test(asked) ? asked : "main");
