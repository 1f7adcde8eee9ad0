// The status page: fetches its facts anew while it is looked at, and decides pairings.

import { post, showTimes } from "./frame.js";

const EVERY_MS = 4000;
const PATIENCE_MS = 8000; // who does not answer by then has no news
const facts = document.getElementById("facts");
const stale = document.getElementById("stale");
const told = document.getElementById("told");

async function refresh() {
  if (document.hidden) return;
  if (refresh.asks) return (refresh.again = true);
  refresh.asks = true;
  try {
    const signal = AbortSignal.timeout(PATIENCE_MS);
    const response = await fetch("/status/facts", { headers: { accept: "text/fragment" }, signal });
    if (response.status === 401) return location.reload();
    if (!response.ok) throw new Error(String(response.status));
    const html = await response.text();
    if (html !== refresh.last) {
      const focused = document.activeElement?.dataset;
      facts.innerHTML = html; // rendered and escaped by the server
      refresh.last = html;
      if (focused?.pairing)
        facts.querySelector(`[data-pairing="${CSS.escape(focused.pairing)}"][data-decision="${focused.decision}"]`)?.focus();
    }
    stale.hidden = true;
  } catch {
    stale.hidden = false;
  } finally {
    refresh.asks = false;
  }
  if (refresh.again) {
    refresh.again = false;
    return refresh();
  }
  showTimes(facts);
}

facts.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-pairing]");
  if (!button) return;
  for (const each of button.parentElement.children) each.disabled = true;
  const { pairing, decision } = button.dataset;
  let text;
  try {
    const response = await post(`/pairings/${encodeURIComponent(pairing)}/${decision}`);
    const answer = await response.json();
    text = answer.text ?? answer.error;
  } catch {
    text = "Tieline does not answer. Try again.";
  }
  told.textContent = text;
  told.hidden = false;
  refresh.last = "";
  await refresh();
});

document.addEventListener("visibilitychange", refresh);
setInterval(refresh, EVERY_MS);
showTimes(facts);
