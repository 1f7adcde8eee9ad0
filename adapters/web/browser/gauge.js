// How full the model's window is, what the newest compaction saved and what is worked on: as /status tells it, in the
// header.

import { byId, toast } from "./dom.js";
import { ask } from "./net.js";

const SETTLE_MS = 250; // a turn shows several things one after another
const AGES_MS = 60000; // the badge tells how long ago

export class Gauge {
  constructor() {
    this.words = "";
    byId("gauge").addEventListener("click", () => toast(this.words));
    setInterval(() => !document.hidden && !byId("gauge-badge").hidden && this.#look(), AGES_MS);
  }

  open(room) {
    this.room = room;
    this.#show(null);
  }

  // Something has changed: look soon, once.
  refresh() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#look(), SETTLE_MS);
  }

  async #look() {
    const room = this.room;
    try {
      const { window } = await ask(`c/${room}/window`);
      if (room === this.room) this.#show(window);
    } catch {
      // it stays as it was: whatever is wrong, the connection's own sign tells
    }
  }

  #show(full) {
    const gauge = byId("gauge");
    gauge.hidden = !full;
    this.#showSubgoal(full ? full.subgoal : "");
    if (!full) return;
    const percent = Math.round((full.used * 100) / full.window);
    gauge.dataset.colour = full.colour;
    gauge.querySelector("i").style.width = `${Math.min(100, percent)}%`;
    byId("gauge-share").textContent = `Context ${percent} %`;
    byId("gauge-badge").textContent = full.badge;
    byId("gauge-badge").hidden = !full.badge;
    const number = (count) => count.toLocaleString("en");
    this.words = `Context: ${number(full.used)} of ${number(full.window)} tokens (${percent} %)`;
    if (full.badge) this.words += `. Newest compaction: ${full.badge}`;
    if (full.subgoal) this.words += `. Now: ${full.subgoal}`;
    gauge.setAttribute("aria-label", this.words);
    gauge.title = this.words;
  }

  // A model's words: shown as text, cut by the style; a press of the gauge tells them in full.
  #showSubgoal(words) {
    const subgoal = byId("subgoal");
    byId("subgoal-text").textContent = words;
    subgoal.title = words;
    subgoal.hidden = !words;
  }
}
