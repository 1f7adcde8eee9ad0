"""429 with retry_after, method by method: nothing is lost, nothing done twice, and Telegram is left alone so long."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.channels.adapter import State
from gateway.channels.channel import Files, Interactions, Presence, Streams
from gateway.channels.document import Plain
from gateway.channels.inbound import MessageReceived
from gateway.channels.outbound import Button, CommandSpec, File, Outbound, SentRef
from gateway.testing.harness import eventually
from tests.adapters.patience import at_last, waited_s
from tests.adapters.telegram.stage import TOKEN, Stage, Telegram, acting, hooked, stage
from tests.adapters.telegram.test_channel import RICH
from tests.fakes.clock import HastyClock

RETRY_AFTER_S = 4
CLOCK = HastyClock(40.0)

Act = Callable[[], Awaitable[object]]
Prepared = Callable[[Stage, Path], Awaitable[tuple[Act, Callable[[], Awaitable[object]], object]]]


def said(text: str) -> Outbound:
    return Outbound(document=(Plain(text),), key="k-1-0")


async def bot_texts(actor: Stage) -> list[str]:
    return [seen.text for seen in await actor.seen()]


def part(found: Any) -> Any:
    assert found is not None
    return found


def sending(document: Any, shows: str) -> Prepared:
    async def prepare(actor: Stage, home: Path) -> Any:
        async def shown() -> object:
            return [text[: len(shows)] for text in await bot_texts(actor)]

        return lambda: actor.channel.send(Outbound(document=document, key="k-1-0")), shown, [shows]

    return prepare


def uploading(mime_type: str, field: str) -> Prepared:
    async def prepare(actor: Stage, home: Path) -> Any:
        path = home / "stored"
        path.write_bytes(b"x" * 10)
        message = Outbound(document=(), key="k-1-0", files=(File(path=path, name="a.bin", mime_type=mime_type),))

        async def shown() -> object:
            return [field in message for message in await actor.telegram.bot_messages()]

        return lambda: actor.channel.send(message), shown, [True]

    return prepare


def changing(how: str) -> Prepared:
    async def prepare(actor: Stage, home: Path) -> Any:
        sent = await actor.channel.send(said("one"))
        act: Act = (
            (lambda: actor.channel.edit(sent, said("two"))) if how == "edit" else (lambda: actor.channel.delete(sent))
        )
        return act, lambda: bot_texts(actor), ["two"] if how == "edit" else []

    return prepare


async def captioning(actor: Stage, home: Path) -> Any:
    path = home / "stored"
    path.write_bytes(b"x" * 10)
    file = File(path=path, name="a.txt", mime_type="text/plain")
    sent = await actor.channel.send(Outbound(document=(Plain("one"),), key="k-1-0", files=(file,)))

    async def shown() -> object:
        return [message["caption"] for message in await actor.telegram.bot_messages()]

    return lambda: actor.channel.edit(sent, said("two")), shown, ["two"]


def drafting(document: Any, shows: str) -> Prepared:
    async def prepare(actor: Stage, home: Path) -> Any:
        streams: Streams = part(actor.channel.streams)

        async def shown() -> object:
            return [text[: len(shows)] for text in await bot_texts(actor)]

        return lambda: streams.open(document, reply_to=None, to=None), shown, [shows]

    return prepare


async def typing(actor: Stage, home: Path) -> Any:
    presence: Presence = part(actor.channel.presence)

    async def shown() -> object:
        return len([call for call in actor.telegram.calls("sendChatAction") if call.get("status") == 200])

    return presence.typing, shown, 1


async def reacting(actor: Stage, home: Path) -> Any:
    presence: Presence = part(actor.channel.presence)
    message_id = await actor.says("hi")

    async def shown() -> object:
        return len([value for value in (await actor.telegram.state())["reactions"].values() if value])

    return lambda: presence.react(message_id, "👀"), shown, 1


async def fetching(actor: Stage, home: Path) -> Any:
    files: Files = part(actor.channel.files)
    await actor.telegram.update(file={"name": "a.txt", "text": "hello"}, caption="see")
    await eventually(lambda: bool(actor.said))
    (attachment,) = actor.said[0].attachments

    async def shown() -> object:
        return (home / "a.txt").read_bytes()

    return lambda: files.fetch(attachment, home / "a.txt", limit=1000), shown, b"hello"


async def answering(actor: Stage, home: Path) -> Any:
    interactions: Interactions = part(actor.channel.interactions)
    button = Button(label="Yes", action="q:1")
    sent: SentRef = await actor.channel.send(replace(said("Sure?"), buttons=((button,),)))
    update = await actor.telegram.update(kind="callback", message_id=int(sent.id), data="q:1")

    async def shown() -> object:
        return len([call for call in actor.telegram.calls("answerCallbackQuery") if call.get("status") == 200])

    return lambda: interactions.acknowledge(str(update["callback_query"]["id"]), "Yes."), shown, 1


def publishing(*, fewer: bool = False) -> Prepared:
    async def prepare(actor: Stage, home: Path) -> Any:
        commands = [CommandSpec(name="help", description="What I can do")]
        if fewer:
            await actor.adapter.publish(commands)
        wanted = [] if fewer else commands

        async def shown() -> object:
            registered = (await actor.telegram.state())["commands"]
            return sorted({command["name"] if "name" in command else command["command"]
                           for entries in registered.values() for command in entries})  # fmt: skip

        return lambda: actor.adapter.publish(wanted), shown, [] if fewer else ["help"]

    return prepare


METHODS: list[tuple[str, Prepared]] = [
    ("sendMessage", sending((Plain("hello"),), "hello")),
    ("sendRichMessage", sending(RICH, "T")),
    ("sendDocument", uploading("text/plain", "document")),
    ("sendPhoto", uploading("image/png", "photo")),
    ("sendVoice", uploading("audio/ogg", "voice")),
    ("editMessageText", changing("edit")),
    ("editMessageCaption", captioning),
    ("deleteMessage", changing("delete")),
    ("sendMessageDraft", drafting((Plain("hello"),), "hello")),
    ("sendRichMessageDraft", drafting(RICH, "T")),
    ("sendChatAction", typing),
    ("setMessageReaction", reacting),
    ("getFile", fetching),
    ("answerCallbackQuery", answering),
    ("getMyCommands", publishing()),
    ("setMyCommands", publishing()),
    ("deleteMyCommands", publishing(fewer=True)),
]
OF_NO_CHAT = ("getFile", "answerCallbackQuery", "getMyCommands", "setMyCommands", "deleteMyCommands")


@pytest.mark.requirement("G-09")
@pytest.mark.parametrize(("method", "prepare"), METHODS, ids=[name for name, _ in METHODS])
async def test_what_is_refused_is_done_once_when_the_time_is_over(
    tmp_path: Path, method: str, prepare: Prepared
) -> None:
    async with stage(tmp_path, CLOCK) as actor:
        act, shown, expected = await prepare(actor, tmp_path)
        await actor.telegram.fault(method, "rate_limit", retry_after=RETRY_AFTER_S)
        await at_last(act, CLOCK, hasty=method not in OF_NO_CHAT)
        assert await shown() == expected
        assert waited_s(actor.telegram.calls(method)) >= RETRY_AFTER_S / CLOCK.pace


@pytest.mark.requirement("G-09")
@pytest.mark.parametrize("method", ["getMe", "getUpdates"])
async def test_what_the_adapter_asks_by_itself_waits_too(tmp_path: Path, method: str) -> None:
    async with stage(tmp_path, CLOCK, limited=method) as actor:
        await actor.says("hello")
        await eventually(lambda: [one.text for one in actor.said] == ["hello"])
        assert waited_s(actor.telegram.calls(method)) >= RETRY_AFTER_S / CLOCK.pace


@pytest.mark.requirement("G-09", "G-12")
async def test_removing_a_foreign_webhook_waits_too(tmp_path: Path) -> None:
    async with Telegram().running() as telegram:
        await telegram.settings(webhook_max_attempts=0)
        telegram.double.bot(TOKEN).webhook = {"url": "http://127.0.0.1:9/old"}
        await telegram.fault("deleteWebhook", "rate_limit", retry_after=RETRY_AFTER_S)
        async with acting(telegram, tmp_path, CLOCK) as actor:
            await eventually(lambda: actor.adapter.health().state is State.CONNECTED)
            await actor.says("hello")
            await eventually(lambda: [one.text for one in actor.said] == ["hello"])
        assert waited_s(telegram.calls("deleteWebhook")) >= RETRY_AFTER_S / CLOCK.pace


@pytest.mark.requirement("G-09")
@pytest.mark.parametrize("method", ["setWebhook", "getWebhookInfo"])
async def test_the_webhook_waits_too(tmp_path: Path, method: str) -> None:
    async with hooked(tmp_path, CLOCK, limited=method) as actor:
        await actor.says("hello")
        await eventually(lambda: [one.text for one in actor.admitted if isinstance(one, MessageReceived)] == ["hello"])
        assert waited_s(actor.telegram.calls(method)) >= RETRY_AFTER_S / CLOCK.pace
