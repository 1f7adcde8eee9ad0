"""The workspace of a program: taken only where it lies in the home; and the rules that people have written there."""

from collections.abc import Iterable
from pathlib import PurePosixPath

from gateway.importers.home import Home
from gateway.importers.moved import shown
from gateway.importers.notes import is_shipped


def workspace_of(home: Home, written: str, folder: str) -> tuple[str, ...] | None:
    """Its names below the home; None, which is noted, where it lies elsewhere or is missing.

    A home that was copied keeps the path of the old place: what counts is the part behind the home's own name.
    """
    parts = PurePosixPath(written.replace("\\", "/")).parts
    for start in (folder, home.root.name):
        if start in parts:
            at = len(parts) - 1 - parts[::-1].index(start)
            below = tuple(parts[at + 1 :])
            if below and ".." not in below and home.has(*below):
                return below
    home.leave(
        f"workspace {shown(written)}",
        "it is not in this home, so its character, notes, skills and files stay; copy it there and import again",
    )
    return None


def own_rules(home: Home, rules: str, shipped: Iterable[str], program: str) -> str:
    """The text of AGENTS.md; "" where it is one that the program has written itself, by the digests of these."""
    if not rules.strip():
        return ""
    if is_shipped(rules, shipped):
        home.leave("AGENTS.md", f"it is as {program} wrote it, about tools that only {program} has")
        return ""
    home.leave("AGENTS.md", f"it moves with the character; take out of it what is about {program}'s own tools")
    return rules
