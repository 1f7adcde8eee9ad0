"""Draws Markdown in a terminal, an answer that grows in place. Nothing here knows where it comes from."""

from importlib import import_module
from typing import Any


class MarkdownRenderer:
    """Draws Markdown with rich, which is loaded only where there is a terminal."""

    def __init__(self) -> None:
        self._console = import_module("rich.console").Console()
        self._markdown = import_module("rich.markdown").Markdown
        self._live_class = import_module("rich.live").Live
        self._live: Any = None

    @property
    def is_drawing(self) -> bool:
        """An answer is growing."""
        return self._live is not None

    def draw(self, text: str) -> None:
        """The whole text so far, in place of what was drawn of it."""
        if self._live is None:
            # `visible` would repeat what has scrolled away; a long draft shows its end only until it is final.
            self._live = self._live_class(console=self._console, auto_refresh=False, vertical_overflow="ellipsis")
            self._live.start()
        self._live.update(self._markdown(text), refresh=True)

    def finish(self, text: str, *, markdown: bool = True) -> None:
        """It has grown: this is left standing of it."""
        self._live.vertical_overflow = "visible"
        self._live.update(self._markdown(text) if markdown else text, refresh=True)
        self._live.stop()
        self._live = None

    def put(self, text: str, *, markdown: bool = True) -> None:
        """Something else that is said, above what grows."""
        self._console.print(self._markdown(text) if markdown else text)
