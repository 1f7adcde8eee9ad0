"""The whole configuration files of docs/recipes.md: each is read, and a gateway with it answers a person."""

import re
import tomllib
from pathlib import Path

import pytest

from gateway.config.read import read
from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import DISCORD_TOKEN, SLACK_APP_TOKEN, SLACK_BOT_TOKEN, TELEGRAM_TOKEN, Doubles
from tests.program.people import DISCORD_BOT, GENERAL, OnDiscord, OnSlack, OnTelegram

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "config" / "recipes").glob("*.toml"))
PAGE = (ROOT / "docs" / "recipes.md").read_text()
ENVIRON = {
    "AZURE_OPENAI_API_KEY": "sk-azure",
    "GEMINI_API_KEY": "sk-gemini",
    "GROQ_KEY_1": "sk-one",
    "GROQ_KEY_2": "sk-two",
    "OPENAI_API_KEY": "sk-openai",
    "OPENROUTER_API_KEY": "sk-or",
    "VLLM_KEY": "sk-vllm",
    "TELEGRAM_TOKEN": TELEGRAM_TOKEN,
    "DISCORD_TOKEN": DISCORD_TOKEN,
    "SLACK_BOT_TOKEN": SLACK_BOT_TOKEN,
    "SLACK_APP_TOKEN": SLACK_APP_TOKEN,
    "ALERT_WEBHOOK": "https://hooks.slack.com/services/T/B/X",
}
HELLO = "good morning"


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_can_be_read_and_names_what_is_to_be_set(recipe: Path, tmp_path: Path) -> None:
    text = recipe.read_text()
    settings = read(tomllib.loads(text), ENVIRON, home=tmp_path, source=recipe)
    assert settings.llm.providers or settings.channels
    (row,) = [line for line in PAGE.splitlines() if f"](../config/recipes/{recipe.name})" in line]
    assert set(re.findall(r"`([A-Z_0-9]+)`", row)) == set(re.findall(r'"env:(\w+)"', text))


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
async def test_a_gateway_with_it_answers(recipe: Path, doubles: Doubles, program: Start) -> None:
    """As it is, but for addresses, and the half that it leaves to another recipe."""
    text = recipe.read_text()  # noqa: ASYNC240 - before anything runs
    mine = program("", **ENVIRON)
    at = f"http://127.0.0.1:{doubles.llm.port}/v1"
    text = re.sub(r'base_url = "[^"]*"', f'base_url = "{at}"', text)
    text = re.sub(r'(model = "gpt-5.4-mini"\n)(?!base_url)', rf'\1base_url = "{at}"\n', text)
    platform = next((name for name in ("telegram", "discord", "slack") if f'type = "{name}"' in text), "")
    if platform:
        text += configs.models(doubles, "a").replace("model-a", "gpt-5.4-mini")  # limits need a price
        for name, address in _addresses(doubles).items():
            text = text.replace(f'type = "{name}"\n', f'type = "{name}"\n{address}')
        hook = f'mode = "webhook"\nwebhook_url = "{mine.url}/channels/telegram/webhook"'
        text = re.sub(r'mode = "webhook".*', hook, text)
        text = text.replace("port = 8080", f"port = {mine.port}").replace("222222222222222222", GENERAL)
    else:
        text += configs.ACCESS + configs.telegram(doubles)
    if "[web]" not in text:
        text += f"\n[web]\nport = {mine.port}\n"
    (mine.home / "gateway.toml").write_text(text)
    await doubles.llm.post("script", [{"match": {}, "reply": {"text": HELLO}}])
    if recipe.stem == "ollama":
        await doubles.llm.post("settings", {"keyless": True})
    async with mine:
        match platform:
            case "discord":
                somebody = OnDiscord(doubles)
                await somebody.say(f"<@{DISCORD_BOT}> hello", GENERAL)
                await somebody.hears(HELLO, channel=GENERAL)
            case "slack":
                ann = OnSlack(doubles)
                await ann.say("hello")
                await ann.hears(HELLO)
            case _:
                admin = OnTelegram(doubles, {"id": 1001, "first_name": "Ann"})
                await admin.say("hello")
                await admin.hears(HELLO)


def _addresses(doubles: Doubles) -> dict[str, str]:
    telegram, discord, slack = (f"127.0.0.1:{one.port}" for one in (doubles.telegram, doubles.discord, doubles.slack))
    return {
        "telegram": f'api_base_url = "http://{telegram}"\n',
        "discord": f'api_base_url = "http://{discord}/api/v10"\ngateway_url = "ws://{discord}/gateway/"\n',
        "slack": f'api_base_url = "http://{slack}/api/"\n',
    }
