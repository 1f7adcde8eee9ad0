// What every page of Tieline has: the theme switch, signing out, times in the reader's own words.

const THEMES = ["", "light", "dark"];
const NAMES = { "": "Theme: system", light: "Theme: light", dark: "Theme: dark" };

export const csrf = document.querySelector('meta[name="csrf"]')?.content ?? "";

export async function post(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-csrf-token": csrf },
    body: JSON.stringify(body ?? {}),
  });
  return response;
}

function useTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  localStorage.setItem("tieline-theme", theme);
  for (const button of document.querySelectorAll("[data-switch-theme]")) {
    button.querySelector("[data-label]").textContent = NAMES[theme];
    button.dataset.current = theme || "system";
  }
}

for (const button of document.querySelectorAll("[data-switch-theme]")) {
  button.addEventListener("click", () => {
    const now = document.documentElement.dataset.theme ?? "";
    useTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
  });
}
useTheme(document.documentElement.dataset.theme ?? "");

for (const button of document.querySelectorAll("[data-sign-out]")) {
  button.addEventListener("click", async () => {
    await post("/sign-out");
    location.assign("/sign-in");
  });
}

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const STEPS = [[60, "second"], [60, "minute"], [24, "hour"], [365, "day"]];

export function ago(moment) {
  let amount = (new Date(moment) - Date.now()) / 1000;
  for (const [size, unit] of STEPS) {
    if (Math.abs(amount) < size || unit === "day") return relative.format(Math.round(amount), unit);
    amount /= size;
  }
  return "";
}

// As short as it can be, for lists: "now", "5 min", "3 h", "2 d".
export function shortAgo(moment) {
  const minutes = Math.round((Date.now() - new Date(moment)) / 60000);
  if (minutes < 1) return "now";
  if (minutes < 60) return `${minutes} min`;
  return minutes < 1440 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} d`;
}

export function showTimes(root) {
  for (const time of root.querySelectorAll("time[data-ago]")) {
    if (!time.dateTime) continue;
    time.textContent = ago(time.dateTime);
    const at = new Date(time.dateTime);
    time.title = `${at.toLocaleString()} (${at.toISOString().slice(0, 16).replace("T", " ")} UTC)`;
  }
}
