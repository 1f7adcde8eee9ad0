// A question in a dialog: for what is not done by one slip of a finger.

import { byId } from "./dom.js";

// What was typed as the name ("" where none is asked for), or null when it was cancelled.
export function asked({ title, text, yes, name = null, grave = false }) {
  const dialog = byId("ask");
  const field = byId("ask-name");
  byId("ask-title").textContent = title;
  byId("ask-text").textContent = text;
  byId("ask-yes").textContent = yes;
  byId("ask-yes").classList.toggle("danger", grave);
  field.hidden = name === null;
  field.value = name ?? "";
  dialog.returnValue = "";
  dialog.showModal();
  if (name === null) dialog.querySelector("button").focus();
  else field.select();
  return new Promise((resolve) => {
    const key = (event) => {
      // Enter means the name that was typed; the form's first button would cancel
      if (event.key !== "Enter" || event.isComposing) return;
      event.preventDefault();
      dialog.close("yes");
    };
    field.addEventListener("keydown", key);
    dialog.addEventListener(
      "close",
      () => {
        field.removeEventListener("keydown", key);
        resolve(dialog.returnValue === "yes" ? field.value.trim() : null);
      },
      { once: true },
    );
  });
}
