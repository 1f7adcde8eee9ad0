// The list of conversations, a drawer on small screens.

import { byId, el, toast } from "./dom.js";
import { ask, post } from "./net.js";
import { ago, shortAgo } from "/static/frame.js";

export class Sidebar {
  constructor(onOpen) {
    this.list = byId("conversations");
    this.entries = [];
    this.asked = this.drawn = 0;
    this.room = null;
    this.onOpen = onOpen;
    byId("new").addEventListener("click", () => this.#new());
    byId("open-side").addEventListener("click", () => this.#drawer(true));
    byId("close-side").addEventListener("click", () => this.#drawer(false));
    byId("shade").addEventListener("click", () => this.#drawer(false));
    byId("side").addEventListener("keydown", (event) => event.key === "Escape" && this.#drawer(false));
    matchMedia("(max-width: 48rem)").addEventListener("change", () => this.#drawer(false));
    setInterval(() => document.hidden || this.#draw(), 30000);
  }

  // Answers may overtake each other: an older one never takes the place of a newer one.
  async refresh() {
    const asked = ++this.asked;
    try {
      const { conversations } = await ask("conversations");
      if (asked < this.drawn) return;
      this.drawn = asked;
      this.entries = conversations;
      this.#draw();
    } catch {
      // the banner tells that there is no connection
    }
  }

  show(room) {
    this.room = room;
    this.#draw();
  }

  read(room, order) {
    const seen = this.#seen();
    seen[room] = Math.max(order, seen[room] ?? 0);
    localStorage.setItem("tieline-seen", JSON.stringify(seen));
    this.#draw();
  }

  get title() {
    return this.entries.find((entry) => entry.id === this.room)?.title || "New conversation";
  }

  get unread() {
    const seen = this.#seen();
    return this.entries.filter((entry) => entry.id !== this.room && entry.last_order > (seen[entry.id] ?? 0)).length;
  }

  async #new() {
    try {
      const { id } = await post("conversations", {});
      this.#drawer(false);
      await this.refresh();
      this.onOpen(id);
    } catch (refusal) {
      toast(refusal.message);
    }
  }

  #seen() {
    try {
      return JSON.parse(localStorage.getItem("tieline-seen")) ?? {};
    } catch {
      return {};
    }
  }

  #drawer(open) {
    const small = matchMedia("(max-width: 48rem)").matches;
    byId("side").classList.toggle("open", open && small);
    byId("shade").hidden = !(open && small);
    byId("main").inert = open && small;
    byId("open-side").setAttribute("aria-expanded", String(open && small));
    if (open && small) byId("close-side").focus();
    else if (small && byId("side").contains(document.activeElement)) byId("open-side").focus();
  }

  #draw() {
    const seen = this.#seen();
    const known = this.entries.some((entry) => entry.id === this.room);
    const entries = known || !this.room ? this.entries : [{ id: this.room, title: "", last_at: "" }, ...this.entries];
    const focused = document.activeElement?.dataset?.room;
    this.list.replaceChildren(
      ...entries.map((entry) => {
        const here = entry.id === this.room;
        const fresh = !here && entry.last_order > (seen[entry.id] ?? 0);
        const link = el(
          "a",
          { href: `?c=${entry.id}`, "aria-current": here ? "page" : null, "data-room": entry.id },
          el("span", { class: "name" }, entry.title || "New conversation"),
          fresh ? el("span", { class: "fresh", role: "img", "aria-label": "new messages" }) : null,
          entry.last_at ? el("time", { datetime: entry.last_at, title: ago(entry.last_at) }, shortAgo(entry.last_at)) : null,
        );
        link.addEventListener("click", (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          this.#drawer(false);
          this.onOpen(entry.id);
        });
        return el("li", {}, link);
      }),
    );
    if (focused) this.list.querySelector(`[data-room="${focused}"]`)?.focus();
  }
}
