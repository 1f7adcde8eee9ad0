// The messages of the open conversation: what the server says stands there, plus what is still on its way to it.

import { byId, el } from "./dom.js";
import { messageElement, setBlocks } from "./message.js";
import * as speech from "./speech.js";

const NEAR_PX = 90;
const dayName = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });

export class Thread {
  constructor({ onPress, onOlder, onAgain }) {
    this.list = byId("thread");
    this.scroll = byId("scroll");
    this.toEnd = byId("to-end");
    this.older = byId("older");
    this.onPress = onPress;
    this.onAgain = onAgain;
    this.messages = new Map();
    this.drafts = new Map();
    this.statuses = new Map();
    this.atEnd = true;
    this.top = 0;
    this.scroll.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.toEnd.addEventListener("click", () => this.goToEnd());
    this.older.addEventListener("click", () => onOlder(this.#oldest()));
    const sized = new ResizeObserver(() => this.#follows && this.#jump());
    sized.observe(this.list);
    sized.observe(this.scroll);
  }

  reset(state) {
    const held = this.#follows ? null : this.#firstSeen();
    this.messages.clear();
    this.drafts.clear();
    this.statuses = new Map(state.private.filter(isStatus).map((message) => [message.id, textOf(message)]));
    const answers = state.private.filter((message) => !isStatus(message));
    for (const message of [...state.messages, ...answers]) this.messages.set(message.id, message);
    this.older.hidden = !state.has_older;
    this.#draw();
    for (const draft of state.drafts) this.grow({ ...draft, from: 0 });
    if (!this.#hold(held)) this.goToEnd();
  }

  prepend(messages, hasOlder) {
    const height = this.scroll.scrollHeight;
    this.messages = new Map([...messages.map((message) => [message.id, message]), ...this.messages]);
    this.older.hidden = !hasOlder;
    const own = [...this.list.querySelectorAll(".message")].filter((node) => !this.messages.has(node.id.slice(2)));
    this.#draw();
    this.list.append(...own); // what grows, and what is on its way
    this.#settle();
    this.scroll.scrollTop += this.scroll.scrollHeight - height; // what was read stays where it was
  }

  show({ message, replaces }) {
    if (isStatus(message)) {
      this.statuses.set(message.id, textOf(message));
      return;
    }
    const known = document.getElementById(`m-${message.id}`);
    const draft = replaces && this.drafts.get(replaces);
    const before = this.messages.get(message.id);
    this.messages.set(message.id, message);
    const kind = known || draft ? "" : "arrives";
    const node = this.#element(message, kind);
    if (draft) {
      this.drafts.delete(replaces);
      this.#morph(draft, node);
      speech.ends(replaces, node.querySelector(".blocks"));
    } else if (known) {
      if (message.tone === "stopped" && before?.tone !== "stopped") speech.tell("Stopped.");
      // a pressed button was disabled, and so lost the focus to the page
      const pressed = document.activeElement === document.body && known.querySelector("[aria-busy]");
      const hadFocus = pressed || known.contains(document.activeElement);
      known.replaceWith(node);
      if (hadFocus) byId("text").focus({ preventScroll: true });
    } else {
      this.#add(node, message);
      if (message.who === "bot") {
        speech.tell(node.querySelector(".blocks").textContent);
        if (message.buttons) speech.tell("There is a choice to make.");
      }
    }
    this.#settle();
    this.#grown();
  }

  gone(id) {
    if (this.statuses.delete(id)) return;
    this.messages.delete(id);
    const node = this.drafts.get(id) ?? document.getElementById(`m-${id}`);
    this.drafts.delete(id);
    if (node?.contains(document.activeElement)) byId("text").focus({ preventScroll: true });
    node?.remove();
    this.#settle();
    if (this.#follows) this.#jump();
  }

  grow({ id, from, blocks, reply_to }) {
    let node = this.drafts.get(id);
    if (!node) {
      const message = { id, who: "bot", blocks: [], reply_to };
      node = messageElement(message, { kind: "growing arrives", quoted: this.#quoted(message) });
      this.drafts.set(id, node);
      this.list.append(node);
    }
    const holder = node.querySelector(".blocks");
    setBlocks(holder, from, blocks);
    speech.grows(id, holder);
    this.#settle();
    this.#grown();
  }

  get isGrowing() {
    return this.drafts.size > 0;
  }

  // The line that tells what goes on, if there is one.
  get status() {
    return Array.from(this.statuses.values()).at(-1) ?? "";
  }

  get lastOrder() {
    return Math.max(0, ...Array.from(this.messages.values(), (message) => message.order ?? 0));
  }

  lastText() {
    return Array.from(this.messages.values()).findLast((message) => message.who === "person" && message.text)?.text;
  }

  // What is on its way: shown at the end, replaced by the server's own when that comes.
  showPending(message, foot) {
    const node = messageElement(message, { kind: foot ? "waiting" : "" });
    if (foot) node.querySelector(".foot").replaceChildren(...foot);
    const known = document.getElementById(`m-${message.id}`);
    if (known) known.replaceWith(node);
    else {
      this.list.append(node);
      this.goToEnd();
    }
    this.#settle();
  }

  has(id) {
    return this.messages.has(id);
  }

  goToEnd() {
    this.atEnd = true;
    this.toEnd.hidden = true;
    this.#jump();
  }

  #jump() {
    this.scroll.scrollTop = this.scroll.scrollHeight;
    this.top = this.scroll.scrollTop;
  }

  get #below() {
    return this.scroll.scrollHeight - this.scroll.scrollTop - this.scroll.clientHeight;
  }

  // What comes may come before the browser tells that a person has scrolled up: then the place itself tells. What
  // shrinks moves it up as well, but to the very end.
  get #follows() {
    return this.atEnd && (this.scroll.scrollTop >= this.top - 1 || this.#below < 2);
  }

  #scrolled() {
    const wentUp = this.scroll.scrollTop < this.top - 1; // however little: who reads slowly is not pulled back
    this.atEnd = this.#below < (wentUp ? 2 : NEAR_PX);
    this.top = this.scroll.scrollTop;
    if (this.atEnd) this.toEnd.hidden = true;
  }

  #grown() {
    if (this.#follows) this.goToEnd();
    else this.toEnd.hidden = false;
  }

  #firstSeen() {
    const edge = this.scroll.getBoundingClientRect().top;
    for (const node of this.list.querySelectorAll(".message")) {
      const { top, bottom } = node.getBoundingClientRect();
      if (bottom > edge) return { id: node.id, top };
    }
    return null;
  }

  // Puts the message back to where it stood; false when it is not there any more.
  #hold(held) {
    const node = held && document.getElementById(held.id);
    if (!node) return false;
    this.scroll.scrollTop += node.getBoundingClientRect().top - held.top;
    this.toEnd.hidden = false;
    return true;
  }

  #element(message, kind = "") {
    return messageElement(message, { kind, quoted: this.#quoted(message), onPress: this.onPress, onAgain: this.onAgain });
  }

  // An answer to the message right before it needs no quotation.
  #quoted(message) {
    if (!message.reply_to) return "";
    const mine = Array.from(this.messages.values()).filter((each) => each.who === "person");
    const before = mine.filter((each) => !message.order || each.order < message.order).at(-1);
    const replied = this.messages.get(message.reply_to);
    return replied && before && before.id !== replied.id ? (replied.text ?? "") : "";
  }

  // The draft's element becomes the message: blocks that are the same stay the very same elements.
  #morph(draft, node) {
    const old = draft.querySelector(".blocks");
    const fresh = node.querySelector(".blocks");
    for (const [index, block] of [...fresh.children].entries()) {
      const before = old.children[0];
      if (before && before.outerHTML === block.outerHTML) fresh.replaceChild(before, fresh.children[index]);
      else break;
    }
    draft.replaceWith(node);
  }

  #add(node, message) {
    // pending ones and growing answers stay below what is settled
    if (message.who === "person") {
      const growing = this.list.querySelector(".growing");
      if (growing) growing.before(node);
      else this.list.append(node);
    } else this.list.append(node);
  }

