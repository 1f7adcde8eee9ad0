"""Two groups on each platform with rules of their own: what each rule does there, who changes it, and that it stays."""

import json
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import GENERAL, GROUP, OnDiscord, OnSlack, OnTelegram

SECOND = "300000000000000002"
GUILD = "200000000000000001"
BOB, DISCORD_BOB = {"id": 78, "first_name": "Bob"}, "500000000000000002"
ABOUT = {"places"}
RULES = """
[[places]]
match = "{match}"
mention = "always"
instructions = "Mention the word plover."
language = "de"
provider = "b"
verbosity = "quiet"
tools = ["calculate", "current_time"]
denied_tools = ["current_time"]
memory = false
"""


@dataclass(frozen=True)
class Group:
    """A group as its admin Ann and its member Bob use it."""

    name: str
    match: str
    mention: str
    ann: Callable[[str], Awaitable[Any]]
    bob: Callable[[str], Awaitable[Any]]
    shown: Callable[[], Awaitable[list[str]]]

    async def hears(self, words: str) -> str:
        async def found() -> str | None:
            return next((text for text in reversed(await self.shown()) if words in text), None)

        try:
            text: str = await until(found, what=f"{words!r} in {self.name}")
        except AssertionError as error:
            raise AssertionError(f"{error}; shown: {await self.shown()}") from error
        return text


async def groups(doubles: Doubles) -> Sequence[tuple[Group, Group]]:
    """On each platform one with rules and one without."""
    telegram, discord, slack = OnTelegram(doubles), OnDiscord(doubles), OnSlack(doubles)
    second = {"id": SECOND, "type": 0, "guild_id": GUILD, "name": "second", "position": 1, "permission_overwrites": []}
    await doubles.discord.post("channels", {"channels": [second]})

    def on_telegram(chat: int) -> Group:
        where = {**GROUP, "id": chat}

        async def shown() -> list[str]:
            return await telegram.texts(chat)

        return Group(
            f"telegram {chat}",
            f"telegram:{chat}",
            "@double_bot",
            lambda text: telegram.say(text, chat=where),
            lambda text: telegram.say(text, chat=where, user=BOB),
            shown,
        )

    def on_discord(channel: str) -> Group:
        async def shown() -> list[str]:
            return [str(one["content"]) for one in await discord.messages(channel)]

        return Group(
            f"discord {channel}",
            f"discord:{channel}",
            "<@100000000000000001>",
            lambda text: discord.say(text, channel),
            lambda text: discord.say(text, channel, user=DISCORD_BOB),
            shown,
        )

    def on_slack(channel: str) -> Group:
        async def shown() -> list[str]:
            private = [str(one["text"]) for one in (await slack.state())["ephemeral"] if one["channel"] == channel]
            return [str(one["text"]) for one in await slack.messages(channel)] + private

        async def says(user: str, text: str) -> None:
            """A command in the channel is a slash command there; in a message it would be for a thread of its own."""
            if not text.startswith("/"):
                await doubles.slack.post("events", {"channel": channel, "user": user, "text": text})
                return
            command = {"command": "/tieline", "text": text.removeprefix("/")}
            await doubles.slack.post("events", {"kind": "slash", "channel": channel, "user": user, **command})

        return Group(
            f"slack {channel}",
            f"slack:T0DOUBLE/{channel}",
            "<@U0DOUBLE>",
            lambda text: says("U0ANN", text),
            lambda text: says("U0BOB", text),
            shown,
        )

    return (
        (on_telegram(-1005), on_telegram(-1006)),
        (on_discord(GENERAL), on_discord(SECOND)),
        (on_slack("C0GENERAL"), on_slack("C0SECOND")),
    )


async def newest(doubles: Doubles, words: str) -> dict[str, Any]:
    """The newest request whose last words hold these."""

    async def found() -> dict[str, Any] | None:
        calls = (await doubles.llm.get("calls"))["calls"]
        return next((one["body"] for one in reversed(calls) if words in json.dumps(one["body"]["messages"][-1])), None)

    body: dict[str, Any] = await until(found, what=f"a request with {words!r}")
    return body


def tools_in(body: dict[str, Any]) -> set[str]:
    return {tool["function"]["name"] for tool in body.get("tools", ())}


