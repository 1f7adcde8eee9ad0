"""Configurations for whole-program tests: the platforms and models are the doubles."""

from tests.program.doubles import (
    DISCORD_TOKEN,
    SLACK_APP_TOKEN,
    SLACK_BOT_TOKEN,
    SLACK_SECRET,
    TELEGRAM_TOKEN,
    Doubles,
)
from tests.program.running import Program

ACCESS = """
[access]
dm = "open"
groups = "open"
admins = ["telegram:77", "discord:500000000000000001", "slack:U0ANN"]
"""


def models(doubles: Doubles, *names: str, kind: str = "openai") -> str:
    """Providers by these names, all on the model double; the double sees `model-<name>`."""
    base = f"http://127.0.0.1:{doubles.llm.port}" + ("/v1" if kind == "openai" else "")
    return "\n".join(
        f'[[llm.providers]]\nname = "{name}"\ntype = "{kind}"\nmodel = "model-{name}"\n'
        f'base_url = "{base}"\napi_key = "sk-double"\ncontext_window = 128000\n'
        for name in names
    )


def telegram(doubles: Doubles, *, program: Program | None = None, more: str = "") -> str:
    """By polling, or by webhook to this program."""
    at = f"{program.url}/channels/telegram/webhook" if program else ""
    mode = f'mode = "webhook"\nwebhook_url = "{at}"' if program else 'mode = "polling"'
    return (
        f'[[channels]]\ntype = "telegram"\ntoken = "{TELEGRAM_TOKEN}"\n{mode}\n'
        f'api_base_url = "http://127.0.0.1:{doubles.telegram.port}"\n{more}\n'
    )


def discord(doubles: Doubles, *, more: str = "") -> str:
    port = doubles.discord.port
    return (
        f'[[channels]]\ntype = "discord"\ntoken = "{DISCORD_TOKEN}"\n'
        f'api_base_url = "http://127.0.0.1:{port}/api/v10"\ngateway_url = "ws://127.0.0.1:{port}/gateway/"\n{more}\n'
    )


def slack(doubles: Doubles, *, socket_mode: bool = True, more: str = "") -> str:
    app_token = f'app_token = "{SLACK_APP_TOKEN}"\n' if socket_mode else ""
    return (
        f'[[channels]]\ntype = "slack"\nbot_token = "{SLACK_BOT_TOKEN}"\n{app_token}signing_secret = "{SLACK_SECRET}"\n'
        f'api_base_url = "http://127.0.0.1:{doubles.slack.port}/api/"\n{more}\n'
    )
