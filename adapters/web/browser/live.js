// The stream of events: follows one conversation, comes back by itself, goes on where it stopped.

import { ask } from "./net.js";

const SLOWEST_MS = 15000;
const SILENCE_MS = 40000; // the server says something every 15 s
const HIDDEN_MS = 120000; // browsers allow six connections a site: a page nobody sees gives its own back

export class Live {
  constructor({ onEvent, onState }) {
    this.onEvent = onEvent;
    this.onState = onState;
    this.room = null;
    this.tries = 0;
    document.addEventListener("visibilitychange", () => this.#seen());
    addEventListener("online", () => this.now());
    addEventListener("pagehide", () => this.#drop());
    addEventListener("pageshow", (event) => event.persisted && this.now());
  }

  follow(room) {
    this.room = room;
    this.last = null;
    this.tries = 0;
    this.#connect();
  }

  now() {
    if (this.room && !this.source) this.#connect();
  }

  #connect() {
    this.#drop();
    clearTimeout(this.timer);
    const after = this.last ? `?after=${encodeURIComponent(this.last)}` : "";
    const source = new EventSource(`c/${this.room}/events${after}`);
    this.source = source;
    this.#watch();
    source.onopen = () => {
      this.tries = 0;
      this.onState("connected");
      this.#watch();
    };
    source.onmessage = (message) => {
      this.last = message.lastEventId;
      this.#watch();
      this.onEvent(JSON.parse(message.data));
    };
    source.addEventListener("alive", () => this.#watch());
    source.onerror = () => this.#lost();
  }

  #watch() {
    clearTimeout(this.watchdog);
    this.watchdog = setTimeout(() => this.#lost(), SILENCE_MS);
  }

  async #lost() {
    this.#drop();
    const wait = Math.min(SLOWEST_MS, 500 * 2 ** this.tries++);
    this.onState("lost", wait);
    this.timer = setTimeout(() => this.#connect(), wait);
    try {
      await ask("conversations");
    } catch (refusal) {
      if (refusal.status === 401) {
        clearTimeout(this.timer);
        this.onState("signed-out");
      }
    }
  }

  #drop() {
    clearTimeout(this.watchdog);
    this.source?.close();
    this.source = null;
  }

  #seen() {
    clearTimeout(this.resting);
    if (document.hidden) {
      this.resting = setTimeout(() => this.#drop(), HIDDEN_MS);
    } else {
      this.now();
    }
  }
}
