// The menu of slash commands above the message box.

import { byId, el } from "./dom.js";

export class CommandMenu {
  constructor(text, onChosen) {
    this.text = text;
    this.menu = byId("menu");
    this.commands = [];
    this.found = [];
    this.index = 0;
    this.onChosen = onChosen;
    text.addEventListener("blur", () => this.close());
  }

  use(commands) {
    this.commands = commands;
  }

  get isOpen() {
    return !this.menu.hidden;
  }

  update() {
    const typed = /^\/([\w-]*)$/.exec(this.text.value);
    const start = typed?.[1].toLowerCase();
    this.found = typed ? this.commands.filter((command) => command.name.startsWith(start)) : [];
    this.index = 0;
    this.#draw();
  }

  close() {
    this.found = [];
    this.#draw();
  }

  // True when the key was for the menu.
  key(event) {
    if (!this.isOpen) return false;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : -1;
      this.index = (this.index + step + this.found.length) % this.found.length;
      this.#draw();
    } else if (event.key === "Escape") {
      this.close();
    } else if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey)) {
      const chosen = this.found[this.index];
      // a command typed in full that takes nothing more is simply sent
      if (event.key === "Enter" && this.text.value === `/${chosen.name}`) {
        this.close();
        return false;
      }
      this.#choose(chosen);
    } else {
      return false;
    }
    event.preventDefault();
    return true;
  }

  #choose(command) {
    this.text.value = `/${command.name}${command.options ? " " : ""}`;
    this.close();
    this.onChosen();
    this.text.focus();
  }

  #draw() {
    this.menu.hidden = !this.found.length;
    this.menu.replaceChildren(
      ...this.found.map((command, index) =>
        el(
          "li",
          {
            role: "option",
            id: `command-${command.name}`,
            "aria-selected": String(index === this.index),
            onpointerdown: (event) => {
              event.preventDefault(); // the focus stays in the message box
              this.#choose(command);
            },
          },
          el("b", {}, `/${command.name}`),
          command.options ? el("i", {}, command.options) : null,
          el("span", {}, command.description),
        ),
      ),
    );
    this.text.setAttribute("aria-expanded", String(this.found.length > 0));
    if (this.found.length) {
      this.text.setAttribute("aria-activedescendant", `command-${this.found[this.index].name}`);
      this.menu.children[this.index].scrollIntoView({ block: "nearest" });
    } else {
      this.text.removeAttribute("aria-activedescendant");
    }
  }
}
