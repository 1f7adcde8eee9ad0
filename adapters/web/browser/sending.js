// Messages on their way: kept over a reload, posted in order, again and again until the gateway has them.
// Each has an id of its own, so that posting twice is posting once.

import { el, icon, newId } from "./dom.js";
import { post } from "./net.js";

const SLOWEST_MS = 15000;
const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone || null; // for reminders by the clock on the wall

export class Sending {
  constructor({ thread, onTaken }) {
    this.thread = thread;
    this.onTaken = onTaken;
    this.room = null;
  }

  open(room) {
    this.room = room;
    this.waiting = JSON.parse(sessionStorage.getItem(this.#name) ?? "[]");
    this.tries = 0;
    this.latest = null;
  }

  // What was written last, as long as the thread does not have it.
  lastText() {
    return this.latest && !this.thread.has(this.latest.id) ? this.latest.text : "";
  }

  // After the state came: show what the server does not know yet.
  show() {
    this.waiting = this.waiting.filter((each) => !this.thread.has(each.id));
    this.#save();
    for (const each of this.waiting) this.thread.showPending(each, this.#foot(each));
    this.go();
  }

  add(text, files) {
    const message = { id: newId(), who: "person", text, files, at: new Date().toISOString() };
    this.waiting.push(message);
    this.latest = message;
    this.#save();
    this.thread.showPending(message, [el("span", {}, "Sending…")]);
    this.go();
  }

  arrived(id) {
    this.waiting = this.waiting.filter((each) => each.id !== id);
    this.#save();
  }

  async go() {
    clearTimeout(this.timer);
    if (this.busy) return;
    this.busy = true;
    const room = this.room;
    try {
      for (;;) {
        const next = this.waiting.find((each) => !each.problem);
        if (!next || room !== this.room) break;
        const body = { id: next.id, text: next.text, files: next.files.map((file) => file.id), zone: ZONE };
        try {
          await post(`c/${room}/messages`, body);
          this.tries = 0;
          if (room !== this.room) break;
          this.arrived(next.id);
          this.onTaken();
        } catch (refusal) {
          if (room !== this.room) break;
          if (refusal.passes || refusal.status === 401) {
            this.timer = setTimeout(() => this.go(), Math.min(SLOWEST_MS, 700 * 2 ** this.tries++));
            this.thread.showPending(next, this.#foot(next));
            break;
          }
          next.problem = refusal.message;
          this.#save();
          this.thread.showPending(next, this.#foot(next));
        }
      }
    } finally {
      this.busy = false;
    }
    if (room !== this.room) this.go();
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
      this.arrived(message.id);
      this.thread.gone(message.id);
    });
    return [el("span", { class: "problem", role: "alert" }, `Not sent: ${message.problem}`), again, drop];
  }

  get #name() {
    return `tieline-sending-${location.pathname}-${this.room}`;
  }

  #save() {
    sessionStorage.setItem(this.#name, JSON.stringify(this.waiting));
  }
}
