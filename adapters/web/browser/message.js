// One message as an element. The bot's blocks are HTML that the server rendered and cleaned.

import { copyText, el, icon, sizeText, toast } from "./dom.js";
import { setFormulas, withSources } from "./formula.js";

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

function blockOf(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  const block = template.content.firstElementChild ?? el("p");
  for (const figure of block.matches?.(".code") ? [block] : block.querySelectorAll(".code")) addCopy(figure);
  for (const sign of block.querySelectorAll("[data-note], [data-words]")) sign.addEventListener("click", toOther);
  return block;
}

// From a footnote's sign to its words, and back. Several messages have a footnote 1.
function toOther(event) {
  event.preventDefault();
  const { note, words } = this.dataset;
  const other = note ? `[data-words="${note}"]` : `[data-note="${words}"]`;
  const found = this.closest(".message")?.querySelector(other);
  found?.focus();
  found?.scrollIntoView({ block: "nearest" });
}

function addCopy(figure) {
  const label = el("span", {}, "Copy");
  const button = el("button", { class: "copy", type: "button", "aria-label": "Copy the code" }, icon("copy"), label);
  button.addEventListener("click", async () => {
    const done = await copyText(figure.querySelector("code").textContent);
    label.textContent = done ? "Copied" : "Press Ctrl+C";
    button.querySelector("use").setAttribute("href", done ? "#i-done" : "#i-copy");
    setTimeout(() => {
      label.textContent = "Copy";
      button.querySelector("use").setAttribute("href", "#i-copy");
    }, 2000);
  });
  figure.append(button);
}

// Replaces the blocks from `from` on; what stands before is not touched (selection and scroll positions stay).
export function setBlocks(holder, from, blocks) {
  while (holder.children.length > from) holder.lastElementChild.remove();
  const fresh = blocks.map(blockOf);
  holder.append(...fresh);
  for (const block of fresh) setFormulas(block);
}

function fileOf(file) {
  const url = `files/${file.id}`;
  if (file.is_image) {
    const picture = el("img", { src: url, alt: file.name, loading: "lazy" });
    return el("a", { class: "picture", href: url, target: "_blank", rel: "noopener" }, picture);
  }
  if (file.is_sound) return el("audio", { src: url, controls: "", preload: "metadata", "aria-label": file.name });
  return el(
    "a",
    { class: "download", href: `${url}?download`, download: file.name },
    icon("file"),
    el("span", {}, file.name),
    el("small", {}, sizeText(file.size)),
  );
}

function choicesOf(message, onPress) {
  const rows = message.buttons.map((row) =>
    el(
      "div",
      {},
      ...row.map((choice) =>
        el(
          "button",
          { class: `button ${choice.style ?? "plain"}`, type: "button", onclick: (event) => press(event, choice) },
          choice.label,
        ),
      ),
    ),
  );
  const holder = el("div", { class: "choices", role: "group", "aria-label": "Answers to choose from" }, ...rows);
  async function press(event, choice) {
    const all = holder.querySelectorAll("button");
    for (const button of all) button.disabled = true;
    event.target.setAttribute("aria-busy", "true");
    const taken = await onPress(message, choice);
    // what becomes of the message is the server's to say; if nothing does, the buttons work again
    setTimeout(() => all.forEach((button) => (button.disabled = false)), taken ? 4000 : 0);
  }
  return holder;
}

// The words of a person, with links where the server found addresses.
function wordsOf(message) {
  const words = el("span", { dir: "auto" }, message.html ? "" : message.text);
  if (message.html) words.innerHTML = message.html;
  return words;
}

function footOf(message, kind) {
  const at = message.at ? new Date(message.at) : new Date();
  const foot = el("div", { class: "foot" });
  if (message.private) foot.append(el("span", {}, "Only you see this; it does not stay"));
  else if (kind !== "growing") {
    foot.append(el("time", { datetime: at.toISOString(), title: at.toLocaleString() }, clock.format(at)));
  }
  if (message.tone === "stopped") foot.append(el("span", { class: "stopped" }, icon("stop"), "Stopped"));
  if (message.edited) foot.append(el("span", {}, "edited"));
  if (message.reactions?.length)
    foot.append(el("span", { class: "reactions" }, ...message.reactions.map((emoji) => el("span", {}, emoji))));
  if (message.note) foot.append(el("span", { class: "problem" }, `Not answered: ${message.note}`));
  return foot;
}

export function messageElement(message, { kind = "", quoted = "", onPress, onAgain } = {}) {
  const who = message.who === "person" ? "person" : "bot";
  const tone = message.tone ? `tone-${message.tone}` : "";
  const node = el("li", { class: `message ${who} ${kind} ${message.private ? "private" : ""} ${tone}`, id: `m-${message.id}` });
  node.append(el("span", { class: "unseen" }, who === "person" ? "You:" : "Tieline:"));
  const bubble = el("div", { class: "bubble" });
  if (quoted) bubble.append(el("span", { class: "quoted" }, quoted));
  if (who === "bot") {
    const blocks = el("div", { class: "blocks", dir: "auto" });
    setBlocks(blocks, 0, message.blocks ?? []);
    bubble.append(blocks);
  } else if (message.text) {
    bubble.append(wordsOf(message));
  }
  if (message.files?.length) bubble.append(el("div", { class: "files" }, ...message.files.map(fileOf)));
  if (message.buttons?.length) bubble.append(choicesOf(message, onPress));
  const foot = footOf(message, kind);
  if (who === "bot" && kind !== "growing" && !message.private) {
    if (onAgain) foot.append(againOf(message, onAgain), el("span", { class: "answered-again", hidden: true }, "Answered again below"));
    const copy = el("button", { class: "act", type: "button", "aria-label": "Copy this answer" }, icon("copy"), "Copy");
    copy.addEventListener("click", async () => {
      if (await copyText(readable(bubble.querySelector(".blocks")))) toast("Copied");
    });
    foot.append(copy);
  }
  node.append(bubble, foot);
  return node;
}

// Asks for an answer once more. The thread shows it below the newest one alone: that is the one it concerns.
function againOf(message, onAgain) {
  const isProblem = message.tone === "problem";
  const again = el(
    "button",
    { class: "act stays again", type: "button", hidden: true },
    icon("again"),
    isProblem ? "Try again" : "Answer again",
  );
  again.addEventListener("click", async () => {
    again.disabled = true;
    if (!(await onAgain(message))) again.disabled = false;
  });
  return again;
}

// The text of an answer as a person reads it, without buttons and captions.
export function readable(node) {
  const copy = node.cloneNode(true);
  for (const extra of copy.querySelectorAll("button, figcaption")) extra.remove();
  withSources(copy);
  copy.classList.add("unseen");
  document.body.append(copy); // innerText needs a place in the page to know its lines
  copy.style.whiteSpace = "normal";
  const text = copy.innerText;
  copy.remove();
  return text.trim();
}
