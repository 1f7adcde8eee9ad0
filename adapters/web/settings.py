"""Settings of the web chat; where it is served stands in section `[web]`."""

from typing import ClassVar

from pydantic import Field

from gateway.channels.adapter import ChannelSettings, Entrance


class WebSettings(ChannelSettings):
    """`history` is how many messages of a conversation the page keeps; `max_files_mb` what a person's files may take.

    The oldest go first. What the agent remembers is not touched by either.
    """

    adapter: ClassVar[str] = "adapters.web.adapter:Web"
    entrance: ClassVar[Entrance] = "sign_in"

    type: str = "web"
    history: int = Field(default=500, ge=20, le=10_000)
    max_files_mb: int = Field(default=1024, ge=1)
