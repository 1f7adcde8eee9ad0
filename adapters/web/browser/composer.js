// The message box: grows with its text, sends with Enter, keeps what was not sent over a reload.

import { Attachments } from "./attachments.js";
import { CommandMenu } from "./commands.js";
import { byId } from "./dom.js";

export class Composer {
  constructor({ onSend, lastText }) {
    this.text = byId("text");
    this.send = byId("send");
    this.onSend = onSend;
    this.attachments = new Attachments(() => this.#changed());
    this.menu = new CommandMenu(this.text, () => this.#changed());
    // on a phone's keyboard Enter makes a line, as people there expect
    this.enterSends = !matchMedia("(pointer: coarse)").matches;
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.text.addEventListener("input", () => {
      this.#changed();
      this.menu.update();
    });
    this.text.addEventListener("keydown", (event) => {
      if (event.isComposing || this.menu.key(event)) return;
      if (event.key === "Enter" && !event.shiftKey && (this.enterSends || event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.#submit();
      } else if (event.key === "ArrowUp" && !this.text.value) {
        const last = lastText();
        if (last) {
          event.preventDefault();
          this.text.value = last;
          this.#changed();
        }
      }
    });
    document.addEventListener("keydown", (event) => {
      const writing = event.target.closest?.("input, textarea, [contenteditable]");
      if (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey && !event.altKey) {
        event.preventDefault();
        this.text.focus();
        if (!this.text.value) {
          this.text.value = "/";
          this.#changed();
          this.menu.update();
        }
      }
    });
  }

  open(room) {
    this.room = room;
    this.text.value = sessionStorage.getItem(this.#name) ?? "";
    this.attachments.clear();
    this.#changed();
  }

  focus() {
    if (!matchMedia("(pointer: coarse)").matches) this.text.focus({ preventScroll: true });
  }

  #submit() {
    if (this.send.disabled) return;
    this.onSend(this.text.value.trim(), this.attachments.files);
    this.text.value = "";
    this.menu.close();
    this.attachments.clear();
    this.text.focus();
  }

  #changed() {
    const hasText = this.text.value.trim() !== "";
    this.send.disabled = !this.attachments.ready || !(hasText || this.attachments.files.length);
    this.text.style.height = "auto";
    this.text.style.height = `${this.text.scrollHeight}px`;
    if (this.text.value) sessionStorage.setItem(this.#name, this.text.value);
    else sessionStorage.removeItem(this.#name);
  }

  get #name() {
    return `tieline-text-${location.pathname}-${this.room}`;
  }
}
