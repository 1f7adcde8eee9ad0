"""Reading along in groups of each platform by the running program: with a question, over a kill, and spoken unasked."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.doubles.llm_api import outside_of_frames
from tests.program import configs
from tests.program.conftest import Start
from tests.program.doubles import Doubles, until
from tests.program.people import DISCORD_ANN, GENERAL, GROUP, OnDiscord, OnSlack, OnTelegram
from tests.program.running import Program
from tests.program.test_places import BOB, DISCORD_BOB, GUILD, Group, groups, newest

TOLD = "From now on I read along here"
FRAME = '<untrusted source="group">'
SILENT = {"type": "tool_use", "name": "stay_silent", "input": {"why": "nobody looks for anything"}}
FOUND = "The harbour is to the left."
EAGER = [{"match": {"outside": "lost"}, "reply": {"text": FOUND}}, {"match": {}, "reply": {"blocks": [SILENT]}}]
BOB_OF = {"telegram": "@bobby", "discord": f"<@{DISCORD_BOB}>", "slack": "<@U0BOB>"}
NAMES = {
    "telegram": ("Ann (telegram:77)", f"Bob (telegram:{BOB['id']})"),
    "discord": (f"Ann (discord:{DISCORD_ANN})", f"(discord:{DISCORD_BOB})"),
    "slack": ("Ann (slack:U0ANN)", "Bob (slack:U0BOB)"),
}


@pytest.fixture
async def pairs(doubles: Doubles) -> Sequence[tuple[Group, Group]]:
    """Two groups of Ann and Bob on each platform."""
    bob = {"id": "U0BOB", "name": "bob", "real_name": "Bob", "team_id": "T0DOUBLE", "is_bot": False}
    doubles.slack.double.users["U0BOB"] = bob  # Slack names nobody in a message: who it is must be asked for
    return await groups(doubles)


def config(doubles: Doubles, pairs: Sequence[tuple[Group, Group]], rules: str = "") -> str:
    let_in = json.dumps([group.name.replace(" ", ":") for pair in pairs for group in pair])
    access = configs.ACCESS + f"messages_per_minute = 600\nallow_groups = {let_in}\n"
    accounts = configs.telegram(doubles) + configs.discord(doubles) + configs.slack(doubles)
    return access + rules + configs.models(doubles, "a") + accounts


def words_of(message: dict[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def platform_of(group: Group) -> str:
    return group.name.partition(" ")[0]


async def kept(tieline: Program, group: Group, count: int) -> None:
    """Wait until so many messages are kept of its stream."""
    query = f"select count(*) from group_message where stream = '{group.match.replace('/', ':')}'"

    async def all_of_them() -> bool:
        return tieline.rows(query) == [(count,)]

    await until(all_of_them, what=f"{count} messages kept of {group.name}")


@pytest.mark.alone
@pytest.mark.requirement("G-49", "G-50")
async def test_a_question_reads_the_talk_before_it_over_a_kill_and_only_where_an_admin_wants_it(
    doubles: Doubles, program: Start, pairs: Sequence[tuple[Group, Group]]
) -> None:
    slack = OnSlack(doubles)
    await doubles.llm.post("script", [{"match": {}, "reply": {"text": "So be it."}}])
    tieline = program(config(doubles, pairs))
    async with tieline:
        for wanted, other in pairs:
            await wanted.bob("/settings context window")
            await wanted.hears("admin")
            await wanted.ann("/settings context window")
            await wanted.hears("window")
            for number in range(20):
                await (wanted.bob if number % 2 else wanted.ann)(f"point {number} of the plan")
                await other.bob(f"zyzzyva {number}")
            await wanted.hears(TOLD)
            await kept(tieline, wanted, 20)
        tieline.kill()
        tieline.start()
        await tieline.ready()
        for wanted, other in pairs:
            where = wanted.name
            await wanted.ann(f"{wanted.mention} what did we decide in {where}?")
            first = await newest(doubles, f"what did we decide in {where}")
            words = words_of(first["messages"][-1])
            assert words.count(FRAME) == words.count("<untrusted") == 1
            framed, _, after = words.partition("</untrusted>")
            assert "what did we decide" in after, "before the question"
            lines = [line for line in framed.splitlines() if "of the plan" in line]
            assert [int(line.rpartition("point ")[2].split()[0]) for line in lines] == list(range(20))
            ann, bob = NAMES[platform_of(wanted)]
            assert all((bob if number % 2 else ann) in line for number, line in enumerate(lines)), lines[:2]
            assert "zyzzyva" not in json.dumps(first)
            await wanted.hears("So be it.")
            await tieline.settled()
            if platform_of(wanted) == "slack":  # it was answered in a thread
                asked = next(one for one in (await slack.state())["messages"] if f"decide in {where}" in one["text"])[
                    "ts"
                ]
                await slack.say(f"{wanted.mention} and then in {where}?", wanted.name.split()[1], thread_ts=asked)
            else:
                await wanted.ann(f"{wanted.mention} and then in {where}?")
            second = await newest(doubles, f"and then in {where}")
            assert json.dumps(second["tools"]) == json.dumps(first["tools"])
            before, then = (json.dumps(one["messages"][:-1])[:-1] for one in (first, second))
            assert then.startswith(before), "the same bytes, and then more"
            assert "of the plan" not in json.dumps(second), "in no history, and not read twice"
            await other.ann(f"{other.mention} and here, {where}?")
            body = await newest(doubles, f"and here, {where}")
            assert FRAME not in json.dumps(body)
            assert "zyzzyva" not in json.dumps(body)
            await wanted.bob("/privacy")
            assert "messages of 2 people" in await wanted.hears("Kept now")
            await other.bob("/privacy")
            await other.hears("I read nothing of what you say to each other")
            told = [text for text in await wanted.shown() if TOLD in text]
            assert len(told) == 1, "said once"
            assert not [text for text in await other.shown() if TOLD in text]
        await tieline.settled()
        assert await tieline.stop() == 0
    files = b"".join(path.read_bytes() for path in tieline.home.glob("tieline.db*"))
    assert b"point 7 of the plan" in files
    assert b"zyzzyva" not in files


AMBIENT = """
[[places]]
match = "{match}"
context = "window"
mention = "ambient"
"""


async def asks_bob(doubles: Doubles, group: Group, words: str) -> None:
    """Ann names Bob, as the platform's own app has her do it."""
    name = BOB_OF[platform_of(group)]
    if platform_of(group) != "telegram":
        await group.ann(f"{name} {words}")
        return
    entities = [{"type": "mention", "offset": 0, "length": len(name)}]
    chat = {**GROUP, "id": int(group.name.split()[1])}
    await OnTelegram(doubles).say(f"{name} {words}", chat=chat, entities=entities)


