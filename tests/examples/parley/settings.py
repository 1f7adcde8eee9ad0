"""The `[[channels]]` section of Parley: light, so that a configuration can be checked without the adapter."""

from typing import ClassVar, Literal

from pydantic import Field, SecretStr

from gateway.channels.adapter import Asked, ChannelSettings


class ParleySettings(ChannelSettings):
    """One bot account on a Parley server."""

    adapter: ClassVar[str] = "tests.examples.parley.adapter:ParleyAdapter"
    init_asks: ClassVar[tuple[Asked, ...]] = (Asked("token", "Token of the bot (Parley: Settings, Bots)"),)

    type: Literal["parley"] = "parley"
    token: SecretStr
    url: str = Field(default="https://parley.example", pattern="^https?://")
