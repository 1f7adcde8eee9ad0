"""Messages out: each fault has its class, nothing is sent twice, whispers and files find their way."""

from pathlib import Path

import pytest
from aiohttp import web

from adapters.slack.adapter import SlackAdapter
from gateway.channels.document import Plain
from gateway.channels.errors import ChannelBusy, ChannelError, ChannelGone, ChannelRejected, ChannelUnsure
from gateway.channels.inbound import Attachment
from gateway.channels.outbound import Button, File, Outbound, SentRef
from gateway.delivery.rendering.markdown import parse
from gateway.delivery.rendering.splitting import split
from gateway.testing.harness import eventually
from tests.adapters.slack.world import ANN, DM, free_port, running, shown, workspace
from tests.doubles.slack_api import BOT_USER, TEAM

OTHER = f"{TEAM}:C0GENERAL"
LONG = Path(__file__).with_name("long_answer.md").read_text()


def plain(text: str, **more: object) -> Outbound:
    return Outbound(document=(Plain(text),), **more)  # type: ignore[arg-type]


@pytest.mark.requirement("G-09")
async def test_a_429_concerns_its_channel_alone_and_is_not_asked_again_before_its_time(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        world.fault("chat.postMessage", "rate_limit", retry_after=30, channel="D0ANN")
        channel, other = adapter.channel(DM), adapter.channel(OTHER)
        with pytest.raises(ChannelBusy) as first:
            await channel.send(plain("x"))
        assert first.value.after_s == 30
        with pytest.raises(ChannelBusy) as second:
            await channel.send(plain("x"))
        assert 0 < second.value.after_s <= 30
        assert len(world.calls("chat.postMessage")) == 1  # the second was not even tried
        await other.send(plain("x"))


@pytest.mark.requirement("G-09")
async def test_many_messages_are_paced_not_refused(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        for number in range(7):  # the service takes about one a second after a few
            await adapter.channel(DM).send(plain(f"{number}"))
        assert [message["text"] for message in world.by_bot()] == [str(number) for number in range(7)]
        assert all(call.get("error") != "ratelimited" for call in world.calls("chat.postMessage"))


@pytest.mark.parametrize(("kind", "arrived"), [("drop", False), ("drop_after", True), ("server_error", False)])
async def test_a_post_whose_answer_is_lost_is_unsure_and_found_by_its_key(
    tmp_path: Path, kind: str, arrived: bool
) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        root = await world.write("root")
        for channel_id in (DM, f"{DM}:{root}", OTHER):
            channel = adapter.channel(channel_id)
            world.fault("chat.postMessage", kind)
            with pytest.raises(ChannelUnsure):
                await channel.send(plain("once", key="o7-0"))
            found = await channel.history.find("o7-0")
            assert (found is not None) is arrived
        posts = world.calls("chat.postMessage")
        assert len(posts) == 3  # no library repeated one


@pytest.mark.parametrize("kind", ["drop", "drop_after", "server_error"])
async def test_an_edit_whose_answer_is_lost_may_be_repeated(tmp_path: Path, kind: str) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        channel = adapter.channel(DM)
        sent = await channel.send(plain("before"))
        world.fault("chat.update", kind)
        with pytest.raises(ChannelBusy):
            await channel.edit(sent, plain("after"))
        await channel.edit(sent, plain("after"))
        assert [shown(message) for message in world.by_bot()] == ["after"]


async def test_an_unreachable_slack_leaves_no_doubt(tmp_path: Path) -> None:
    async with workspace() as world:
        settings = world.settings(api_base_url=f"http://127.0.0.1:{free_port()}/api/")
        adapter = SlackAdapter(settings, world.adapter_context(tmp_path))
        with pytest.raises(ChannelBusy):
            await adapter.channel(DM).send(plain("x"))
        await adapter.aclose()


async def test_a_page_that_is_no_slack_is_no_crash(tmp_path: Path) -> None:
    async def page(_request: web.Request) -> web.Response:
        return web.Response(text="<html>please sign in</html>")

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", page)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port = runner.addresses[0][1]
    async with workspace() as world:
        settings = world.settings(api_base_url=f"http://127.0.0.1:{port}/api/")
        adapter = SlackAdapter(settings, world.adapter_context(tmp_path))
        with pytest.raises(ChannelUnsure):
            await adapter.channel(DM).send(plain("x"))
        (line,) = await adapter.diagnose()
        assert line.level == "error"
        await adapter.aclose()
    await runner.cleanup()


async def test_a_refused_rendering_is_sent_plain(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        channel = adapter.channel(DM)
        message = Outbound(document=parse("**a** & b"), key="o1-0", buttons=((Button(label="Go", action="go"),),))
        world.fault("chat.postMessage", "error", error="invalid_blocks")
        sent = await channel.send(message)
        (found,) = world.by_bot()
        assert [block["type"] for block in found["blocks"]] == ["section", "actions"]
        assert found["text"] == "*a* &amp; b"
        assert await channel.history.find("o1-0") == sent
        world.fault("chat.update", "error", error="invalid_blocks")
        await channel.edit(sent, Outbound(document=parse("**c**")))
        (found,) = world.by_bot()
        assert (found["text"], found.get("blocks")) == ("*c*", None)


@pytest.mark.requirement("G-10")
async def test_a_long_answer_arrives_whole_and_valid(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        channel = adapter.channel(DM)
        parts = split(parse(LONG), channel.capabilities.text_limit, channel.capabilities.measure)
        for number, part in enumerate(parts):
            await channel.send(Outbound(document=part, key=f"o1-{number}"))
        texts = [block["text"] for message in world.by_bot() for block in message["blocks"]]
        assert sum(text.count("```python") for text in texts) >= LONG.count("```python")
        assert all(text.count("```") % 2 == 0 for text in texts)
        assert "".join(texts).count("🚀") == LONG.count("🚀")
        for _number, message in enumerate(world.by_bot()):
            await channel.edit(SentRef(message["ts"]), Outbound(document=parts[0]))  # also an update takes it


async def test_an_edit_waits_a_little_for_its_turn(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        channel = adapter.channel(DM)
        sent = await channel.send(plain("x"))
        world.fault("chat.update", "rate_limit", retry_after=1)
        with pytest.raises(ChannelBusy):
            await channel.edit(sent, plain("y", key="o1-0"))
        await channel.edit(sent, plain("z", key="o1-0"))  # waits out the second inside the adapter
        assert [shown(message) for message in world.by_bot()] == ["z"]


async def test_a_closed_place_is_gone_but_answers_to_commands_still_get_there(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        world.double.channels["C0OTHER"]["members"] = [ANN]
        channel = adapter.channel(f"{TEAM}:C0OTHER")
        with pytest.raises(ChannelGone):
            await channel.send(plain("x"))
        await world.event(kind="slash", command="/status", channel="C0OTHER")
        (said,) = world.said()
        sent = await channel.send(plain("*fine* & well", key="o1-0", interaction=said.interaction))
        (answer,) = world.double.ephemeral
        assert (answer["to"], shown(answer)) == (ANN, "*fine* & well")
        await channel.delete(sent)  # it goes by itself
        with pytest.raises(ChannelRejected):
            await channel.edit(sent, plain("y"))


async def test_what_passes_uses_up_no_answer_to_a_command(tmp_path: Path) -> None:
    """Five answers are allowed, and where the bot is no member the last word has no other way."""
    async with workspace() as world, running(world, tmp_path) as adapter:
        world.double.channels["C0OTHER"]["members"] = [ANN]
        await world.event(kind="slash", command="/tieline", text="weather?", channel="C0OTHER")
        interaction = world.said()[-1].interaction
        channel = adapter.channel(f"{TEAM}:C0OTHER")
        for _ in range(6):
            with pytest.raises(ChannelGone):
                await channel.send_ephemeral(plain("Running a tool…", silent=True, interaction=interaction), ANN)
        with pytest.raises(ChannelGone):  # a frame: it would stay, half a sentence above the whole answer
            await channel.send(plain("The weather in Berl", interaction=interaction))
        await channel.send(plain("The weather in Berlin is fine.", key="o1-0", interaction=interaction))
        asked = Outbound(
            document=(Plain("Sure?"),), buttons=((Button(label="Go", action="go"),),), interaction=interaction
        )
        await channel.send(asked)
        assert [shown(one) for one in world.double.ephemeral] == ["The weather in Berlin is fine.", "Sure?"]


async def test_a_status_where_the_bot_is_a_member_is_shown_beside_the_command(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        await world.event(kind="slash", command="/tieline", text="weather?", channel="C0GENERAL")
        interaction = world.said()[-1].interaction
        status = plain("Running a tool…", silent=True, interaction=interaction)
        assert await adapter.channel(OTHER).send_ephemeral(status, ANN) is None
        assert [(one["to"], shown(one)) for one in world.double.ephemeral] == [(ANN, "Running a tool…")]
        assert world.calls("response_url") == []


async def test_somebody_who_has_left_closes_the_place_for_nobody(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        world.double.channels["C0GENERAL"]["members"] = [BOT_USER]
        channel = adapter.channel(OTHER)
        with pytest.raises(ChannelRejected) as refused:
            await channel.send_ephemeral(plain("busy"), ANN)
        assert not isinstance(refused.value, ChannelGone)
        await channel.send(plain("for the others"))


@pytest.mark.requirement("G-08")
async def test_whispers(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        root = await world.write("root")
        await world.event(kind="slash", command="/status")
        interaction = world.said()[-1].interaction
        thread = adapter.channel(f"{DM}:{root}")
        assert await thread.send_ephemeral(plain("in the thread"), ANN) is None
        assert await adapter.channel(DM).send_ephemeral(plain("by command", interaction=interaction), ANN) is None
        sent = await adapter.channel(DM).send_ephemeral(plain("to nobody in particular"), None)
        assert sent is not None
        private = [(one["to"], one.get("thread_ts"), shown(one)) for one in world.double.ephemeral]
        assert private == [(ANN, root, "in the thread"), (ANN, None, "by command")]
        await adapter.channel(DM).delete(sent)
        assert world.by_bot() == []


async def test_a_used_up_command_is_answered_by_an_ephemeral_message(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        await world.event(kind="slash", command="/status")
        interaction = world.said()[-1].interaction
        assert interaction is not None
        channel = adapter.channel(DM)
        for number in range(5):  # that many uses Slack allows
            await channel.interactions.acknowledge(interaction, f"{number}")
        with pytest.raises(ChannelRejected, match="used up"):
            await channel.interactions.acknowledge(interaction, "6")
        await channel.send_ephemeral(plain("6", interaction=interaction), ANN)
        assert len(world.calls("chat.postEphemeral")) == 1
        assert len(world.double.ephemeral) == 6


async def test_an_acknowledgement_can_be_for_all_to_see(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        await world.event(kind="slash", command="/status")
        interaction = world.said()[-1].interaction
        assert interaction is not None
        channel = adapter.channel(DM)
        await channel.interactions.acknowledge(interaction)
        assert world.calls("response_url") == []  # nothing to say: nothing is sent
        await channel.interactions.acknowledge(interaction, "for all", visible=True)
        assert [shown(message) for message in world.by_bot()] == ["for all"]
        world.fault("response_url", "error", error="invalid_blocks", status=400)
        world.fault("response_url", "server_error", status=500)
        with pytest.raises(ChannelBusy):
            await channel.interactions.acknowledge(interaction, "x")


async def test_files_go_out_in_a_thread_and_a_repeat_does_not_write_the_text_twice(tmp_path: Path) -> None:
    path = tmp_path / "stored"
    path.write_bytes(b"a,b\n1,2\n")
    file = File(path=path, name="table.csv", mime_type="text/csv")
    async with workspace() as world, running(world, tmp_path) as adapter:
        root = await world.write("root")
        channel = adapter.channel(f"{DM}:{root}")
        world.fault("files.completeUploadExternal", "rate_limit", retry_after=1)
        message = plain("here", key="o1-0", files=(file,))
        with pytest.raises(ChannelBusy):
            await channel.send(message)
        sent = await channel.send(message)
        text, files = world.by_bot()
        assert (shown(text), text["ts"]) == ("here", sent.id)
        assert [one["title"] for one in files["files"]] == ["table.csv"]
        assert files["thread_ts"] == root
        stored = [one for one in world.double.files.values() if one["data"] == b"a,b\n1,2\n"]
        assert stored
        assert len(world.calls("chat.postMessage")) == 1


async def test_files_alone_and_what_cannot_be_sent(tmp_path: Path) -> None:
    full, empty = tmp_path / "full", tmp_path / "empty"
    full.write_bytes(b"x")
    empty.write_bytes(b"")
    async with workspace() as world, running(world, tmp_path) as adapter:
        channel = adapter.channel(DM)
        sent = await channel.send(Outbound(document=(), files=(File(path=full, name="x.bin", mime_type="a/b"),)))
        assert [one["title"] for one in world.by_bot()[0]["files"]] == ["x.bin"]
        await channel.delete(sent)
        assert world.by_bot()[0]["files"] == []
        keyed = Outbound(document=(), key="o1-0", files=(File(path=full, name="y.bin", mime_type="a/b"),))
        await channel.send(keyed)
        assert await channel.history.find("o1-0") is not None  # its name stands for it
        with pytest.raises(ChannelRejected, match=r"'e\.txt' is empty"):
            await channel.send(Outbound(document=(), files=(File(path=empty, name="e.txt", mime_type="a/b"),)))


async def test_files_come_in_with_the_token_and_a_limit(tmp_path: Path) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        await world.event(text="look", files=[{"name": "a.txt", "text": "hello"}])
        ((attachment,),) = [said.attachments for said in world.said()]
        files = adapter.channel(DM).files
        assert await files.fetch(attachment, tmp_path / "a", limit=5) == 5
        assert (tmp_path / "a").read_bytes() == b"hello"
        with pytest.raises(ChannelRejected, match="larger than"):
            await files.fetch(attachment, tmp_path / "b", limit=4)
        # A size that lies is caught while reading.
        lying = Attachment(kind="file", handle=attachment.handle, name="a.txt", mime_type="text/plain", size=1)
        with pytest.raises(ChannelRejected, match="larger than"):
            await files.fetch(lying, tmp_path / "b", limit=4)
        assert not (tmp_path / "b").exists()
        file_id = next(iter(world.double.files))
        unaddressed = Attachment(kind="file", handle=f"file:{file_id}", name="a.txt", mime_type="text/plain")
        assert await files.fetch(unaddressed, tmp_path / "c", limit=5) == 5


@pytest.mark.requirement("G-28")
@pytest.mark.parametrize(
    "handle",
    [
        "https://drive.example.org/x",
        "http://files.slack.com/x",
        "https://slack.com.example.org/x",
        "https://notslack.com/x",
        "ftp:x",
        "",
    ],
)
async def test_the_token_goes_to_slack_only(tmp_path: Path, handle: str) -> None:
    async with workspace() as world, running(world, tmp_path) as adapter:
        elsewhere = Attachment(kind="file", handle=handle, name="x", mime_type="text/plain")
        with pytest.raises(ChannelRejected, match="not kept by Slack"):
            await adapter.channel(DM).files.fetch(elsewhere, tmp_path / "x", limit=10)


@pytest.mark.requirement("G-28")
async def test_no_token_in_errors_and_logs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    errors: list[str] = []
    async with (
        workspace() as world,
        running(world, tmp_path, bot_token="xoxb-geheim", app_token="xapp-geheim") as adapter,
    ):
        for kind in ("rate_limit", "server_error", "error", "drop", "drop_after"):
            world.fault("chat.postMessage", kind, retry_after=0)
            try:
                await adapter.channel(OTHER).send(plain("x"))
            except ChannelError as error:
                errors.append(f"{error} {error!r} {error.__cause__} {error.__context__}")
        await world.event(text="hello")
        for link in list(world.double.sockets):
            await link.close()
        await eventually(lambda: len(world.calls("apps.connections.open")) > 1)
        errors += [str(line) for line in await adapter.diagnose()]
    assert len(errors) > 5
    assert "geheim" not in " ".join(errors) + caplog.text
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("tieline")]
    assert "ticket=" not in " ".join(ours)  # the socket's address is a key, too
