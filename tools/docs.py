"""Fails on documentation that points nowhere, and on a page that is too long to be read in one go.

Checked are links, headings, `make` targets and modules.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
MOST_WORDS = 1_500
LONGER = ("CHANGELOG.md",)  # it is searched rather than read
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
_TARGET = re.compile(r"\bmake ([a-z][a-z0-9-]*)\b")
_CODE = re.compile(r"`([^`\n]+)`")
_MODULE = re.compile(r"python -m ((?:tests|tools)[\w.]*)")
_HEADING = re.compile(r"^#+ (.+?)\s*$", re.MULTILINE)


def pages(root: Path) -> list[Path]:
    """The documentation that people read."""
    return sorted((*root.glob("*.md"), *(root / "docs").rglob("*.md"), *(root / "deploy").rglob("*.md")))


def anchors(text: str) -> set[str]:
    """Anchors of the headings of a page, as common Markdown readers make them of their words."""
    found: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        slug = anchor_of(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading))
        number = sum(1 for one in found if re.fullmatch(rf"{re.escape(slug)}(-\d+)?", one))
        found.add(f"{slug}-{number}" if number else slug)
    return found


def anchor_of(heading: str) -> str:
    """The anchor of a heading that is the first with these words."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def mistakes(page: Path, root: Path, targets: set[str]) -> Iterator[str]:
    """Broken pointers of a page and its excess of length, a line each."""
    text = page.read_text()
    where = page.relative_to(root)
    words = len(text.split())
    if words > MOST_WORDS and where.as_posix() not in LONGER:
        yield f"{where}: {words} words, {MOST_WORDS} at most: split it by the reader's task"
    for link in _LINK.findall(_CODE.sub("", _FENCE.sub("", text))):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{where}: {link} is not there"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text()):
            yield f"{where}: {link} has no such heading"
    code = "\n".join([*(found[0] for found in _FENCE.finditer(text)), *_CODE.findall(_FENCE.sub("", text))])
    code += "\n".join(re.findall(r"^ {4}\S.*$", text, re.MULTILINE))
    for name in sorted(set(_TARGET.findall(code)) - targets):
        yield f"{where}: `make {name}` is no target"
    for module in sorted(set(_MODULE.findall(code))):
        path = root.joinpath(*module.split("."))
        if not (path.with_suffix(".py").exists() or (path / "__main__.py").exists()):
            yield f"{where}: `python -m {module}` is no module"


def main() -> int:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    found = [line for page in pages(ROOT) for line in mistakes(page, ROOT, targets)]
    print("\n".join(found) or f"{len(pages(ROOT))} pages point to what is there, and are short enough")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
