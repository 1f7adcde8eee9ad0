"""The `[[channels]]` section of a Slack app. Light on purpose: a configuration is checked without the library."""

import re
from typing import ClassVar, Literal, Self

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from gateway.channels.adapter import Asked, ChannelSettings, Ids, TokenForm

PUBLIC_API = "https://slack.com/api/"
TEXT_LIMIT = 4000  # the most chat.update takes as text, and where long answers are split (G-10)


class SlackSettings(ChannelSettings):
    """One Slack app in one workspace.

    With `app_token` events come over Socket Mode; without it Slack posts them, signed, to the web server, and
    `signing_secret` is needed to believe them.
    """

    model_config = ConfigDict(hide_input_in_errors=True)  # a token in the wrong key must not end up in a message
    adapter: ClassVar[str] = "adapters.slack.adapter:SlackAdapter"
    init_asks: ClassVar[tuple[Asked, ...]] = (
        Asked("bot_token", "Bot User OAuth Token (xoxb-…)"),
        Asked("app_token", "App-Level Token for Socket Mode (xapp-…), empty for HTTP", needed=False),
        Asked("signing_secret", "Signing Secret", needed=False),
    )
    init_rank: ClassVar[int] = 3
    ids: ClassVar[Ids] = Ids(
        person=re.compile(r"[UW][A-Z0-9]+"),
        place=re.compile(r"(T[A-Z0-9]+:)?[CG][A-Z0-9]+|T[A-Z0-9]+"),
    )
    place_parts: ClassVar[int | None] = 2  # <team>:<channel>[:<thread>]
    tokens: ClassVar[tuple[TokenForm, ...]] = (  # docs.slack.dev, "Tokens"
        TokenForm("x", r"\b(?:xox[a-z]|xapp)", r"-[A-Za-z0-9-]{8,}", r"(?:xox[a-z]|xapp)-[A-Za-z0-9-]*"),
    )
    loggers: ClassVar[tuple[str, ...]] = ("slack_sdk",)

    type: Literal["slack"] = "slack"
    bot_token: SecretStr = Field(description="xoxb-…; OAuth & Permissions")
    app_token: SecretStr | None = Field(default=None, description="xapp-…, for Socket Mode; without it signed HTTP")
    signing_secret: SecretStr | None = Field(default=None, description="for signed HTTP; Basic Information")
    api_base_url: str = PUBLIC_API
    proxy: str | None = Field(default=None, description="for this account alone; else the gateway's own")
    slash_command: str = Field(default="/tieline", description="the command that takes all others as its first word")
    stream_interval_ms: int = Field(default=2000, ge=500, le=60_000, description="between two frames of an answer")
    text_limit: int = Field(default=TEXT_LIMIT, ge=200, le=TEXT_LIMIT, description="where long answers are split")
    native_streams: bool = Field(default=True, description="stream in threads natively, else by edits")
    reactions: bool = Field(default=True, description="acknowledge with an emoji under the person's message")
    link_previews: bool = Field(default=False, description="let Slack unfold links in answers")
    look_up_people: bool = Field(default=True, description="names, languages and admins from users.info")
    upload_limit_mib: int = Field(default=50, ge=0, le=1000)
    request_timeout_s: float = Field(default=30.0, gt=0, le=300)
    ping_every_s: float = Field(default=10.0, gt=0, le=60, description="three unanswered probes mean a deaf socket")
    idle_refresh_s: float = Field(
        default=3600.0, gt=0, description="a socket without any event for so long is opened anew, to be sure it hears"
    )

    @property
    def socket_mode(self) -> bool:
        return self.app_token is not None

    @property
    def heard_by_many(self) -> bool:
        return not self.socket_mode

    @property
    def stream_every_s(self) -> float:
        return self.stream_interval_ms / 1000

    @field_validator("bot_token")
    @classmethod
    def _bot_token_kind(cls, value: SecretStr) -> SecretStr:
        return _of_kind(value, "bot_token", "xoxb-", "OAuth & Permissions → Bot User OAuth Token")

    @field_validator("app_token")
    @classmethod
    def _app_token_kind(cls, value: SecretStr | None) -> SecretStr | None:
        where = "Basic Information → App-Level Tokens (scope connections:write)"
        return None if value is None else _of_kind(value, "app_token", "xapp-", where)

    @field_validator("api_base_url")
    @classmethod
    def _api_base_url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError(f"api_base_url must be an http(s) address ending in /api/, not {value!r}")
        return value if value.endswith("/") else value + "/"

    @field_validator("slash_command")
    @classmethod
    def _slash_command(cls, value: str) -> str:
        name = value.removeprefix("/")
        if not name or len(name) > 31 or not name.replace("-", "").replace("_", "").isalnum() or name != name.lower():
            raise ValueError(
                f"slash_command must look like /tieline (lower case, at most 32 characters), not {value!r}"
            )
        return "/" + name

    @model_validator(mode="after")
    def _some_way_in(self) -> Self:
        if self.app_token is None and not (self.signing_secret and self.signing_secret.get_secret_value().strip()):
            raise ValueError(
                "slack hears nothing: set app_token (xapp-…, for Socket Mode) or signing_secret (for signed HTTP; "
                "Basic Information → App Credentials)"
            )
        return self


def _of_kind(value: SecretStr, name: str, prefix: str, where: str) -> SecretStr:
    secret = value.get_secret_value().strip()
    if not secret.startswith(prefix):
        seen = f"it starts with {secret[:5]!r}" if secret.startswith(("xox", "xapp-")) else "it does not"
        raise ValueError(f"{name} must start with {prefix} ({seen}); copy it from api.slack.com/apps → {where}")
    return SecretStr(secret)
