// Formulas as MathML, which the browser draws. KaTeX only reads the source; of what it gives, elements and attributes
// that are known are built anew. Where that fails the source stays as it was written.

const MATHML = "http://www.w3.org/1998/Math/MathML";
const OPTIONS = { output: "mathml", throwOnError: true, trust: false, strict: "ignore", maxSize: 20, maxExpand: 1000 };
const LONGEST = 5000; // characters
const DEEPEST = 100; // levels of elements: what is nested deeper than that can break a browser's layout
const SLICE_MS = 12; // of work at a time
const KEPT = 500; // formulas that are not set again while an answer grows
const DEFINES = /\\(?:[gex]?def|(?:re|provide)?newcommand|(?:future)?let|global|long)(?![a-zA-Z])/; // what they define could grow without end
const SIGNS = [["$$", "$$"], ["\\[", "\\]"], ["\\(", "\\)"], ["$", "$"]];

const ELEMENTS = new Set(
  "math mrow mi mn mo mtext mspace ms msup msub msubsup mfrac msqrt mroot mover munder munderover mmultiscripts mprescripts none mtable mtr mtd mlabeledtr mstyle mpadded mphantom menclose".split(" "),
);
// Without colours: they would not keep apart from the page's own, light or dark.
const ATTRIBUTES = new Set(
  "accent accentunder depth displaystyle fence form height largeop linethickness lspace maxsize minsize movablelimits rspace scriptlevel separator stretchy symmetric voffset width".split(" "),
);
const STRIKES = new Set(["box", "top", "bottom", "left", "right", "updiagonalstrike", "downdiagonalstrike", "horizontalstrike"]);

let katex = null;
let loading = null;
const waiting = [];
const kept = new Map();

export function setFormulas(block) {
  const found = block.matches("code.math") ? [block] : block.querySelectorAll("code.math");
  if (!found.length) return;
  waiting.push(...found);
  if (katex) work();
  else load();
}

// The source of each formula in its place: for what is copied.
export function withSources(node) {
  for (const set of node.querySelectorAll("[data-source]")) {
    const lines = set.dataset.source.split("\n").flatMap((line) => [document.createElement("br"), line]);
    set.replaceWith(...lines.slice(1));
  }
  return node;
}

function load() {
  loading ??= import("./vendor/katex/katex.min.js").then(
    () => {
      katex = globalThis.katex;
      work();
    },
    () => {
      loading = null; // the next formula tries again
      waiting.length = 0;
    },
  );
}

function work() {
  const end = performance.now() + SLICE_MS;
  while (waiting.length && performance.now() < end) set(waiting.shift());
  clearTimeout(work.timer);
  if (waiting.length) work.timer = setTimeout(work);
}

function set(code) {
  const inBlock = Boolean(code.closest("figure.formula"));
  const written = code.textContent;
  const math = mathOf(written, inBlock);
  if (!math) return;
  const holder = document.createElement("span");
  holder.className = "math";
  holder.dataset.source = inBlock ? `$$\n${written}\n$$` : written;
  holder.append(math.cloneNode(true));
  code.replaceWith(holder);
}

function mathOf(written, inBlock) {
  const name = `${inBlock}${written}`;
  if (!kept.has(name)) {
    kept.set(name, made(written, inBlock));
    if (kept.size > KEPT) kept.delete(kept.keys().next().value);
  }
  return kept.get(name);
}

function made(written, inBlock) {
  const signs = inBlock ? ["", ""] : SIGNS.find(([open, close]) => written.startsWith(open) && written.endsWith(close));
  if (!signs || written.length > LONGEST || DEFINES.test(written)) return null;
  const source = written.slice(signs[0].length, written.length - signs[1].length);
  const displayMode = inBlock || signs[0] === "$$" || signs[0] === "\\[";
  try {
    // The content security policy forbids styles in markup, and complains even of those that are only read.
    const markup = katex.renderToString(source, { ...OPTIONS, displayMode }).replaceAll(/ style="[^"]*"/g, "");
    const read = new DOMParser().parseFromString(markup, "application/xml").querySelector("math");
    const shown = read?.firstElementChild?.firstElementChild; // math > semantics > what is shown
    if (!shown) return null;
    const math = document.createElementNS(MATHML, "math");
    if (displayMode) math.setAttribute("display", "block");
    math.append(rebuilt(shown, 0));
    return math;
  } catch {
    return null; // not LaTeX, or not to be set: the source can be read
  }
}

