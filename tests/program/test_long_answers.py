"""An answer of 10,000 characters and more, with fences, tables and emoji, streamed to every platform at once."""

import re
from collections.abc import AsyncIterator, Iterable
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from adapters.discord.limits import TEXT_LIMIT as DISCORD_LIMIT
from adapters.slack.render import measure as slack_measure
from adapters.slack.settings import TEXT_LIMIT as SLACK_LIMIT
from adapters.telegram.render import TEXT_LIMIT as TELEGRAM_LIMIT
from adapters.telegram.render import measure as telegram_measure
from gateway.channels.document import CodeBlock, Document, Table
from gateway.delivery.rendering.markdown import parse
from gateway.delivery.rendering.splitting import split
from tests.adapters.discord.reading import readable
from tests.adapters.slack.test_render import sense
from tests.adapters.telegram.reading import intended, shown
from tests.adapters.telegram.test_rich import merged, read
from tests.adapters.web.visitor import Visitor, text_of
from tests.doubles.telegram_api import flat
from tests.fakes.readable import readable as plainly
from tests.gateway.delivery.rendering.documents import streams
from tests.program import configs
from tests.program.doubles import until
from tests.program.people import GROUP, OnDiscord, OnSlack, OnTelegram
from tests.program.stage import Stage, on_stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

# Every stretch holds numbered words, so that one that is missing, doubled or misplaced is seen.
LONG = "\n\n".join(
    [
        "# Report 📊 h0w",
        *(
            f"## Part {n} & more <b> h{n + 1}w\n\n"
            + " ".join(
                f"Plain p{n}{k:02}w, **bold b{n}{k:02}w**, *leaning i{n}{k:02}w*, `code_{n}_{k}`." for k in range(9)
            )
            + f" A [link l{n}w](https://example.org/{n}?a=1&b=2), 5 * 3 = 15, snake_case_{n}, 日本語 and 👩‍👩‍👧‍👦.\n\n"
            + "```python\n"
            + "\n".join(f"def c{n}{k:02}w(x):\n    return f'<{{x}}> & 😀'  # *no* `markup`" for k in range(8))
            + "\n```\n\n"
            + "| name | value | 🎈 |\n|:--|--:|:-:|\n"
            + "\n".join(f"| t{n}{k:02}w | **{n * k}** | 🎈 |" for k in range(6))
            + "\n\n"
            + "\n".join(f"{k + 1}. item s{n}{k:02}w\n   - below it u{n}{k:02}w" for k in range(4))
            + f"\n\n> quoted q{n}w\n> and on r{n}w"
            for n in range(6)
        ),
        "```text\n" + "\n".join(f"z{k:03}w " + "─" * 60 for k in range(70)) + "\n```",
        "The end e0w 🏁",
    ]
)
WORDS = re.findall(r"\b[a-z]\d+w\b", LONG)
CODES = re.findall(r"```\w+\n(.*?)\n```", LONG, re.DOTALL)
EMOJI = ("😀", "👩‍👩‍👧‍👦", "🏁")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    home = tmp_path_factory.mktemp("h", numbered=True)
    async with on_stage(home, lambda d, _: configs.telegram(d) + configs.discord(d) + configs.slack(d)) as stage:
        assert len(LONG) > 10_000
        assert len(set(WORDS)) == len(WORDS) > 300
        await stage.script("the report", LONG, token_delay=0.001)
        yield stage


def whole(text: str, *, emoji: Iterable[str] = EMOJI) -> None:
    """Every numbered word once and in order, every emoji as often as it was said."""
    assert re.findall(r"\b[a-z]\d+w\b", text) == WORDS
    for sign in emoji:
        assert text.count(sign) == LONG.count(sign)


async def arrived(found: Any) -> list[dict[str, Any]]:
    """Wait until the last words stand there and nothing is still being streamed."""

    async def ended() -> Any:
        messages = await found()
        done = messages and "e0w" in str(messages[-1]) and not any(one.get("streaming") for one in messages)
        return messages if done and "h0w" in str(messages[0]) else None

    messages: list[dict[str, Any]] = await until(ended, seconds=100, what="the end of the report")
    return messages


async def on_telegram(telegram: OnTelegram, chat: int) -> None:
    messages = await arrived(lambda: telegram.messages(chat))
    parts = split(parse(LONG), TELEGRAM_LIMIT, telegram_measure)
    assert len(messages) == len(parts)
    for part, message in zip(parts, messages, strict=True):
        if "rich_message" in message:
            assert merged(read(message["rich_message"]["blocks"])) == merged(part)
        else:
            assert list(shown(message["text"], message.get("entities", []))) == list(intended(part))
    whole("\n".join(flat(one["rich_message"]["blocks"]) if "rich_message" in one else one["text"] for one in messages))


