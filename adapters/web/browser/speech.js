// Tells screen readers what is new, each piece once: finished blocks while an answer grows, never the whole again.

import { byId, el } from "./dom.js";

const spoken = byId("spoken");
const told = new Map(); // id of a growing answer -> how many of its blocks were told
const KEPT = 40;

function say(text) {
  if (!text) return;
  spoken.append(el("p", {}, text));
  while (spoken.children.length > KEPT) spoken.firstElementChild.remove();
}

export function grows(id, holder) {
  const finished = holder.children.length - 1; // the last one may still grow
  const from = Math.min(told.get(id) ?? 0, finished);
  for (let index = from; index < finished; index++) say(holder.children[index].textContent);
  told.set(id, Math.max(finished, 0));
}

export function ends(id, holder) {
  const from = told.get(id) ?? 0;
  told.delete(id);
  for (let index = from; index < holder.children.length; index++) say(holder.children[index].textContent);
}

export const tell = say;
