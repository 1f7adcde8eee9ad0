// The list of conversations, a drawer on small screens.

import { asked } from "./asking.js";
import { byId, el, icon, toast } from "./dom.js";
import { ask, post } from "./net.js";
import { ago, shortAgo } from "/static/frame.js";

export class Sidebar {
  constructor(onOpen, onChanged) {
    this.onChanged = onChanged;
    this.title_here = "";
    this.list = byId("conversations");
    this.entries = [];
    this.items = new Map();
    this.asked = this.drawn = 0;
    this.room = null;
    this.pressed = false;
    this.onOpen = onOpen;
    this.find = byId("find");
    this.find.addEventListener("input", () => this.#typed());
    byId("new").addEventListener("click", () => this.#new());
    byId("open-side").addEventListener("click", () => this.#drawer(true));
    byId("close-side").addEventListener("click", () => this.#drawer(false));
    byId("shade").addEventListener("click", () => this.#drawer(false));
    byId("side").addEventListener("keydown", (event) => event.key === "Escape" && this.#drawer(false));
    matchMedia("(max-width: 48rem)").addEventListener("change", () => this.#drawer(false));
    this.list.addEventListener("pointerdown", () => (this.pressed = true));
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => this.#released());
    setInterval(() => document.hidden || this.#draw(), 30000);
  }

  // Answers may overtake each other: an older one never takes the place of a newer one.
  async refresh() {
    const asked = ++this.asked;
    try {
      const words = this.find.value.trim();
      const { conversations, only_demo } = await ask(words ? `conversations?find=${encodeURIComponent(words)}` : "conversations");
      if (asked < this.drawn) return;
      this.drawn = asked;
      this.entries = conversations;
      byId("demo").hidden = !only_demo;
      this.#draw();
    } catch {
      // the banner tells that there is no connection
    }
  }

  show(room) {
    this.room = room;
    this.title_here = "";
    this.#draw();
  }

  read(room, order) {
    const seen = this.#seen();
    seen[room] = Math.max(order, seen[room] ?? 0);
    localStorage.setItem("tieline-seen", JSON.stringify(seen));
    this.#draw();
  }

  get title() {
    return (this.entries.find((entry) => entry.id === this.room)?.title ?? this.title_here) || "New conversation";
  }

  get unread() {
    const seen = this.#seen();
    return this.entries.filter((entry) => entry.id !== this.room && entry.last_order > (seen[entry.id] ?? 0)).length;
  }

  // A pause in typing asks, not each letter.
  #typed() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.refresh(), 200);
  }

  async #rename(id) {
    const before = this.entries.find((entry) => entry.id === id)?.title ?? "";
    const title = await asked({ title: "Rename this conversation", text: "Without a name it is called by its first message.", yes: "Rename", name: before });
    if (title === null) return;
    await this.#changed(() => post(`c/${id}/rename`, { title }));
  }

  async #delete(id) {
    const text =
      "It leaves this list with its messages. What the agent has kept of it stays: “/memory forget all”, written in it before, erases that too.";
    if ((await asked({ title: "Delete this conversation?", text, yes: "Delete", grave: true })) === null) return;
    await this.#changed(() => post(`c/${id}/delete`, {}));
  }

  async #changed(change) {
    try {
      await change();
      await this.refresh();
      this.onChanged();
    } catch (refusal) {
      toast(refusal.message);
    }
  }

  // The conversation that is open was deleted, here or on another page.
  gone() {
    this.room = null;
    this.onOpen("main");
    return this.refresh();
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
    const here = this.entries.find((entry) => entry.id === this.room);
    if (here) this.title_here = here.title;
    const searching = Boolean(this.find.value.trim());
    byId("none").hidden = !searching || this.entries.length > 0;
    const entries = here || !this.room || searching ? this.entries : [{ id: this.room, title: "", last_at: "" }, ...this.entries];
    this.#inOrder(entries.map((entry) => this.#item(entry, seen)));
  }

  // While somebody presses an entry none changes its place: the click would hit another one or none.
  #released() {
    if (!this.pressed) return;
    setTimeout(() => {
      this.pressed = false;
      this.#draw(); // after the click, which follows at once
    });
  }

  // An entry keeps its element: one that is replaced between press and release is never clicked.
  #item(entry, seen) {
    const item = this.items.get(entry.id) ?? this.#made(entry.id);
    const [link] = item.children;
    const [name, fresh, time] = link.children;
    const here = entry.id === this.room;
    if (here) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    const title = entry.title || "New conversation";
    if (name.textContent !== title) name.textContent = title;
    const [, rename, remove] = item.children;
    rename.setAttribute("aria-label", `Rename ${title}`);
    remove.setAttribute("aria-label", `Delete ${title}`);
    rename.hidden = remove.hidden = !entry.last_order;
    fresh.hidden = here || entry.last_order <= (seen[entry.id] ?? 0);
    time.hidden = !entry.last_at;
    if (entry.last_at) {
      time.dateTime = entry.last_at;
      time.title = ago(entry.last_at);
      time.textContent = shortAgo(entry.last_at);
    }
    return item;
  }

  #made(id) {
    const link = el(
      "a",
      { href: `?c=${id}` },
      el("span", { class: "name" }),
      el("span", { class: "fresh", role: "img", "aria-label": "new messages" }),
      el("time", {}),
    );
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      this.#drawer(false);
      this.onOpen(id);
    });
    const rename = el("button", { class: "icon", type: "button", title: "Rename" }, icon("rename"));
    const remove = el("button", { class: "icon", type: "button", title: "Delete" }, icon("delete"));
    rename.addEventListener("click", () => this.#rename(id));
    remove.addEventListener("click", () => this.#delete(id));
    const item = el("li", {}, link, rename, remove);
    this.items.set(id, item);
    return item;
  }

  #inOrder(items) {
    if (this.pressed) return;
    const stand = [...this.list.children];
    if (stand.length === items.length && stand.every((item, index) => item === items[index])) return;
    const focused = document.activeElement;
    const hadFocus = this.list.contains(focused);
    this.list.replaceChildren(...items);
    if (hadFocus) focused.focus({ preventScroll: true });
  }
}
