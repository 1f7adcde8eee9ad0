"""Contract suite of `Adapter` and `Channel`. An adapter's tests subclass it and supply the harness.

    class TestTelegram(ChannelContract):
        @pytest.fixture
        async def harness(self) -> AsyncIterator[Harness]:
            harness = TelegramHarness(...)
            async with harness.running():
                yield harness

The harness runs the unmodified adapter (`adapter.run(admit)` is under way) against a double of its platform, and is the
person at the other end: writes, presses, looks at the screen, and pulls the cable.
"""

import base64
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from gateway.channels.adapter import State
from gateway.channels.channel import Channel, History, Position
from gateway.channels.document import (
    Bold,
    CodeBlock,
    Document,
    Heading,
    Item,
    Link,
    List,
    Paragraph,
    Plain,
    Quote,
    Table,
    Text,
)
from gateway.channels.errors import ChannelBusy, ChannelFatal, ChannelGone, ChannelRejected, ChannelUnsure
from gateway.channels.inbound import (
    ButtonClicked,
    ChatType,
    Deleted,
    Edited,
    Inbound,
    Membership,
    Mention,
    MessageReceived,
    Receipt,
)
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import Button, File, Outbound, SentRef
from gateway.testing.harness import Act, Fault, Harness, eventually

Part = TypeVar("Part")
Kind = TypeVar("Kind", bound=Inbound)

ACTION = "q:" + "x" * 62  # 64 bytes, the most a button carries


async def patiently(act: Callable[[], Awaitable[Part]]) -> Part:
    """Do it, and once more after the time that the platform asks for."""
    try:
        return await act()
    except ChannelBusy as busy:
        await anyio.sleep(busy.after_s)
        return await act()


def applies(holds: object, otherwise: str) -> None:
    """Skip the test, with the reason, where the platform has no such thing."""
    if not holds:
        pytest.skip(otherwise)


def there(part: Part | None, otherwise: str) -> Part:
    """A part of the channel; without it the test is skipped."""
    applies(part is not None, otherwise)
    assert part is not None
    return part


def plain(text: str, *, key: str = "", reply_to: str | None = None) -> Outbound:
    return Outbound(document=(Plain(text),), key=key, reply_to=reply_to)


async def texts(harness: Harness) -> list[str]:
    return [message.text for message in await harness.seen()]


def full_text(channel: Channel, unit: str) -> str:
    """The longest repetition of `unit` that one message of the channel may hold."""
    capabilities = channel.capabilities
    count = capabilities.text_limit // capabilities.measure((Plain(unit),))
    return unit * count


