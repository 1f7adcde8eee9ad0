// Keyboards and screen readers: a wide table can be scrolled by keys, and the bar above a block of code is no landmark.
const mended = () => {
  for (const bar of document.querySelectorAll("nav.md-code__nav")) bar.setAttribute("role", "presentation");
  for (const around of document.querySelectorAll(".md-typeset__scrollwrap, .md-typeset pre > code")) {
    if (around.scrollWidth > around.clientWidth) around.tabIndex = 0;
    else around.removeAttribute("tabindex");
  }
};

new MutationObserver(mended).observe(document.body, { childList: true, subtree: true });
addEventListener("resize", mended);
mended();
