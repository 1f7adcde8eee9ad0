"""A server made with FastMCP, in the environment of its own package: slow, crashing, structured, with pictures."""

import base64
import os
import time

from fastmcp import FastMCP
from fastmcp.utilities.types import Image

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
server = FastMCP("fast")


@server.tool
def picture() -> Image:
    """Gives a picture of one pixel."""
    return Image(data=PNG, format="png")


@server.tool
def facts(title: str, examples: int = 2) -> dict[str, object]:
    """Gives structured facts."""
    return {"title": title, "examples": list(range(examples))}


@server.tool
def slow(seconds: float) -> str:
    """Takes its time."""
    time.sleep(seconds)
    return "at last"


@server.tool
def crash() -> str:
    """Dies."""
    os._exit(3)


if __name__ == "__main__":
    server.run(show_banner=False)
