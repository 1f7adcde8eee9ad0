"""An agent with one tool, whose requests cost the same however many tools the product has."""

from pathlib import Path

_PLAIN = "---\nname: Tieline\ntools: [current_time]\n---\n\nBe brief.\n"


def write_plain_agent(home: Path) -> None:
    """Make it the agent of this home."""
    folder = home / "agents" / "default"
    folder.mkdir(parents=True)
    (folder / "AGENT.md").write_text(_PLAIN)
