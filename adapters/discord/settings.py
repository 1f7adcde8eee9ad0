"""The `[[channels]]` section of a Discord bot. Light on purpose: a configuration is checked without discord.py."""

import re
from typing import ClassVar, Literal

from pydantic import Field, SecretStr, field_validator

from gateway.channels.adapter import Asked, ChannelSettings, Ids, TokenForm

PUBLIC_API = "https://discord.com/api/v10"


class DiscordSettings(ChannelSettings):
    """One bot of the Discord developer portal. Every key but `token` may be left out."""

    adapter: ClassVar[str] = "adapters.discord.adapter:DiscordAdapter"
    init_rank: ClassVar[int] = 2
    ids: ClassVar[Ids] = Ids(person=re.compile(r"[1-9][0-9]*"))
    init_asks: ClassVar[tuple[Asked, ...]] = (Asked("token", "Bot token (Developer Portal → Bot → Reset Token)"),)
    tokens: ClassVar[tuple[TokenForm, ...]] = (  # id, time and signature; ids of bots begin with 7, 8 or 9 in base 64
        TokenForm(
            "MNO",
            r"\b[MNO]",
            r"[A-Za-z0-9_-]{22,27}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,}",
            r"[MNO][A-Za-z0-9_-]{22,27}[A-Za-z0-9_.-]*",
        ),
    )
    loggers: ClassVar[tuple[str, ...]] = ("discord",)

    type: Literal["discord"] = "discord"
    token: SecretStr
    api_base_url: str = Field(default=PUBLIC_API, description="REST endpoint, with its version")
    gateway_url: str | None = Field(default=None, description="WebSocket endpoint; without it the one Discord names")
    proxy: str | None = Field(default=None, description="for this account alone; else the gateway's own")
    guild_ids: tuple[int, ...] = Field(
        default=(), description="register slash commands in these servers only: they show up at once, not everywhere"
    )
    message_content: bool = Field(
        default=True,
        description="ask for the privileged Message Content intent; without it only mentions, replies and direct"
        " messages can be read",
    )
    stream_interval_ms: int = Field(default=1500, ge=500, le=60_000, description="between two edits of one message")
    reactions: bool = Field(default=True, description="acknowledge with an emoji under the person's message")
    link_previews: bool = Field(default=False, description="let Discord unfold links in answers")
    upload_limit_mib: int = Field(default=10, ge=0, le=500, description="what the servers take; 10 without boosts")
    request_timeout_s: float = Field(default=30.0, gt=0, le=300)
    deaf_after_s: float = Field(
        default=100.0, gt=0, description="without an acknowledged heartbeat the connection is built anew; two beats"
    )
    probe_idle_s: float = Field(
        default=300.0, gt=0, description="a connection without events for so long is asked for a sign of life"
    )

    @property
    def stream_every_s(self) -> float:
        return self.stream_interval_ms / 1000

    @field_validator("token")
    @classmethod
    def _looks_like_a_token(cls, token: SecretStr) -> SecretStr:
        bare = token.get_secret_value().strip().removeprefix("Bot ").strip()
        if not bare or not bare.isascii() or not bare.isprintable() or " " in bare:
            raise ValueError(
                "not a bot token; copy it whole from https://discord.com/developers/applications → Bot → Reset Token"
            )
        return SecretStr(bare)

    @field_validator("api_base_url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError(f"api_base_url must be an http(s) address such as {PUBLIC_API}, not {value!r}")
        return value.rstrip("/")

    @field_validator("gateway_url")
    @classmethod
    def _is_websocket(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("ws://", "wss://")):
            raise ValueError(f"gateway_url must be a ws(s) address such as wss://gateway.discord.gg/, not {value!r}")
        return value
