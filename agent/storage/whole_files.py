"""Small text files that are there whole or not at all, whatever ends the process meanwhile."""

from pathlib import Path


def put_whole(path: Path, text: str) -> None:
    """Put the text in place of the file, for its owner alone; who reads meanwhile has the old one. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_suffix(".part")
    partial.touch(mode=0o600)
    partial.chmod(0o600)  # before there is anything to read in it
    partial.write_text(text, "utf-8")
    partial.replace(path)