  #draw() {
    const inOrder = Array.from(this.messages.values()).sort((a, b) => a.order - b.order);
    this.list.replaceChildren(...inOrder.map((message) => this.#element(message)));
    this.#settle();
  }

  // Day lines, and messages of one hand drawn together.
  #settle() {
    for (const line of this.list.querySelectorAll(".day")) line.remove();
    let before = null;
    for (const node of [...this.list.children]) {
      const message = this.messages.get(node.id.slice(2));
      const day = new Date(message?.at ?? Date.now()).toDateString();
      const who = node.classList.contains("person") ? "person" : "bot";
      if (day !== before?.day) node.before(el("li", { class: "day" }, dayText(day)));
      node.classList.toggle("same", Boolean(before && before.day === day && before.who === who && who === "person"));
      before = { day, who };
    }
    this.#markAgain();
    byId("welcome").hidden = this.list.children.length > 0 || !this.older.hidden;
  }

  // Only the newest answer can be asked for again; those before it that were, say so.
  #markAgain() {
    const inOrder = Array.from(this.messages.values()).filter((message) => !message.private && message.order);
    inOrder.sort((a, b) => a.order - b.order);
    const newest = inOrder.findLast((message) => message.who === "person" || message.answers); // alerts may stand below
    const answers = new Map(); // message of a person -> what answered it last
    for (const message of inOrder) if (message.answers) answers.set(askedBy(message), message.answers);
    for (const message of inOrder.filter((each) => each.who === "bot")) {
      const foot = document.getElementById(`m-${message.id}`)?.querySelector(".foot");
      if (!foot?.querySelector(".again")) continue;
      foot.querySelector(".again").hidden = this.isGrowing || message !== newest || !this.#isAnswer(message);
      foot.querySelector(".answered-again").hidden = !message.answers || answers.get(askedBy(message)) === message.answers;
    }
  }

  // An answer of the model, or none because of a problem: no reminder, and no reply to a command.
  #isAnswer(message) {
    const asked = message.answers && this.messages.get(askedBy(message));
    return asked?.who === "person" && !(asked.text?.startsWith("/") && asked.text !== "/retry");
  }

  #oldest() {
    const orders = Array.from(this.messages.values()).filter((message) => !message.private).map((message) => message.order);
    return Math.min(...orders);
  }
}

const isStatus = (message) => message.private && message.silent;

// The message that an answer is for, also when it was answered once more.
const askedBy = ({ answers }) => /^again\.([^.]*)\./.exec(answers)?.[1] ?? answers;

function textOf(message) {
  const template = document.createElement("template");
  template.innerHTML = (message.blocks ?? []).join(" ");
  return template.content.textContent.trim();
}

function dayText(day) {
  const today = new Date();
  if (day === today.toDateString()) return "Today";
  today.setDate(today.getDate() - 1);
  return day === today.toDateString() ? "Yesterday" : dayName.format(new Date(day));
}