async def on_discord(discord: OnDiscord, channel: str) -> None:
    contents = [one["content"] for one in await arrived(lambda: discord.messages(channel))]
    assert all(len(content) <= DISCORD_LIMIT for content in contents)
    assert all(content.count("```") % 2 == 0 for content in contents)
    whole("\n".join(map(readable, contents)))
    again = tuple(block for content in contents for block in parse(content))
    assert streams(without_tables(again)) == streams(without_tables(parse(LONG)))
    assert codes(again) == CODES


def without_tables(document: Document) -> Document:
    """Discord shows tables as code without a language; all other code here has one."""
    return tuple(
        block
        for block in document
        if not isinstance(block, Table) and not (isinstance(block, CodeBlock) and not block.language)
    )


def codes(document: Document) -> list[str]:
    """The code of fences, what was cut put together again: a new one begins with the number that follows."""
    found: list[str] = []
    for block in document:
        if not isinstance(block, CodeBlock) or not block.language:
            continue
        if found and found[-1] != CODES[len(found) - 1]:
            found[-1] += "\n" + block.code
        else:
            found.append(block.code)
    return found


async def on_slack(messages: list[dict[str, Any]]) -> None:
    parts = split(parse(LONG), SLACK_LIMIT, slack_measure)
    assert len(messages) == len(parts)
    assert all(len(message["text"]) <= SLACK_LIMIT or message.get("streamed") for message in messages)
    texts = [
        "\n\n".join(block["text"] for block in message["blocks"]) if message.get("blocks") else message["text"]
        for message in messages
    ]
    for part, text in zip(parts, texts, strict=True):
        assert sense(parse(text)) == sense(part)
    whole("\n".join(plainly(parse(text)) for text in texts))


async def on_the_web(ann: Visitor) -> None:
    async def found() -> list[dict[str, Any]]:
        return [message for message in (await ann.state("main"))["messages"] if message["who"] == "bot"]

    messages = await arrived(found)
    html = "".join(block for message in messages for block in message["blocks"])
    whole(text_of(html.replace("<", " <")))
    assert len(re.findall("<th[ >]", html)) == 3 * 6
    assert len(re.findall("<td[ >]", html)) == 3 * 6 * 6
    assert html.count("<blockquote") == 6
    assert html.count("<strong>") == 6 * 9 + 6 * 6
    for code in CODES:
        assert code in text_of(html)


@pytest.mark.requirement("G-10")
async def test_it_arrives_whole_and_valid_everywhere(stage: Stage) -> None:
    telegram, discord, slack = OnTelegram(stage.doubles), OnDiscord(stage.doubles), OnSlack(stage.doubles)
    link = stage.program.sign_in_link()
    async with httpx2.AsyncClient(base_url=stage.program.url, timeout=60, trust_env=False) as client:
        page = await client.get(link, follow_redirects=True)
        token = re.search(r'name="csrf" content="([^"]+)"', page.text)
        assert token
        ann = Visitor(client, token[1])
        await telegram.say("the report")
        await telegram.say("@double_bot the report", chat=GROUP)
        await discord.say("the report")
        await slack.say("the report")
        asked = await slack.say("<@U0DOUBLE> the report", "C0GENERAL")
        await ann.say("the report")

        async def thread() -> list[dict[str, Any]]:
            return [one for one in await slack.messages("C0GENERAL") if one.get("thread_ts") == asked]

        await on_telegram(telegram, 77)
        await on_telegram(telegram, -1005)
        await on_discord(discord, "400000000000000001")
        await on_slack(await arrived(slack.messages))
        await on_slack(await arrived(thread))
        await on_the_web(ann)

        async def clean() -> bool:
            return not (await telegram.state())["drafts"] and not (await ann.state("main"))["drafts"]

        await until(clean, what="no draft")
    assert len(await stage.asked("the report")) == 6


@pytest.mark.slow  # a program of its own
@pytest.mark.requirement("G-10")
async def test_it_arrives_where_telegram_takes_no_rich_messages(stage: Stage) -> None:
    await stage.doubles.telegram.post("settings", {"rich_messages": "refuse"})
    bea = OnTelegram(stage.doubles, {"id": 401, "first_name": "Bea"})
    await bea.say("the report")
    await on_telegram(bea, 401)
    assert not any("rich_message" in message for message in await bea.messages())

    async def clean() -> bool:
        return not (await bea.state())["drafts"]

    await until(clean, what="no draft")
