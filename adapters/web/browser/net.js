// Requests to the gateway. Paths are relative to the page, wherever it is mounted.

const csrf = document.querySelector('meta[name="csrf"]').content;

export class Refusal extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
  // worth trying again without a change: no answer, starting, overloaded
  get passes() {
    return this.status === 0 || this.status === 408 || this.status === 429 || this.status >= 500;
  }
}

export async function ask(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, signal: AbortSignal.timeout(30000) });
  } catch {
    throw new Refusal(0, "Tieline does not answer");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, answer.error ?? `Tieline answered ${response.status}`);
  return answer;
}

export function post(path, body) {
  return ask(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-csrf-token": csrf },
    body: JSON.stringify(body),
  });
}

export function upload(file, onProgress) {
  const request = new XMLHttpRequest(); // fetch tells nothing of an upload's progress
  const done = new Promise((resolve, reject) => {
    request.upload.onprogress = (event) => event.lengthComputable && onProgress(event.loaded / event.total);
    request.onload = () => {
      let answer = {};
      try {
        answer = JSON.parse(request.responseText);
      } catch {
        // not JSON: the status says enough
      }
      if (request.status < 400) resolve(answer);
      else reject(new Refusal(request.status, answer.error ?? "the upload was refused"));
    };
    request.onerror = () => reject(new Refusal(0, "the connection was lost"));
    request.onabort = () => reject(new Refusal(0, "taken back"));
  });
  request.open("POST", `files?name=${encodeURIComponent(file.name)}`);
  request.setRequestHeader("content-type", file.type || "application/octet-stream");
  request.setRequestHeader("x-csrf-token", csrf);
  request.send(file);
  return { done, cancel: () => request.abort() };
}