async def decided(tieline: Program, count: int) -> None:
    """Wait until so many unasked turns have ended."""

    async def ended() -> bool:
        return tieline.rows("select count(*) from ambient_turn where spoke is not null") == [(count,)]

    await until(ended, what=f"the end of {count} unasked turns")


@pytest.mark.requirement("G-52")
async def test_it_speaks_unasked_once_on_each_platform_and_not_to_who_asks_somebody_else(
    doubles: Doubles, program: Start, pairs: Sequence[tuple[Group, Group]]
) -> None:
    await doubles.llm.post("script", EAGER)
    rules = "".join(AMBIENT.format(match=speaking.match) for speaking, _ in pairs)
    tieline = program(config(doubles, pairs, rules), about={"places"})
    async with tieline:
        for number, (speaking, silent) in enumerate(pairs):
            await speaking.bob("nice weather today")
            await decided(tieline, 2 * number + 1)  # it joins in nowhere while it works
            await asks_bob(doubles, speaking, "I am lost, you know the way")
            await silent.ann("I am lost here")
            await speaking.ann("I am lost, and nobody answers")
            await speaking.hears(FOUND)
            await decided(tieline, 2 * number + 2)
            await tieline.settled()
            assert len([text for text in await speaking.shown() if FOUND in text]) == 1, speaking.name
            assert not [text for text in await silent.shown() if FOUND in text]
            others = [text for text in await speaking.shown() if TOLD not in text and FOUND not in text]
            assert others == [], "silence is not seen"
        calls = (await doubles.llm.get("calls"))["calls"]
        asked = [outside_of_frames(words_of(call["body"]["messages"][-1])) for call in calls]
        assert not any("you know the way" in words or "lost here" in words for words in asked)
        assert tieline.rows("select count(*) from ambient_turn where spoke") == [(len(pairs),)]
        assert tieline.rows("select count(*) from inbox where payload like '%nice weather%'") == [(0,)]
        assert tieline.rows("select count(*) from message where parts like '%nice weather%'") == [(0,)]


@pytest.mark.requirement("G-49")
async def test_a_thread_is_read_from_its_start(
    doubles: Doubles, program: Start, pairs: Sequence[tuple[Group, Group]]
) -> None:
    discord, slack = OnDiscord(doubles), OnSlack(doubles)
    rules = "".join(f'[[places]]\nmatch = "{wanted.match}"\ncontext = "window"\n' for wanted, _ in pairs)
    tieline = program(config(doubles, pairs, rules), about={"places"})
    async with tieline:
        for wanted, _ in pairs[1:]:
            channel = wanted.name.split()[1]
            await wanted.bob("another matter altogether")
            if platform_of(wanted) == "discord":
                root = await discord.say("where do we eat", channel, user=DISCORD_BOB)
                thread = thread_of(root)
                await doubles.discord.post("channels", {"channels": [thread]})
                await doubles.discord.post("events", {"t": "THREAD_CREATE", "d": {**thread, "newly_created": True}})
                await discord.say("at the harbour", root, user=DISCORD_BOB)
                await discord.say(f"{wanted.mention} so where, on discord?", root)
            else:
                root = await slack.say("where do we eat", channel)
                await slack.say("at the harbour", channel, thread_ts=root)
                await slack.say(f"{wanted.mention} so where, on slack?", channel, thread_ts=root)
            words = words_of((await newest(doubles, f"so where, on {platform_of(wanted)}"))["messages"][-1])
            assert words.index("where do we eat") < words.index("at the harbour") < words.index("</untrusted>")
            assert "another matter" not in words


def thread_of(root: str) -> dict[str, Any]:
    """A thread that hangs on this message of the channel: it has its id."""
    life: dict[str, Any] = {"archived": False, "locked": False, "auto_archive_duration": 1440}
    life |= {"archive_timestamp": "2026-01-01T00:00:00Z"}
    thread: dict[str, Any] = {"id": root, "type": 11, "guild_id": GUILD, "parent_id": GENERAL, "name": "aside"}
    thread |= {"owner_id": DISCORD_ANN, "thread_metadata": life, "message_count": 0, "member_count": 1}
    return thread | {"total_message_sent": 0, "rate_limit_per_user": 0, "last_message_id": None, "flags": 0}