class ChannelContract:
    """Subclass it and define the fixture `harness`."""

    # -- what is sent arrives

    @pytest.mark.parametrize(
        "text",
        [
            "hello",
            "two\nlines\n\nand a third",
            "5 * 3 * 2 < 10 & _not_ *bold* `x` <b> &amp; ~no~ | a | [x](y)",
            "grüß dich 👩‍👩‍👧‍👦 e\u0301 日本語",
            "/not a command, @nobody, #3, <@U1>, https://example.org/a_b(c)?d=1&e=2",
        ],
    )
    async def test_plain_text_arrives_as_it_is(self, harness: Harness, text: str) -> None:
        await harness.channel.send(plain(text))
        assert await texts(harness) == [text]

    async def test_marked_up_text_can_be_read(self, harness: Harness) -> None:
        document: Document = (
            Paragraph((Text("a "), Bold((Text("big & <small>"),)), Text(" day"))),
            CodeBlock("x = '<b>'\nif x < 3 & 1: pass", "python"),
        )
        await harness.channel.send(Outbound(document=document))
        (text,) = await texts(harness)
        assert "a big & <small> day" in text
        assert "x = '<b>'\nif x < 3 & 1: pass" in text

    @pytest.mark.parametrize("unit", ["a", "😀", "&", "*"])
    async def test_a_message_of_the_full_length_is_taken(self, harness: Harness, unit: str) -> None:
        text = full_text(harness.channel, unit)
        await harness.channel.send(plain(text))
        assert await texts(harness) == [text]

    async def test_each_message_has_its_own_reference(self, harness: Harness) -> None:
        first = await harness.channel.send(plain("one"))
        second = await harness.channel.send(plain("two"))
        assert first != second
        assert all(message.id for message in (first, second))
        assert await texts(harness) == ["one", "two"]

    async def test_a_reply_to_a_message_that_is_gone_still_arrives(self, harness: Harness) -> None:
        said = await harness.says("hi")
        await harness.channel.send(plain("an answer", reply_to=said))
        await harness.channel.send(plain("another", reply_to=_unknown_like(said)))
        assert await texts(harness) == ["an answer", "another"]

    async def test_a_file_arrives(self, harness: Harness, tmp_path: Path) -> None:
        applies(harness.channel.capabilities.upload_limit, "files cannot be sent here")
        path = tmp_path / "stored"
        path.write_bytes(base64.b64decode("iVBORw0KGgo="))
        file = File(path=path, name="chart.bin", mime_type="application/octet-stream")
        await harness.channel.send(Outbound(document=(Plain("see"),), files=(file,)))
        seen = await harness.seen()
        assert [name for message in seen for name in message.files] == ["chart.bin"]
        assert [message.text for message in seen if message.text] == ["see"]

    async def test_no_text_calls_people(self, harness: Harness) -> None:
        """The words of a model are not meant so, wherever they stand."""
        applies(harness.calling, "no text calls people here that an adapter could stop")
        text = "look, " + " ".join(harness.calling)
        marked: Document = (
            Heading(2, (Text(text),)),
            Paragraph((Text(text), Bold((Text(text),)), Text(" "), Link("https://e.org/", (Text(text),)))),
            List((Item((Paragraph((Text(text),)),)),)),
            Quote((Paragraph((Text(text),)),)),
            Table(((Text(text),),), (((Text(text),),),), ("none",)),
        )
        for document in (marked, (Plain(text),)):
            sent = await patiently(partial(harness.channel.send, Outbound(document=document)))
            if harness.channel.capabilities.edits:
                await patiently(partial(harness.channel.edit, sent, plain(text)))
        await patiently(lambda: harness.channel.send_ephemeral(plain(text), harness.person))
        assert await harness.called() == []

    # -- what stands there can be changed

    async def test_an_edit_replaces(self, harness: Harness) -> None:
        applies(harness.channel.capabilities.edits, "nothing can be edited here")
        sent = await harness.channel.send(plain("before"))
        await harness.channel.edit(sent, plain("after"))
        assert await texts(harness) == ["after"]

    async def test_an_edit_that_changes_nothing_is_fine(self, harness: Harness) -> None:
        applies(harness.channel.capabilities.edits, "nothing can be edited here")
        sent = await harness.channel.send(plain("same"))
        await harness.channel.edit(sent, plain("same"))
        await harness.channel.edit(sent, plain("same"))
        assert await texts(harness) == ["same"]

    @pytest.mark.requirement("G-08")
    async def test_a_deleted_message_is_gone_and_may_be_deleted_again(self, harness: Harness) -> None:
        kept = await harness.channel.send(plain("kept"))
        sent = await harness.channel.send(plain("gone"))
        await harness.channel.delete(sent)
        await harness.channel.delete(sent)
        assert await texts(harness) == ["kept"]
        assert kept != sent

    async def test_an_edit_of_a_deleted_message_is_rejected(self, harness: Harness) -> None:
        applies(harness.channel.capabilities.edits, "nothing can be edited here")
        sent = await harness.channel.send(plain("gone"))
        await harness.channel.delete(sent)
        with pytest.raises(ChannelRejected) as raised:
            await harness.channel.edit(sent, plain("x"))
        assert not isinstance(raised.value, ChannelGone)  # the message went, not the place

    @pytest.mark.requirement("G-08")
    async def test_a_whisper_does_not_stay(self, harness: Harness) -> None:
        sent = await harness.channel.send_ephemeral(plain("psst"), harness.person)
        seen = await harness.seen()
        assert [message.text for message in seen] == ["psst"]
        if harness.channel.capabilities.ephemeral:
            assert seen[0].private_to == harness.person
        else:
            assert sent is not None  # else nobody could take it away
        if sent is not None:
            await harness.channel.delete(sent)
            assert await texts(harness) == []

    # -- buttons

    async def test_a_button_gives_back_its_action(self, harness: Harness) -> None:
        applies(harness.channel.capabilities.buttons, "there are no buttons here")
        buttons = ((Button(label="Yes", action=ACTION), Button(label="No", action="q:n", style="danger")),)
        sent = await harness.channel.send(Outbound(document=(Plain("well?"),), buttons=buttons))
        (seen,) = await harness.seen()
        assert seen.actions == (ACTION, "q:n")
        await harness.presses(seen.id, ACTION)
        await eventually(lambda: any(isinstance(inbound, ButtonClicked) for inbound in harness.admitted))
        pressed = next(inbound for inbound in harness.admitted if isinstance(inbound, ButtonClicked))
        assert (pressed.action, pressed.sender.id, pressed.key) == (ACTION, harness.person, harness.channel.key)
        assert pressed.message_id == seen.id
        if harness.channel.interactions is not None and pressed.interaction is not None:
            await harness.channel.interactions.acknowledge(pressed.interaction, "noted")
        if harness.channel.capabilities.edits:
            await harness.channel.edit(sent, plain("done"))
            (after,) = [message for message in await harness.seen() if message.private_to is None]
            assert (after.text, after.actions) == ("done", ())

    # -- what can go wrong has its own class

    @pytest.mark.requirement("Z-06", "G-09")
    @pytest.mark.parametrize("act", ["send", "edit"])
    async def test_busy_says_how_long(self, harness: Harness, act: Act) -> None:
        applies("busy" in harness.faults, "nothing is ever busy here")
        error = await self._failing(harness, "busy", act, ChannelBusy)
        assert isinstance(error, ChannelBusy)
        assert 0 < error.after_s < 3600

    @pytest.mark.requirement("Z-06")
    async def test_a_server_error_is_no_refusal(self, harness: Harness) -> None:
        applies("server_error" in harness.faults, "there is no server here that could fail")
        await self._failing(harness, "server_error", "send", (ChannelBusy, ChannelUnsure))

    @pytest.mark.requirement("Z-06")
    async def test_a_refused_message_is_rejected(self, harness: Harness) -> None:
        applies("refuse" in harness.faults, "nothing is ever refused here")
        error = await self._failing(harness, "refuse", "send", ChannelRejected)
        assert not isinstance(error, ChannelGone)

    @pytest.mark.requirement("Z-06")
    async def test_a_closed_place_is_gone(self, harness: Harness) -> None:
        applies("gone" in harness.faults, "this place cannot be closed to the bot")
        await self._failing(harness, "gone", "send", ChannelGone)

    @pytest.mark.requirement("Z-06")
    async def test_a_cut_after_the_request_is_unsure_and_can_be_mended(self, harness: Harness) -> None:
        """A repeat with the same key is refused by the platform, or the first one can be found by it."""
        applies("cut_after" in harness.faults, "no answer can be lost here")
        message = plain("once", key="k-7-0")
        await harness.breaks_next("cut_after", "send")
        with pytest.raises(ChannelUnsure):
            await harness.channel.send(message)
        assert await texts(harness) == ["once"]
        how = harness.channel.capabilities.idempotent_send
        found: SentRef | None = None
        if how == "nonce":
            found = await harness.channel.send(message)
        elif how == "lookup":
            assert harness.channel.history is not None
            found = await harness.channel.history.find("k-7-0")
            assert await harness.channel.history.find("k-8-0") is None
        if how != "none":
            assert found is not None
            assert await texts(harness) == ["once"]
            if harness.channel.capabilities.edits:
                await harness.channel.edit(found, plain("found"))
                assert await texts(harness) == ["found"]

    async def _failing(
        self, harness: Harness, fault: Fault, act: Act, expected: type[Exception] | tuple[type[Exception], ...]
    ) -> Exception:
        """Do it with the fault, see that nothing changed on the screen, and give the error."""
        channel = harness.channel
        sent = None
        if act == "edit":
            applies(channel.capabilities.edits, "nothing can be edited here")
            sent = await channel.send(plain("before"))
        await harness.breaks_next(fault, act)
        doing = channel.send(plain("x")) if sent is None else channel.edit(sent, plain("x"))
        with pytest.raises(expected) as raised:
            await doing
        assert await texts(harness) == (["before"] if sent else [])
        return raised.value

    # -- a growing answer

    async def test_a_stream_grows_and_becomes_one_final_message(self, harness: Harness) -> None:
        streams = there(harness.channel.streams, "this channel has no stream of its own")
        said = await harness.says("tell me")
        sent = await streams.open((Plain("The"),), reply_to=said, to=harness.person)
        assert await texts(harness) == ["The"]
        await streams.update(sent, (Plain("The cat"),))
        assert await texts(harness) == ["The cat"]
        await streams.update(sent, (Plain("The cat"),))
        final = await streams.finish(sent, plain("The cat sat.", key="k-1-0"))
        assert await texts(harness) == ["The cat sat."]
        if harness.channel.capabilities.edits:
            await harness.channel.edit(final, plain("It did."))
            assert await texts(harness) == ["It did."]

    async def test_a_stream_may_start_over(self, harness: Harness) -> None:
        """The text so far can become void (G-24): a later frame need not continue the earlier one."""
        streams = there(harness.channel.streams, "this channel has no stream of its own")
        sent = await streams.open((Plain("Wrong start"),), reply_to=None, to=harness.person)
        await streams.update(sent, (Plain("Right"),))
        assert await texts(harness) == ["Right"]
        await streams.finish(sent, plain("Right indeed", key="k-1-0"))
        assert await texts(harness) == ["Right indeed"]

    async def test_a_dropped_stream_leaves_nothing(self, harness: Harness) -> None:
        streams = there(harness.channel.streams, "this channel has no stream of its own")
        sent = await streams.open((Plain("half a"),), reply_to=None, to=harness.person)
        await streams.drop(sent)
        assert await texts(harness) == []

    # -- signs of life

    async def test_presence_is_there_where_it_is_claimed(self, harness: Harness) -> None:
        presence = harness.channel.presence
        capabilities = harness.channel.capabilities
        applies(capabilities.typing or capabilities.reactions, "there are no signs of life here")
        assert presence is not None
        said = await harness.says("hi")
        if capabilities.typing:
            await presence.typing()
            await presence.typing("Reading…")
        if capabilities.reactions:
            await patiently(lambda: presence.react(said, "👀"))
            await patiently(lambda: presence.react(said, "👀", on=False))
        assert await texts(harness) == []

    # -- what people do

    @pytest.mark.requirement("Z-06")
    async def test_what_a_person_says_is_admitted_in_order(self, harness: Harness) -> None:
        ids = [await harness.says(text) for text in ("one", "two", "three")]
        await eventually(lambda: len(_said(harness)) >= 3)
        heard = _said(harness)
        assert [said.text for said in heard] == ["one", "two", "three"]
        assert [said.message_id for said in heard] == ids
        assert {said.key for said in heard} == {harness.channel.key}
        assert {said.sender.id for said in heard} == {harness.person}
        assert not any(said.sender.is_bot for said in heard)
        _check_name(heard[0])

    async def test_the_bots_own_words_are_not_admitted(self, harness: Harness) -> None:
        await harness.channel.send(plain("my own words"))
        await harness.says("a person's")
        await eventually(lambda: bool(_said(harness)))
        assert [said.text for said in _said(harness)] == ["a person's"]

    async def test_what_is_not_stored_is_not_acknowledged(self, harness: Harness) -> None:
        """It comes again by itself, and once it is stored no more."""
        harness.stores_nothing(1)
        kept = await harness.says("kept all the same")
        await eventually(lambda: bool(_said(harness)))
        following = await harness.says("and then")
        await eventually(lambda: len(_said(harness)) >= 2)
        assert [said.text for said in _said(harness)] == ["kept all the same", "and then"]
        assert [said.message_id for said in _said(harness)] == [kept, following]

    @pytest.mark.requirement("G-12")
    async def test_the_history_has_what_a_person_said_as_it_came_live(self, harness: Harness) -> None:
        """With the same ids, or the gateway would answer it twice."""
        history = there(harness.channel.history, "the platform's history cannot be read")
        for text in ("one", "two", "three"):
            await harness.says(text)
        await harness.channel.send(plain("my own words"))
        await eventually(lambda: len(_said(harness)) >= 3)
        first, *others = live = _said(harness)
        told_at = first.sent_at or first.received_at
        assert [_names(said) for said in await _all(history, Position(at=told_at))] == [_names(said) for said in live]
        later = await _all(history, Position(at=told_at, message_id=first.message_id))
        assert [_names(said) for said in later] == [_names(said) for said in others]
        assert all(said.from_history for said in later)

    async def test_an_edit_by_a_person_is_told(self, harness: Harness) -> None:
        applies("edits" in harness.happenings, "people cannot edit here, or the platform does not tell")
        said = await harness.says("before")
        await harness.happens("edits", "after", said)
        await eventually(lambda: bool(_heard(harness, Edited)))
        (edited,) = _heard(harness, Edited)
        assert (edited.message_id, edited.text, edited.key) == (said, "after", harness.channel.key)
        assert edited.place == _said(harness)[0].place
        assert edited.sender.id == harness.person
        assert edited.version

    async def test_a_message_taken_back_is_told(self, harness: Harness) -> None:
        applies("deletes" in harness.happenings, "people cannot delete here, or the platform does not tell")
        said = await harness.says("forget this")
        await harness.happens("deletes", message_id=said)
        await eventually(lambda: bool(_heard(harness, Deleted)))
        (deleted,) = _heard(harness, Deleted)
        assert (deleted.message_id, deleted.key) == (said, harness.channel.key)
        assert deleted.place == _said(harness)[0].place

    async def test_it_is_told_where_the_bot_is_removed_and_brought_back(self, harness: Harness) -> None:
        applies("leaves" in harness.happenings, "the bot cannot be removed here, or the platform does not tell")
        await harness.happens("leaves")
        await eventually(lambda: bool(_heard(harness, Membership)))
        if "returns" in harness.happenings:
            await harness.happens("returns")
            await eventually(lambda: len(_heard(harness, Membership)) >= 2)
        told = _heard(harness, Membership)
        assert [membership.present for membership in told] == [False, True][: len(told)]
        assert len({membership.key for membership in told}) == 1

    async def test_in_a_group_it_is_told_what_is_meant_for_the_bot(self, harness: Harness) -> None:
        applies("group" in harness.happenings, "there are no groups here")
        ids = [await harness.happens("group", "among us"), await harness.happens("mention", "and what do you think?")]
        await eventually(lambda: len(_said(harness)) >= 2)
        among, asked = sorted(_said(harness), key=lambda said: ids.index(said.message_id))
        assert (among.text, among.mention) == ("among us", Mention.NONE)
        assert (asked.text, asked.mention) == ("and what do you think?", Mention.DIRECT)
        for said in (among, asked):
            assert said.chat_type is not ChatType.DIRECT
            assert said.key != harness.channel.key
            _check_name(said)

    async def test_a_file_can_be_fetched_within_a_limit(self, harness: Harness, tmp_path: Path) -> None:
        applies("file" in harness.happenings, "people cannot send files here")
        files = there(harness.channel.files, "people cannot send files here")
        content = "line\n" * 100
        await harness.happens("file", content)
        await eventually(lambda: bool(_said(harness)))
        (attachment,) = _said(harness)[0].attachments
        assert attachment.name
        assert await files.fetch(attachment, tmp_path / "whole", limit=500) == 500
        assert (tmp_path / "whole").read_text() == content
        with pytest.raises(ChannelRejected):
            await files.fetch(attachment, tmp_path / "cut", limit=499)
        assert not (tmp_path / "cut").exists()

    async def test_a_reply_brings_the_file_of_the_message_that_it_answers(
        self, harness: Harness, tmp_path: Path
    ) -> None:
        """As quoted, not as its own: under the id, the name and the size that the file came with."""
        applies("reply" in harness.happenings, "people cannot reply here, or the platform does not tell to what")
        files = there(harness.channel.files, "people cannot send files here")
        content = "line\n" * 100
        sent = await harness.happens("file", content)
        await eventually(lambda: bool(_said(harness)))
        (own,) = _said(harness)[0].attachments
        await harness.happens("reply", "what is this?", sent)
        await eventually(lambda: len(_said(harness)) >= 2)
        asked = _said(harness)[1]
        assert (asked.text, asked.attachments) == ("what is this?", ())
        assert asked.quoted is not None
        assert (asked.quoted.message_id, asked.quoted.is_own) == (sent, False)
        assert asked.quoted.sender is not None
        assert asked.quoted.sender.id == harness.person
        (quoted,) = asked.quoted.attachments
        assert (quoted.name, quoted.kind, quoted.mime_type, quoted.size) == (
            own.name,
            own.kind,
            own.mime_type,
            own.size,
        )
        assert await files.fetch(quoted, tmp_path / "quoted", limit=500) == 500
        assert (tmp_path / "quoted").read_text() == content

    # -- the account

    async def test_the_account_hears_and_its_channels_keep_their_key(self, harness: Harness) -> None:
        await eventually(lambda: harness.adapter.health().state is State.CONNECTED)
        key = harness.channel.key
        assert key.channel_type == harness.adapter.channel_type
        assert harness.adapter.channel(key.channel_id).key == key
        assert harness.adapter.channel(key.channel_id).capabilities.text_limit > 0

    async def test_doctor_finds_nothing_wrong(self, harness: Harness) -> None:
        for line in await harness.adapter.diagnose():
            assert line.level != "error", line
            assert line.subject
            assert line.finding
            assert line.fix or line.level == "ok"

    async def test_what_is_withheld_is_told_by_doctor_too(self, harness: Harness) -> None:
        """Each with what it affects and what changes it."""
        lines = await harness.adapter.diagnose()
        for withheld in harness.adapter.health().withheld:
            assert withheld.affects
            assert withheld.fix
            found = [(line.finding, line.fix) for line in lines if line.affects == withheld.affects]
            assert (withheld.finding, withheld.fix) in found

    @pytest.mark.requirement("Z-36")
    async def test_a_refused_login_ends_the_account(self, harness: Harness) -> None:
        """`doctor` tells beforehand, and what mends it."""
        adapter = there(await harness.refused(), "nobody signs in here")

        async def admit(inbound: Inbound) -> Receipt:
            raise AssertionError("it cannot have heard anything")

        try:
            lines = await adapter.diagnose()
            assert any(line.level == "error" and line.fix for line in lines), lines
            with anyio.fail_after(60), pytest.raises(ChannelFatal):
                await adapter.run(admit)
            assert adapter.health().state is State.FAILED
            assert adapter.health().detail
        finally:
            await adapter.aclose()


