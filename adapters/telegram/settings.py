"""The `[[channels]]` section of a Telegram bot. Light on purpose: configuration is checked without HTTP."""

import re
from collections.abc import Iterator
from typing import ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from gateway.channels.adapter import Asked, ChannelSettings, Ids, TokenForm

PUBLIC_API = "https://api.telegram.org"
GROUP_INTERVAL_MS = 3000  # Telegram takes about 20 messages or edits a minute in one group
_TOKEN = re.compile(r"\d+:[A-Za-z0-9_-]{3,}")
_SECRET = re.compile(r"[A-Za-z0-9_-]{1,256}")  # what the Bot API allows in a secret token


class TelegramSettings(ChannelSettings):
    """One bot of @BotFather. Every key but `token` may be left out."""

    adapter: ClassVar[str] = "adapters.telegram.adapter:TelegramAdapter"
    init_asks: ClassVar[tuple[Asked, ...]] = (Asked("token", "Token from @BotFather"),)
    init_rank: ClassVar[int] = 1
    ids: ClassVar[Ids] = Ids(
        person=re.compile(r"[1-9][0-9]*"),
        place=re.compile(r"-[1-9][0-9]*"),
        mistake='a person\'s id on Telegram is a number, as in "telegram:77"',
        names_private_chat=True,
        place_may_write=True,
    )
    place_parts: ClassVar[int | None] = 1  # <chat>[:<topic>]
    tokens: ClassVar[tuple[TokenForm, ...]] = (  # core.telegram.org/bots/api, "Authorizing your bot"
        TokenForm(r"\d", r"(?<!\d)\d{6,12}:", r"[A-Za-z0-9_-]{30,64}", r"\d{6,12}:[A-Za-z0-9_-]*"),
    )

    type: Literal["telegram"] = "telegram"
    token: SecretStr
    mode: Literal["polling", "webhook"] = "polling"
    webhook_url: str | None = Field(
        default=None, description="the whole address Telegram calls; else [web] public_url with our path"
    )
    webhook_secret: SecretStr | None = Field(
        default=None, description="what Telegram must send in its header; else derived from the token"
    )
    webhook_path: str = Field(default="/webhook", description="where it is mounted, below /channels/<channel type>")
    api_base_url: str = PUBLIC_API
    proxy: str | None = Field(default=None, description="for this account alone; else the gateway's own")
    poll_timeout_s: int = Field(default=30, ge=1, le=50)
    stream_interval_ms: int = Field(
        default=3000, ge=1000, description="between two edits of a growing answer; groups never under 3000"
    )
    draft_interval_ms: int = Field(default=1000, ge=500, description="between two frames of a draft in a private chat")
    drafts: bool = Field(default=True, description="stream by drafts in private chats, else by edits")
    rich: Literal["auto", "off"] = Field(
        default="auto", description="rich messages for tables, lists and headings where the server takes them"
    )
    rich_off_in: tuple[str, ...] = Field(default=(), description="chat ids whose people cannot see rich messages")
    reactions: bool = True
    messages_per_second: float = Field(default=30.0, gt=0, le=1000, description="over all chats")
    group_messages_per_minute: int = Field(default=20, ge=1, description="in one group")
    private_messages_per_second: float = Field(default=1.0, gt=0, description="in one private chat, after a burst")

    @property
    def heard_by_many(self) -> bool:
        return self.mode == "webhook"

    def mistakes(self, public_url: str | None) -> Iterator[str]:
        """Telegram calls from outside: without a public address no webhook can be set."""
        if self.mode == "webhook" and not self.webhook_url and not public_url and self.api_base_url == PUBLIC_API:
            yield (
                'mode: "webhook" needs an address that Telegram can reach; set public_url in [web], webhook_url here, '
                'or mode = "polling"'
            )

    @field_validator("token")
    @classmethod
    def _looks_like_a_token(cls, token: SecretStr) -> SecretStr:
        if not _TOKEN.fullmatch(token.get_secret_value()):
            raise ValueError("not a bot token; @BotFather gives one like 123456:ABC-def, copy it whole")
        return token

    @field_validator("webhook_secret")
    @classmethod
    def _is_allowed_in_a_header(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and not _SECRET.fullmatch(secret.get_secret_value()):
            raise ValueError("Telegram takes 1 to 256 of the characters A-Z a-z 0-9 _ - here; choose another secret")
        return secret

    @field_validator("api_base_url", "webhook_url", "proxy")
    @classmethod
    def _is_an_address(cls, url: str | None) -> str | None:
        if url is None:
            return None
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not an http address: {url!r}; write it as https://host[:port][/path]")
        return url.rstrip("/")

    @field_validator("webhook_path")
    @classmethod
    def _is_a_path(cls, path: str) -> str:
        if not path.startswith("/") or path == "/" or any(sign in path for sign in "?#{} "):
            raise ValueError(f"not a path: {path!r}; write it like /webhook")
        return path

    @model_validator(mode="after")
    def _webhook_keys_need_the_mode(self) -> "TelegramSettings":
        if self.mode == "polling" and (self.webhook_url or self.webhook_secret):
            raise ValueError('webhook_url and webhook_secret do nothing with mode = "polling"; set mode = "webhook"')
        return self

    @property
    def group_interval_s(self) -> float:
        return max(self.stream_interval_ms, GROUP_INTERVAL_MS) / 1000
