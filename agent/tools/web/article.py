"""The article of a page, found by the library of the `web` extra in a process of its own.

Whoever wrote the page decides how long the library takes, and it is C code that no thread can be stopped in: a process
can be ended, by the call's time limit and by whoever stops the run. Imports little, since that process does too.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from anyio import BrokenWorkerProcess, to_process

LIBRARY = "trafilatura"
LONGEST = 500_000  # characters that are looked at


async def article_of(html: str, url: str) -> str:
    """The article as Markdown; "" where there is none, or no library."""
    if find_spec(LIBRARY) is None:
        return ""
    try:
        return await to_process.run_sync(extracted, html[:LONGEST], url, cancellable=True)
    except (BrokenWorkerProcess, ImportError):  # ended by the system, or installed by halves
        return ""


def extracted(html: str, url: str) -> str:
    """The same, here and now."""
    library: Any = import_module(LIBRARY)
    return library.extract(html, url=url, output_format="markdown", include_links=True) or ""
