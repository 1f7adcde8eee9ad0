// Files for the next message: picked, pasted or dropped; uploaded at once, sent with the message.

import { byId, el, icon, sizeText, toast } from "./dom.js";
import { upload } from "./net.js";

const MOST = 20;
const MOST_BYTES = Number(document.querySelector('meta[name="most-upload"]').content);

export class Attachments {
  constructor(onChange) {
    this.list = byId("chips");
    this.onChange = onChange;
    this.entries = [];
    const picker = byId("picker");
    byId("attach").addEventListener("click", () => picker.click());
    picker.addEventListener("change", () => {
      this.add(picker.files);
      picker.value = "";
      byId("text").focus();
    });
    document.addEventListener("paste", (event) => {
      if (event.clipboardData?.files.length) {
        event.preventDefault();
        this.add(event.clipboardData.files);
      }
    });
    this.#listenForDrops(byId("drop"));
  }

  get ready() {
    return this.entries.every((entry) => entry.file || entry.problem);
  }

  get files() {
    return this.entries.filter((entry) => entry.file).map((entry) => entry.file);
  }

  clear() {
    for (const entry of this.entries) URL.revokeObjectURL(entry.preview);
    this.entries = [];
    this.#draw();
  }

  add(files) {
    for (const source of files) {
      if (this.entries.length >= MOST) {
        toast(`${MOST} files are the most for one message`);
        break;
      }
      if (MOST_BYTES && source.size > MOST_BYTES) {
        toast(`${source.name} has ${sizeText(source.size)}; ${sizeText(MOST_BYTES)} are the most for one file`);
        continue; // sent off, it would be refused at its end
      }
      const preview = source.type.startsWith("image/") ? URL.createObjectURL(source) : "";
      const entry = { name: source.name, preview, file: null, problem: "", bar: el("progress", { max: 1, value: 0 }) };
      this.entries.push(entry);
      const sending = upload(source, (share) => (entry.bar.value = share));
      entry.cancel = sending.cancel;
      sending.done
        .then((file) => (entry.file = file))
        .catch((refusal) => {
          entry.problem = refusal.message;
          if (this.entries.includes(entry)) toast(`${entry.name}: ${refusal.message}`);
        })
        .finally(() => this.#draw());
    }
    this.#draw();
  }

  #remove(entry) {
    entry.cancel();
    URL.revokeObjectURL(entry.preview);
    this.entries = this.entries.filter((each) => each !== entry);
    this.#draw();
    byId("text").focus();
  }

  #draw() {
    this.list.hidden = !this.entries.length;
    this.list.replaceChildren(
      ...this.entries.map((entry) => {
        const remove = el("button", { class: "icon", type: "button", "aria-label": `Remove ${entry.name}` }, icon("close"));
        remove.addEventListener("click", () => this.#remove(entry));
        return el(
          "li",
          { class: entry.problem ? "failed" : "", title: entry.problem || entry.name },
          entry.preview ? el("img", { src: entry.preview, alt: "" }) : icon("file"),
          el("span", {}, entry.name),
          remove,
          entry.file || entry.problem ? null : entry.bar,
        );
      }),
    );
    this.onChange();
  }

  #listenForDrops(overlay) {
    let depth = 0;
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    addEventListener("dragenter", (event) => {
      if (hasFiles(event) && ++depth) overlay.hidden = false;
    });
    addEventListener("dragleave", (event) => {
      if (hasFiles(event) && --depth <= 0) overlay.hidden = true;
    });
    addEventListener("dragover", (event) => hasFiles(event) && event.preventDefault());
    addEventListener("drop", (event) => {
      depth = 0;
      overlay.hidden = true;
      if (!hasFiles(event)) return;
      event.preventDefault();
      this.add(event.dataTransfer.files);
    });
  }
}
