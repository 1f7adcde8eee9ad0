"""Notes a new requirement under the next free id of its group, and begins the breakage that its test must notice.

`make requirement TITLE="what must hold" GROUP=G` runs it.
"""

import argparse
import json
import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
OUTLINE = """\
# {id}: {title}
#
# Break this in one place of the product; the tests that carry it must notice.
[[breakage]]
name = ""  # what is broken then: "gate_is_skipped"
kind = ""  # "condition", "wiring" or "configuration"
module = ""  # where to look first: "agent.turn.context"
function = ""  # "Class.method" or "function"; a class or "" for what is in no function
snippet = ""  # the code as it is: one expression, or whole statements
replacement = ""  # the code that breaks it; "" takes the statements away
"""


def next_id(text: str, group: str) -> str:
    """The next free id of a group. Raises ValueError for a group that is not in the list."""
    numbers = [int(number) for number in re.findall(rf"^{re.escape(group)}-(\d+) = ", text, re.MULTILINE)]
    if not numbers:
        groups = sorted({name.partition("-")[0] for name in tomllib.loads(text)})
        raise ValueError(f"no group {group!r}; known: {', '.join(groups)}")
    return f"{group}-{max(numbers) + 1:02}"


def with_requirement(text: str, name: str, title: str) -> str:
    """The list with this entry, open, behind the last one of its group."""
    group = name.partition("-")[0]
    last = list(re.finditer(rf"^{re.escape(group)}-\d+ = .*\n", text, re.MULTILINE))[-1]
    entry = f'{name} = {{ status = "open", text = {json.dumps(title, ensure_ascii=False)} }}\n'
    return text[: last.end()] + entry + text[last.end() :]


def note(root: Path, group: str, title: str) -> tuple[str, Path]:
    """Write both files; returns the id and the breakage. Raises ValueError."""
    title = title.strip()
    if not title or "\n" in title:
        raise ValueError('say in one line what must hold: make requirement TITLE="…"')
    path = root / "docs" / "requirements.toml"
    text = path.read_text()
    name = next_id(text, group)
    breakage = root / "tests" / "breakages" / f"{name}.toml"
    if breakage.exists():
        raise ValueError(f"{breakage.relative_to(root)} is there already")
    path.write_text(with_requirement(text, name, title))
    breakage.write_text(OUTLINE.format(id=name, title=title))
    return name, breakage


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("title", help="what must hold, in one sentence")
    parser.add_argument("--group", default="Z", help="the letter, as the headings of docs/requirements.toml say")
    chosen = parser.parse_args(arguments)
    try:
        name, breakage = note(ROOT, chosen.group, chosen.title)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    print(f"{name} is in docs/requirements.toml, open. Now:")
    print(f'  1. a test that carries it: @pytest.mark.requirement("{name}")')
    print(f"  2. fill in {breakage.relative_to(ROOT)}, or remove it: `make test` fails while it is empty")
    print(f"  3. make mutate NAMES={breakage.stem}")
    print('  4. set its status to "done" in the commit with the test')
    return 0


if __name__ == "__main__":
    sys.exit(main())