@pytest.mark.requirement("G-42", "G-43", "W-13")
async def test_two_groups_on_each_platform_behave_by_their_rules(doubles: Doubles, program: Start) -> None:
    pairs = await groups(doubles)
    rules = "".join(RULES.format(match=ruled.match) for ruled, _ in pairs)
    accounts = configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)
    let_in = json.dumps([group.name.replace(" ", ":") for pair in pairs for group in pair])
    config = (
        configs.ACCESS
        + f"messages_per_minute = 600\nallow_groups = {let_in}\n"
        + rules
        + configs.models(doubles, "a", "b")
        + accounts
    )
    tieline = program(config, about=ABOUT)
    async with tieline:
        for ruled, free in pairs:
            # The file's rules, seen in requests and in what the bot says.
            await ruled.ann("nobody is named")
            body = await newest(doubles, "nobody is named")
            await free.ann("nobody is named here")
            await free.ann(f"{free.mention} but now")
            other = await newest(doubles, "but now")
            assert (body["model"], other["model"]) == ("model-b", "model-a"), ruled.name
            assert "Mention the word plover." in json.dumps(body["messages"][0])
            assert "plover" not in json.dumps(other)
            assert "code de" in json.dumps(body["messages"][0])
            assert "nobody is named here" not in json.dumps(other), "what is not addressed is not read"
            assert {"calculate"} <= tools_in(body)
            assert tools_in(body) & {"current_time", "remember", "shell", "web_fetch"} == set()
            assert {"remember", "web_fetch"} <= tools_in(other)
            # A member looks and changes nothing; an admin does.
            await ruled.bob("/settings mention never")
            await ruled.hears("Admins")
            await ruled.ann("/settings languag en")
            assert "language" in await ruled.hears("Meinst du")
            await ruled.ann("/settings language en")
            await ruled.hears("jetzt en")
            await ruled.ann("/settings instructions Mention the word heron.")
            await ruled.hears("is “Mention the word heron.” now")
        tieline.kill()
        tieline.start()
        await tieline.ready()
        for ruled, free in pairs:
            await ruled.ann("nobody is named again")
            body = await newest(doubles, "nobody is named again")
            assert body["model"] == "model-b", ruled.name
            assert "heron" in json.dumps(body["messages"][0])
            assert "code en" in json.dumps(body["messages"][0])
            await ruled.ann("/settings history")
            assert "heron" in await ruled.hears("Changes of settings")
            await free.ann("/settings")
            await free.hears("Settings of this chat")


MORE_RULES = """
[[places]]
match = "{match}"
persona = "pirate"
models = ["b/*"]
reasoning = "high"
skills = ["none"]
queue_mode = "drop"
merge_ms = 60000
"""
PIRATE = "---\nname: pirate\ndescription: A pirate\n---\nYou talk like a pirate.\n"


@pytest.mark.slow  # the composed gateway shows each of them in test_places of the commands
@pytest.mark.requirement("G-43")
async def test_the_other_rules_hold_on_each_platform_and_its_admin_changes_them(
    doubles: Doubles, program: Start
) -> None:
    pairs = await groups(doubles)
    rules = "".join(MORE_RULES.format(match=ruled.match) for ruled, _ in pairs)
    accounts = configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)
    let_in = json.dumps([group.name.replace(" ", ":") for pair in pairs for group in pair])
    access = configs.ACCESS + f"messages_per_minute = 600\nallow_groups = {let_in}\n"
    tieline = program(access + rules + configs.models(doubles, "a", "b") + accounts, about=ABOUT)
    character = tieline.home / "agents" / "pirate" / "AGENT.md"
    character.parent.mkdir(parents=True)
    character.write_text(PIRATE)
    async with tieline:
        for ruled, free in pairs:
            where = ruled.name.replace(" ", "-")
            await ruled.ann(f"{ruled.mention} one {where}")
            await free.ann(f"{free.mention} other {where}")
            body, other = await newest(doubles, f"one {where}"), await newest(doubles, f"other {where}")
            assert (body["model"], other["model"]) == ("model-b", "model-a")
            assert (body.get("reasoning_effort"), other.get("reasoning_effort")) == ("high", None)
            system, plain = json.dumps(body["messages"][0]), json.dumps(other["messages"][0])
            assert ("like a pirate" in system, "like a pirate" in plain) == (True, False)
            assert ("travel-plan" in system, "travel-plan" in plain) == (False, True)
            await ruled.hears(f"one {where}")
            await ruled.ann("/settings")
            shown = (await ruled.hears("Settings of this chat")).replace("`", "")
            for line in ("queue_mode: drop", "merge_ms: 60000", "reasoning: high"):
                assert line in shown, ruled.name
            for change in ("models a/*", "reasoning low", "skills none", "queue_mode queue", "merge_ms 0"):
                await ruled.bob(f"/settings {change}")
            await ruled.hears("for admins")
            for change, said in (
                ("reasoning low", "low"),
                ("queue_mode queue", "From now on: queue"),
                ("merge_ms 0", "is 0 now"),
                ("persona default", "default"),
                ("models a/*", "holds as well"),
                ("daily_usd 0", "0.00 USD"),
            ):
                await ruled.ann(f"/settings {change}")
                await ruled.hears(said)
            before = len((await doubles.llm.get("calls"))["calls"])
            await ruled.ann(f"{ruled.mention} too dear {where}")
            await ruled.hears("USD")
            assert len((await doubles.llm.get("calls"))["calls"]) == before