function rebuilt(node, depth) {
  if (depth > DEEPEST) throw new RangeError("nested too deeply");
  if (!ELEMENTS.has(node.localName)) throw new TypeError(`<${node.localName}> in a formula`);
  const copy = document.createElementNS(MATHML, node.localName === "menclose" ? "mrow" : node.localName);
  for (const { name, value } of node.attributes) if (ATTRIBUTES.has(name)) copy.setAttribute(name, value);
  if (node.localName === "menclose") {
    copy.classList.add(...(node.getAttribute("notation") ?? "").split(" ").filter((each) => STRIKES.has(each)).map((each) => `n-${each}`));
  }
  for (const child of node.childNodes) {
    if (child.nodeType === Node.ELEMENT_NODE) copy.append(rebuilt(child, depth + 1));
    else if (child.nodeType === Node.TEXT_NODE) copy.append(letters(child.data, node.getAttribute("mathvariant")));
  }
  if (node.getAttribute("mathvariant") === "normal") copy.setAttribute("mathvariant", "normal");
  if (node.localName === "mtable") columns(node, copy);
  return copy;
}

// Sides and lines of columns: browsers no longer read the attributes for them.
function columns(node, copy) {
  const list = (name) => (node.getAttribute(name) ?? "").split(" ").filter(Boolean);
  const [sides, gaps, lines, rows] = ["columnalign", "columnspacing", "columnlines", "rowlines"].map(list);
  const at = (values, index) => values[Math.min(index, values.length - 1)];
  for (const [number, row] of [...copy.children].entries()) {
    const below = number < copy.children.length - 1 && drawn(at(rows, number));
    for (const [index, cell] of [...row.children].entries()) {
      const isLast = index === row.children.length - 1;
      if (at(sides, index) === "left" || at(sides, index) === "right") cell.classList.add(`to-${at(sides, index)}`);
      if (!isLast && at(gaps, index) === "0em") cell.classList.add("close");
      if (index && at(gaps, index - 1) === "0em") cell.classList.add("close-before");
      if (!isLast && drawn(at(lines, index))) cell.classList.add("line-after");
      if (below) cell.classList.add("line-below");
    }
  }
}

const drawn = (line) => line === "solid" || line === "dashed";

// Where the styles of letters begin in Unicode, for A, a and 0. Browsers no longer read the attribute for them.
// https://www.w3.org/TR/mathml-core/#mathvariant-values
const STYLES = {
  bold: [0x1d400, 0x1d41a, 0x1d7ce],
  italic: [0x1d434, 0x1d44e],
  "bold-italic": [0x1d468, 0x1d482],
  script: [0x1d49c, 0x1d4b6],
  "bold-script": [0x1d4d0, 0x1d4ea],
  fraktur: [0x1d504, 0x1d51e],
  "bold-fraktur": [0x1d56c, 0x1d586],
  "double-struck": [0x1d538, 0x1d552, 0x1d7d8],
  "sans-serif": [0x1d5a0, 0x1d5ba, 0x1d7e2],
  "bold-sans-serif": [0x1d5d4, 0x1d5ee, 0x1d7ec],
  "sans-serif-italic": [0x1d608, 0x1d622],
  "sans-serif-bold-italic": [0x1d63c, 0x1d656],
  monospace: [0x1d670, 0x1d68a, 0x1d7f6],
};
const GREEK = { bold: [0x1d6a8, 0x1d6c2], italic: [0x1d6e2, 0x1d6fc], "bold-italic": [0x1d71c, 0x1d736] };
// Letters that Unicode had before the others of their style.
const EARLIER = {
  italic: { h: "ℎ" },
  script: { B: "ℬ", E: "ℰ", F: "ℱ", H: "ℋ", I: "ℐ", L: "ℒ", M: "ℳ", R: "ℛ", e: "ℯ", g: "ℊ", o: "ℴ" },
  fraktur: { C: "ℭ", H: "ℌ", I: "ℑ", R: "ℜ", Z: "ℨ" },
  "double-struck": { C: "ℂ", H: "ℍ", N: "ℕ", P: "ℙ", Q: "ℚ", R: "ℝ", Z: "ℤ" },
};

function letters(text, style) {
  if (!Object.hasOwn(STYLES, style ?? "")) return text;
  return Array.from(text, (letter) => letterOf(letter, style)).join("");
}

function letterOf(letter, style) {
  const code = letter.codePointAt(0);
  const [upper, lower, digit] = STYLES[style];
  const shifted = (from, first) => String.fromCodePoint(first + code - from);
  if (EARLIER[style]?.[letter]) return EARLIER[style][letter];
  if (letter >= "A" && letter <= "Z") return shifted(0x41, upper);
  if (letter >= "a" && letter <= "z") return shifted(0x61, lower);
  if (digit && letter >= "0" && letter <= "9") return shifted(0x30, digit);
  if (GREEK[style] && letter >= "Α" && letter <= "Ω") return shifted(0x391, GREEK[style][0]);
  if (GREEK[style] && letter >= "α" && letter <= "ω") return shifted(0x3b1, GREEK[style][1]);
  return letter;
}
