"""The `[[channels]]` section of a Slack app; free of the platform's library, so that a config can be checked quickly."""

from typing import ClassVar, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from gateway.channels.adapter import ChannelSettings

TEXT_LIMIT = 4000  # the most chat.update takes as text, and where long answers are split (G-10)


class SlackSettings(ChannelSettings):
    """One Slack app in one workspace.

    With `app_token` events come over Socket Mode; without it Slack posts them, signed, to the web server, and
    `signing_secret` is needed to believe them.
    """

    adapter: ClassVar[str] = "adapters.slack.adapter:SlackAdapter"

    type: Literal["slack"] = "slack"
    bot_token: SecretStr
    app_token: SecretStr | None = None
    signing_secret: SecretStr | None = None
    api_base_url: str = "https://slack.com/api/"
    slash_command: str = "/tieline"  # the one command that takes all others as its first word
    stream_interval_ms: int = Field(default=2000, ge=500, le=60_000)  # G-11
    text_limit: int = Field(default=TEXT_LIMIT, ge=200, le=TEXT_LIMIT)
    reactions: bool = True  # acknowledge with an emoji under the person's message
    native_streams: bool = True  # chat.startStream in threads; else the answer grows by chat.update
    look_up_people: bool = True  # names, languages and admins from users.info
    ping_every_s: float = Field(default=10.0, gt=0)  # Socket Mode: three unanswered probes mean deaf
    request_timeout_s: float = Field(default=30.0, gt=0)
    max_upload_mib: int = Field(default=50, ge=0, le=1000)

    @property
    def socket_mode(self) -> bool:
        return self.app_token is not None

    @field_validator("bot_token")
    @classmethod
    def _bot_token_kind(cls, value: SecretStr) -> SecretStr:
        _check_kind(value, "bot_token", ("xoxb-",), "OAuth & Permissions → Bot User OAuth Token")
        return value

    @field_validator("app_token")
    @classmethod
    def _app_token_kind(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None:
            _check_kind(value, "app_token", ("xapp-",), "Basic Information → App-Level Tokens (connections:write)")
        return value

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
            raise ValueError(f"slash_command must look like /tieline (lower case, at most 32 characters), not {value!r}")
        return "/" + name

    @model_validator(mode="after")
    def _some_way_in(self) -> Self:
        if self.app_token is None and (self.signing_secret is None or not self.signing_secret.get_secret_value()):
            raise ValueError(
                "slack hears nothing: set app_token (xapp-…, for Socket Mode) or signing_secret (for signed HTTP; "
                "Basic Information → App Credentials)"
            )
        return self


def _check_kind(value: SecretStr, name: str, prefixes: tuple[str, ...], where: str) -> None:
    secret = value.get_secret_value().strip()
    if not secret.startswith(prefixes):
        seen = f"it starts with {secret[:5]!r}" if secret.startswith(("xox", "xapp-")) else "it does not"
        raise ValueError(f"{name} must start with {prefixes[0]} ({seen}); copy it from {where}")
