"""429 with Retry-After, method by method: nothing is lost, nothing done twice, and Slack is left alone so long."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from adapters.slack.adapter import SlackAdapter
from adapters.slack.channel import SlackChannel
from gateway.channels.adapter import State
from gateway.channels.document import Plain
from gateway.channels.inbound import Attachment
from gateway.channels.outbound import File, Outbound
from gateway.testing.harness import eventually, running
from tests.adapters.patience import at_last, waited_s
from tests.adapters.slack.world import ANN, DM, World, shown, workspace
from tests.doubles.slack_api import TEAM
from tests.fakes.clock import HastyClock

RETRY_AFTER_S = 4
CLOCK = HastyClock(40.0)
THREAD_OF = "D0ANN"

Act = Callable[[], Awaitable[object]]
Prepared = Callable[["Slack", Path], Awaitable[tuple[Act, Callable[[], object], object]]]


class Slack:
    """The workspace, the account, its direct conversation with Ann and a thread there."""

    def __init__(self, world: World, adapter: SlackAdapter) -> None:
        self.world = world
        self.adapter = adapter
        self.channel: SlackChannel = adapter.channel(DM)
        self.asked = world.hidden_from_history("the question")
        self.thread: SlackChannel = adapter.channel(f"{TEAM}:{THREAD_OF}:{self.asked}")

    def texts(self) -> list[str]:
        return [shown(message) for message in self.world.by_bot()]


@asynccontextmanager
async def signed_in(home: Path) -> AsyncIterator[Slack]:
    """Without a socket: this is about calls."""
    async with workspace() as world:
        adapter = SlackAdapter(world.settings(), world.adapter_context(home, clock=CLOCK))
        try:
            yield Slack(world, adapter)
        finally:
            await adapter.aclose()


def said(text: str, **more: Any) -> Outbound:
    return Outbound(document=(Plain(text),), key="k-1-0", **more)


async def posting(slack: Slack, home: Path) -> Any:
    return lambda: slack.channel.send(said("hello")), slack.texts, ["hello"]


async def updating(slack: Slack, home: Path) -> Any:
    sent = await slack.channel.send(said("one"))
    return lambda: slack.channel.edit(sent, said("two")), slack.texts, ["two"]


async def deleting(slack: Slack, home: Path) -> Any:
    sent = await slack.channel.send(said("one"))
    return lambda: slack.channel.delete(sent), slack.texts, []


async def whispering(slack: Slack, home: Path) -> Any:
    return (
        lambda: slack.channel.send_ephemeral(said("psst"), ANN),
        lambda: [message["text"] for message in slack.world.double.ephemeral],
        ["psst"],
    )


async def opening(slack: Slack, home: Path) -> Any:
    assert slack.thread.streams is not None
    open_stream = slack.thread.streams.open
    return lambda: open_stream((Plain("hello there"),), reply_to=None, to=ANN), lambda: len(slack.texts()), 1


async def growing(slack: Slack, home: Path) -> Any:
    streams = slack.thread.streams
    assert streams is not None
    sent = await streams.open((Plain("one two "),), reply_to=None, to=ANN)
    longer = (Plain("one two three four five\nsix seven"),)
    return lambda: streams.update(sent, longer), lambda: slack.texts()[0].startswith("one two three"), True


async def finishing(slack: Slack, home: Path) -> Any:
    streams = slack.thread.streams
    assert streams is not None
    sent = await streams.open((Plain("one two "),), reply_to=None, to=ANN)
    return lambda: streams.finish(sent, said("one two three")), slack.texts, ["one two three"]


async def typing(slack: Slack, home: Path) -> Any:
    await slack.channel.send(said("hello"))  # the thread hangs below something
    calls = slack.world.calls

    def done() -> object:
        return any("result" in call for call in calls("assistant.threads.setStatus"))

    async def type_on() -> None:
        """Left out rather than waited for, and not even tried while Slack wants to be left alone."""
        for _ in range(20):
            await slack.thread.presence.typing()
            await slack.thread.presence.typing()
            await CLOCK.sleep(RETRY_AFTER_S)

    return type_on, done, True


def reacting(*, on: bool) -> Prepared:
    async def prepare(slack: Slack, home: Path) -> Any:
        react = slack.channel.presence.react
        if not on:
            await react(slack.asked, "👀")
        message = next(m for (_, ts), m in slack.world.double.messages.items() if ts == slack.asked)
        return (
            lambda: react(slack.asked, "👀", on=on),
            lambda: any(message.get("reactions", {}).values()),
            on,
        )

    return prepare


async def looking(slack: Slack, home: Path) -> Any:
    sent = await slack.channel.send(said("hello"))
    found: list[object] = []

    async def find() -> None:
        found.append(await slack.channel.history.find("k-1-0"))

    return find, lambda: found, [sent]


async def looking_in_the_thread(slack: Slack, home: Path) -> Any:
    sent = await slack.thread.send(said("hello"))
    found: list[object] = []

    async def find() -> None:
        found.append(await slack.thread.history.find("k-1-0"))

    return find, lambda: found, [sent]


async def uploading(slack: Slack, home: Path) -> Any:
    path = home / "stored"
    path.write_bytes(b"x" * 10)
    message = said("see", files=(File(path=path, name="a.txt", mime_type="text/plain"),))

    def come() -> object:
        texts = [text for text in slack.texts() if text]
        files = [file["title"] for message in slack.world.by_bot() for file in message.get("files") or ()]
        return texts, files

    return lambda: slack.channel.send(message), come, (["see"], ["a.txt"])


async def fetching(slack: Slack, home: Path) -> Any:
    file_id = await slack.channel.files.place(_file(home))
    size: list[int] = []
    attachment = Attachment(handle=f"file:{file_id}", name="a.txt", mime_type="text/plain", kind="file", size=10)

    async def fetch() -> None:
        size.append(await slack.channel.files.fetch(attachment, home / "in", limit=100))

    return fetch, lambda: size, [10]


def _file(home: Path) -> File:
    path = home / "stored"
    path.write_bytes(b"x" * 10)
    return File(path=path, name="a.txt", mime_type="text/plain")


METHODS: list[tuple[str, Prepared]] = [
    ("chat.postMessage", posting),
    ("chat.update", updating),
    ("chat.delete", deleting),
    ("chat.postEphemeral", whispering),
    ("chat.startStream", opening),
    ("chat.appendStream", growing),
    ("chat.stopStream", finishing),
    ("assistant.threads.setStatus", typing),
    ("reactions.add", reacting(on=True)),
    ("reactions.remove", reacting(on=False)),
    ("conversations.history", looking),
    ("conversations.replies", looking_in_the_thread),
    ("files.getUploadURLExternal", uploading),
    ("files.completeUploadExternal", uploading),
    ("files.info", fetching),
]


@pytest.mark.requirement("G-09")
@pytest.mark.parametrize(("method", "prepare"), METHODS, ids=[name for name, _ in METHODS])
async def test_what_is_refused_is_done_once_when_the_time_is_over(
    tmp_path: Path, method: str, prepare: Prepared
) -> None:
    async with signed_in(tmp_path) as slack:
        act, seen, expected = await prepare(slack, tmp_path)
        slack.world.fault(method, "rate_limit", retry_after=RETRY_AFTER_S)
        await at_last(act, CLOCK)
        assert seen() == expected
        assert waited_s(slack.world.calls(method)) >= RETRY_AFTER_S / CLOCK.pace


@pytest.mark.requirement("G-09")
@pytest.mark.parametrize("method", ["auth.test", "apps.connections.open", "users.info", "conversations.info"])
async def test_what_the_adapter_asks_by_itself_waits_too(tmp_path: Path, method: str) -> None:
    """People and channels that cannot be looked up now stay without a name; what they said comes through."""
    async with workspace() as world:
        world.fault(method, "rate_limit", retry_after=RETRY_AFTER_S)
        adapter = SlackAdapter(world.settings(), world.adapter_context(tmp_path, clock=CLOCK))
        async with running(lambda: adapter.run(world.admit)):
            await eventually(lambda: adapter.health().state is State.CONNECTED)
            await world.write("hello", channel="C0GENERAL")
            await eventually(lambda: [one.text for one in world.said()] == ["hello"])
            asked = world.calls(method)
            if method in ("auth.test", "apps.connections.open"):
                await eventually(lambda: len(world.calls(method)) > 1)
                assert waited_s(world.calls(method)) >= RETRY_AFTER_S / CLOCK.pace
            else:
                assert [call.get("fault") for call in asked] == ["rate_limit"]
        await adapter.aclose()