def _said(harness: Harness) -> list[MessageReceived]:
    return _heard(harness, MessageReceived)


def _heard(harness: Harness, kind: type[Kind]) -> list[Kind]:
    return [inbound for inbound in harness.admitted if isinstance(inbound, kind)]


async def _all(history: History, after: Position) -> list[MessageReceived]:
    found: list[MessageReceived] = []
    following: Position | None = after
    while following is not None:
        page = await history.since(following)
        found += page.messages
        following = page.following
    return found


def _names(said: MessageReceived) -> tuple[object, ...]:
    return said.key, said.place, said.message_id, said.text, said.sender.id


def _check_name(said: MessageReceived) -> None:
    """The key can be stored and read, and the place around it, if it names one, is a place that the message names too.

    An id of the platform's with a `:` in it would look like a thread of a place that is none: see `place_id`.
    """
    assert ConversationKey.parse(str(said.key)) == said.key
    around = said.key.around
    named = (said.place, said.parent, *said.grantable, said.sender.id)  # or all that one person has
    assert around is None or around.channel_id in named, said.key
    # The server or workspace around a place is another one than the place, and grants may name it.
    assert said.around is None or (said.around in said.grantable and said.around != said.place), said.around


def _unknown_like(message_id: str) -> str:
    """An id of the same form that names no message."""
    digits = "".join("9" if character.isdigit() else character for character in message_id)
    return digits if digits != message_id else digits[:-1] + "8"
