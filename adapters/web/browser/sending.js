// Messages on their way: kept over a reload, posted in order, again and again until the gateway has them.
// Each has an id of its own, so that posting twice is posting once. That it stands in the thread says nothing: the
// gateway has it when it says so.

import { el, icon, newId } from "./dom.js";
import { post } from "./net.js";

const SLOWEST_MS = 15000;
const NAME = `tieline-sending-${location.pathname}`;
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || null; // for reminders by the clock on the wall

export class Sending {
  constructor({ thread, onTaken }) {
    this.thread = thread;
    this.onTaken = onTaken;
    this.room = null;
    this.waiting = JSON.parse(sessionStorage.getItem(NAME) ?? "[]"); // of all conversations, in their order
    this.tries = 0;
  }

  open(room) {
    this.room = room;
    this.latest = null;
  }

  // What was written last, as long as the thread does not have it.
  lastText() {
    return this.latest && !this.thread.has(this.latest.id) ? this.latest.text : "";
  }

  // After the state came: show what the server does not know yet.
  show() {
    for (const each of this.waiting) this.#showPending(each);
    this.go();
  }

  // It was shown and is no longer, since it could not be taken.
  unseen(id) {
    const message = this.waiting.find((each) => each.id === id);
    if (message) this.#showPending(message);
  }

  add(text, files) {
    const message = { id: newId(), room: this.room, who: "person", text, files, at: new Date().toISOString() };
    this.waiting.push(message);
    this.latest = message;
    this.#save();
    this.thread.showPending(message, [el("span", {}, "Sending…")]);
    this.go();
  }

  async go() {
    clearTimeout(this.timer);
    if (this.busy) return;
    this.busy = true;
    try {
      for (let next; (next = this.waiting.find((each) => !each.problem)); ) {
        const body = { id: next.id, text: next.text, files: next.files.map((file) => file.id), zone: ZONE };
        try {
          await post(`c/${next.room}/messages`, body);
          this.tries = 0;
          this.#done(next.id);
          this.onTaken();
        } catch (refusal) {
          if (refusal.passes || refusal.status === 401) {
            this.timer = setTimeout(() => this.go(), Math.min(SLOWEST_MS, 700 * 2 ** this.tries++));
            this.#showPending(next);
            break;
          }
          next.problem = refusal.message;
          this.#save();
          this.#showPending(next);
        }
      }
    } finally {
      this.busy = false;
    }
  }

  #done(id) {
    this.waiting = this.waiting.filter((each) => each.id !== id);
    this.#save();
  }

  #showPending(message) {
    if (message.room === this.room && !this.thread.has(message.id)) this.thread.showPending(message, this.#foot(message));
  }

  #foot(message) {
    if (!message.problem) return [el("span", {}, "Waiting for Tieline; it is sent by itself")];
    const again = el("button", { class: "act stays", type: "button" }, icon("again"), "Try again");
    again.addEventListener("click", () => {
      delete message.problem;
      this.thread.showPending(message, [el("span", {}, "Sending…")]);
      this.go();
    });
    const drop = el("button", { class: "act stays", type: "button" }, icon("close"), "Discard");
    drop.addEventListener("click", () => {
      this.#done(message.id);
      this.thread.gone(message.id);
    });
    return [el("span", { class: "problem", role: "alert" }, `Not sent: ${message.problem}`), again, drop];
  }

  #save() {
    sessionStorage.setItem(NAME, JSON.stringify(this.waiting));
  }
}
