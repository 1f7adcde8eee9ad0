"""Pictures and files at the door in OpenAI's form, by OpenAI's own client library, on the channel of the product."""

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import openai
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from agent.storage.process_tables import file as file_table
from agent.storage.process_tables import file_content
from agent.storage.tables import ephemeral
from gateway.api.openai.parts import FILE_PARTS, PICTURE_PARTS, SOUND_PART, Content, Limits, content_of
from gateway.api.refusals import BadRequest
from tests.agent.documents.make import SAMPLES
from tests.fakes.waiting import until
from tests.gateway.api.conftest import Caller, serving
from tests.gateway.api.test_openai import refused
from tests.gateway.world import World

PNG = b"\x89PNG\r\n\x1a\n" + b"picture of a kiln"
JPEG = b"\xff\xd8\xff\xe0" + b"picture of a harbour"
GIF, WEBP = b"GIF89a" + b"moving", b"RIFF\x10\0\0\0WEBPVP8 still"
PDF = (SAMPLES / "pdf/canvas.pdf").read_bytes()
MEGABYTE = 1024 * 1024


def url(data: bytes = PNG, mime_type: str = "image/png") -> str:
    """A data URL (RFC 2397)."""
    return f"data:{mime_type};base64,{base64.b64encode(data).decode()}"


def picture(data: bytes = PNG, mime_type: str = "image/png", **more: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url(data, mime_type), **more}}


def at(address: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": address}}


def file(name: str, data: bytes, mime_type: str) -> dict[str, Any]:
    return {"type": "file", "file": {"filename": name, "file_data": url(data, mime_type)}}


def asking(text: str, *parts: dict[str, Any]) -> list[Any]:
    return [{"role": "user", "content": [{"type": "text", "text": text}, *parts]}]


def seen(world: World, request: int = -1) -> list[dict[str, Any]]:
    """The parts of the newest message of a person that the model was sent."""
    content = [one for one in world.llm.bodies[request]["messages"] if one["role"] == "user"][-1]["content"]
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def pictures(world: World, request: int = -1) -> list[str]:
    return [part["image_url"]["url"] for part in seen(world, request) if part["type"] == "image_url"]


def words(world: World, request: int = -1) -> str:
    return "\n".join(part["text"] for part in seen(world, request) if part["type"] == "text")


def stored(world: World, top: str = "files") -> list[Path]:
    return sorted(path for path in (world.home / top).rglob("*") if path.is_file() and ".read/" not in str(path))


@pytest.mark.requirement("G-166")
async def test_the_model_sees_the_picture_and_it_stays_in_the_conversation(caller: Caller) -> None:
    client = caller.client(await caller.key())
    create = client.chat.completions.create
    answer = await create(model="tieline", user="anna", messages=asking("what is on it?", picture()))
    assert "what is on it?" in str(answer.choices[0].message.content)
    assert pictures(caller.world) == [url(PNG)]
    [kept] = stored(caller.world)
    assert kept.read_bytes() == PNG
    assert not stored(caller.world, "uploads"), "once the message is taken in, it has the only copy"
    [landed] = (caller.world.home / "workspaces").rglob("received/*/*.png")
    assert landed.read_bytes() == PNG
    await create(model="tieline", user="anna", messages=asking("and what colour has it?"))
    assert url(PNG) in json.dumps(caller.world.llm.bodies[-1]), "a later turn is shown it, too"
    await create(model="tieline", user="ben", messages=asking("what did she send?"))
    assert url(PNG) not in json.dumps(caller.world.llm.bodies[-1]), "another conversation"


@pytest.mark.requirement("G-166")
async def test_files_are_read_as_in_any_chat(caller: Caller) -> None:
    client = caller.client(await caller.key())
    sent = (file("contract.pdf", PDF, "application/pdf"), file("list.csv", b"tea,2.5\n", "text/csv"))
    await client.chat.completions.create(model="tieline", user="anna", messages=asking("sum it up", *sent))
    told = words(caller.world)
    assert "Contract, page 3 of three" in told.partition('<untrusted source="contract.pdf">')[2]
    assert "tea,2.5" in told.partition('<untrusted source="list.csv">')[2].partition("</untrusted>")[0]
    assert [path.name for path in stored(caller.world)] == ["0-contract.pdf", "1-list.csv"]


@pytest.mark.requirement("G-166")
async def test_responses_take_them_in_their_own_form(caller: Caller) -> None:
    client = caller.client(await caller.key())
    said: list[Any] = [
        {"type": "input_text", "text": "look at both"},
        {"type": "input_image", "image_url": url(WEBP, "image/webp"), "detail": "auto"},
        {"type": "input_file", "filename": "../../etc/list.csv", "file_data": url(b"tea,2.5\n", "text/csv")},
    ]
    first = await client.responses.create(model="tieline", user="anna", input=[{"role": "user", "content": said}])
    assert first.output_text
    assert pictures(caller.world) == [url(WEBP, "image/webp")]
    assert '<untrusted source="list.csv">' in words(caller.world)
    assert {path.name for path in stored(caller.world)} == {"0-picture-1.webp", "1-list.csv"}
    more: list[Any] = [{"role": "user", "content": [{"type": "input_image", "image_url": url(GIF, "image/gif")}]}]
    await client.responses.create(model="tieline", previous_response_id=first.id, input=more)
    assert url(GIF, "image/gif") in pictures(caller.world), "a picture needs no words"
    async with client.responses.stream(model="tieline", user="anna", input=more) as stream:
        async for _ in stream:
            pass
    assert len(stored(caller.world)) == 4


@pytest.mark.requirement("G-166")
async def test_the_same_idempotency_key_stores_them_once(caller: Caller) -> None:
    client = caller.client(await caller.key())
    ids = []

    async def ask(data: bytes = PNG) -> None:
        answer = await client.chat.completions.create(
            model="tieline",
            user="anna",
            messages=asking("what is on it?", picture(data)),
            extra_headers={"Idempotency-Key": "same"},
        )
        ids.append(answer.id)

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
    await ask()
    assert len(set(ids)) == 1
    assert len(caller.world.llm.calls) == 1
    assert [path.read_bytes() for path in stored(caller.world)] == [PNG]
    assert not stored(caller.world, "uploads")
    another = PNG[:-1] + b"m"
    assert await refused(ask(another)) == (422, "idempotency_key_reused")
    without = client.chat.completions.create(
        model="tieline", user="anna", messages=asking("what is on it?"), extra_headers={"Idempotency-Key": "same"}
    )
    assert await refused(without) == (422, "idempotency_key_reused")
    assert [path.read_bytes() for path in stored(caller.world)] == [PNG], "nothing has replaced it"


@pytest.mark.requirement("G-166")
async def test_of_two_pictures_with_one_idempotency_key_at_once_one_counts(caller: Caller) -> None:
    """Else the words of one would stand beside the picture of the other."""
    client = caller.client(await caller.key())
    answered: list[bytes] = []
    codes: list[int] = []

    async def ask(data: bytes) -> None:
        try:
            await client.chat.completions.create(
                model="tieline",
                user="anna",
                messages=asking("what is on it?", picture(data)),
                extra_headers={"Idempotency-Key": "same"},
            )
            answered.append(data)
        except openai.APIStatusError as error:
            codes.append(error.status_code)

    async with anyio.create_task_group() as tasks:
        for number in range(4):
            tasks.start_soon(ask, PNG + bytes([number]))
    assert (len(answered), codes) == (1, [422] * 3)
    assert pictures(caller.world) == [url(answered[0])]
    assert [path.read_bytes() for path in stored(caller.world)] == answered


@pytest.mark.requirement("G-166")
async def test_keys_that_differ_in_what_no_file_name_shows_have_files_of_their_own(caller: Caller) -> None:
    client = caller.client(await caller.key())
    keys = ["a/b", "a_b", "a b", "x" * 200 + "1" + "y" * 54, "x" * 200 + "2" + "y" * 54]
    for number, once in enumerate(keys):
        await client.chat.completions.create(
            model="tieline",
            user="anna",
            messages=asking(f"number {number}", picture(PNG + bytes([number]))),
            extra_headers={"Idempotency-Key": once},
        )
    assert {path.read_bytes() for path in stored(caller.world)} == {PNG + bytes([number]) for number in range(5)}


@pytest.mark.requirement("G-166")
async def test_a_history_with_pictures_goes_on(caller: Caller) -> None:
    client = caller.client(await caller.key())
    create = client.chat.completions.create
    said = asking("what is on it?", picture())
    answer = await create(model="tieline", user="anna", messages=said)
    history = [*said, {"role": "assistant", "content": answer.choices[0].message.content}]
    await create(model="tieline", user="anna", messages=[*history, *asking("sure?")])
    assert len(stored(caller.world)) == 1, "the picture of an earlier message is there already"
    for changed in (asking("what is on it?"), asking("what is on it?", picture(PNG + b"more"))):
        history = [*changed, {"role": "assistant", "content": answer.choices[0].message.content}]
        call = create(model="tieline", user="anna", messages=[*history, *asking("sure?")])
        assert await refused(call) == (409, "history_mismatch")


@pytest.mark.requirement("G-166")
async def test_without_a_conversation_the_model_gets_them_and_nothing_stays(caller: Caller) -> None:
    client = caller.client(await caller.key())
    create = client.chat.completions.create
    first = asking("what is on it?", picture(), file("notes.txt", b"tea at four", "text/plain"))
    history = [*first, {"role": "assistant", "content": "A kiln."}, *asking("and here?", picture(JPEG, "image/jpeg"))]
    answer = await create(model="tieline", messages=history)
    assert str(answer.choices[0].message.content).endswith("and here?")
    asked = caller.world.llm.bodies[-1]["messages"]
    assert [one["role"] for one in asked if one["role"] != "system"] == ["user", "assistant", "user"]
    assert url(PNG) in json.dumps(asked[-3])
    assert "tea at four" in json.dumps(asked[-3])
    assert pictures(caller.world) == [url(JPEG, "image/jpeg")]
    stream = await create(model="tieline", stream=True, messages=asking("once more", picture()))
    assert "once more" in "".join([one.choices[0].delta.content or "" async for one in stream if one.choices])
    assert pictures(caller.world) == [url(PNG)]
    assert not stored(caller.world)
    await until(lambda: not stored(caller.world, "uploads"))


BLIND = """
[[llm.providers]]
name = "blind"
type = "openai"
model = "m"
base_url = "{url}/v1"
api_key = "sk-double"
takes = ["text/plain"]
context_window = 128000
"""


@pytest.mark.requirement("G-166")
async def test_a_model_that_does_not_see_is_told_of_it_or_the_request_is_refused(
    world_of: Callable[..., World],
) -> None:
    """In a conversation as in any chat: the line that names the file. Without one nobody could look at it later."""
    world = world_of(accounts=("telegram", "api"), providers=())
    world.config = BLIND.format(url=world.llm.url)
    async with world.process(), serving(world) as there:
        create = there.client(await there.key()).chat.completions.create
        await create(model="blind", user="anna", messages=asking("what is on it?", picture()))
        assert not pictures(world)
        assert f"[file: picture-1.png, image/png, {len(PNG)} bytes]" in words(world)
        for stream in (False, True):
            alone = create(model="blind", stream=stream, messages=asking("what is on it?", picture()))
            assert await refused(alone) == (400, "unsupported_parameter")
        assert len(world.llm.calls) == 1
        await create(model="blind", messages=asking("and this?", file("notes.txt", b"tea at four", "text/plain")))
        assert "tea at four" in words(world)


@pytest.mark.requirement("G-166")
async def test_sounds_are_written_down_where_voice_messages_are(world_of: Callable[..., World]) -> None:
    hearing = '[transcription]\nprovider = "a"\nusd_per_minute = 0.6\n'
    async with world_of(accounts=("telegram", "api"), config=hearing).process() as world, serving(world) as there:
        world.script({"match": {"api": "transcriptions"}, "reply": {"text": "fire the kiln at noon"}})
        create = there.client(await there.key()).chat.completions.create
        data = base64.b64encode(b"RIFF\x10\0\0\0WAVEfmt and some sound").decode()
        sound = {"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}
        await create(model="tieline", user="anna", messages=asking("do that", sound))
        assert "[transcript of sound-1.wav]\nfire the kiln at noon" in words(world)
        alone = create(model="tieline", messages=asking("do that", sound))
        assert await refused(alone) == (400, "unsupported_parameter"), "its model does not hear"
        wrong = {"type": "input_audio", "input_audio": {"data": data, "format": "mp3"}}
        call = create(model="tieline", user="anna", messages=asking("do that", wrong))
        assert await refused(call) == (400, "wrong_file_type")


@pytest.mark.requirement("G-166")
async def test_on_postgresql_they_lie_in_the_database(world_of: Callable[..., World], postgres_url: str) -> None:
    config = f'[database]\nurl = "{postgres_url}"\n'
    async with world_of(accounts=("telegram", "api"), config=config).process() as world, serving(world) as there:
        client = there.client(await there.key())
        await client.chat.completions.create(model="tieline", user="anna", messages=asking("look", picture()))
        await client.chat.completions.create(model="tieline", messages=asking("look", picture()))
        assert pictures(world) == [url(PNG)]
        paths = await world.database.read(lambda conn: conn.execute(select(file_table.c.path)).scalars().all())
        assert [path.split("/")[0] for path in sorted(paths)] == ["files", "workspaces"], "and nothing in uploads"
        sizes = await world.database.read(lambda conn: conn.execute(select(file_content.c.size)).scalars().all())
        assert list(sizes) == [len(PNG)], "both share their bytes"


@pytest.mark.requirement("G-166")
async def test_they_go_with_what_is_forgotten(caller: Caller) -> None:
    create = caller.client(await caller.key()).chat.completions.create
    await create(model="tieline", user="anna", messages=asking("what is on it?", picture()))
    assert stored(caller.world)

    async def forget() -> None:
        asked = await create(model="tieline", user="anna", messages=asking("/memory forget all"))
        assert "Forgotten." in str(asked.choices[0].message.content)

    async def is_asked() -> bool:
        return await caller.world.database.read(lambda conn: bool(conn.execute(select(ephemeral.c.kind)).all()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(forget)
        await until(is_asked)
        yes = create(model="tieline", user="anna", messages=asking("yes"))
        assert await refused(yes) == (410, "answer_gone"), "the words answer the question, and nothing answers them"
    assert not stored(caller.world)
    assert not list((caller.world.home / "workspaces").rglob("*.png"))


@pytest.mark.requirement("G-166")
async def test_what_a_crash_has_left_goes_after_a_day(caller: Caller) -> None:
    left = caller.world.home / "uploads" / "0123" / "0-picture-1.png"
    left.parent.mkdir(parents=True)
    left.write_bytes(PNG)
    await caller.world.services.upkeep.run_once()
    assert left.exists()
    caller.world.clock.ahead_s += 2 * 86_400
    await caller.world.services.upkeep.run_once()
    assert not left.exists()


NAMES = sorted(
    {
        "image_url",
        "url",
        "detail",
        "file",
        "filename",
        "file_data",
        "file_id",
        "file_url",
        "input_audio",
        "data",
        "format",
    }
)
UNSUPPORTED = (400, "unsupported_parameter")
BROKEN: Sequence[tuple[str, dict[str, Any], tuple[int, str]]] = [
    ("an address", at("https://example.org/a.png"), UNSUPPORTED),
    ("a private address", at("http://169.254.169.254/"), UNSUPPORTED),
    ("a file of the machine", at("file:///etc/passwd"), UNSUPPORTED),
    ("a stored file", {"type": "file", "file": {"file_id": "file-7"}}, UNSUPPORTED),
    ("no base64", at("data:image/png;base64,@@@@"), (400, "invalid_base64")),
    ("signs that are none", at(f"{url()[:-8]}@@@@{url()[-8:]}"), (400, "invalid_base64")),
    ("cut base64", at(url(PNG)[:-3]), (400, "invalid_base64")),
    ("letters of others", at("data:image/png;base64,äää"), (400, "invalid_base64")),
    ("nothing in it", at("data:image/png;base64,"), (400, "invalid_base64")),
    ("no base64 told", at("data:image/png,abcd"), (400, "invalid_data_url")),
    ("no type", at("data:;base64,abcd"), (400, "invalid_data_url")),
    ("a type that speaks", at("data:image/png]\n[x;base64,YWJj"), (400, "invalid_data_url")),
    ("no picture", picture(b"<html><script>"), (400, "invalid_image")),
    ("a PDF file as a picture", picture(PDF), (400, "invalid_image")),
    ("another picture", picture(JPEG), (400, "wrong_file_type")),
    ("a picture as a text", file("a.txt", PNG, "text/plain"), (400, "wrong_file_type")),
    ("a program as a PDF file", file("a.pdf", b"\x7fELF" * 400, "application/pdf"), (400, "wrong_file_type")),
    ("a text as a picture", file("a.png", b"hello", "image/png"), (400, "wrong_file_type")),
    ("a detail", picture(detail="high"), UNSUPPORTED),
    ("an unknown field", {**picture(), "format": "x"}, UNSUPPORTED),
    ("a sound", {"type": "input_audio", "input_audio": {"data": "SUQz", "format": "mp3"}}, UNSUPPORTED),
    ("a sound as a file", file("a.mp3", b"ID3" + b"x" * 20, "audio/mpeg"), UNSUPPORTED),
    ("a type of a part", {"type": "video_url", "video_url": {"url": url(PNG)}}, UNSUPPORTED),
    ("no object", {"type": "image_url", "image_url": url(PNG)}, (400, "None")),
    ("no bytes", {"type": "file", "file": {"filename": "a.txt"}}, (400, "None")),
    ("no name", {"type": "file", "file": {"filename": 7, "file_data": url(b"x", "text/plain")}}, (400, "None")),
]  # fmt: skip


@pytest.mark.requirement("G-167")
async def test_what_cannot_be_taken_is_refused_and_nothing_is_stored(caller: Caller) -> None:
    client = caller.client(await caller.key())
    for about, part, expected in BROKEN:
        for named in ({"user": "anna"}, {}):
            fields: dict[str, Any] = {"model": "tieline", "messages": asking("look", picture(), part), **named}
            call = client.chat.completions.create(**fields)
            assert await refused(call) == expected, about
    responses: list[tuple[dict[str, Any], tuple[int, str]]] = [
        ({"type": "input_image", "image_url": "https://example.org/a.png"}, UNSUPPORTED),
        ({"type": "input_image", "file_id": "file-7"}, UNSUPPORTED),
        ({"type": "input_file", "file_url": "https://example.org/a.pdf"}, UNSUPPORTED),
        ({"type": "input_file", "file_data": url(PNG, "text/plain")}, (400, "wrong_file_type")),
    ]
    for part, expected in responses:
        said: Any = [{"role": "user", "content": [{"type": "input_text", "text": "look"}, part]}]
        assert await refused(client.responses.create(model="tieline", user="anna", input=said)) == expected, part
    for role in ("system", "assistant"):
        history: list[Any] = [*asking("hi"), {"role": role, "content": [picture()]}, *asking("and?")]
        call = client.chat.completions.create(model="tieline", messages=history)
        assert await refused(call) == (400, "unsupported_parameter"), role
    assert not stored(caller.world)
    assert not stored(caller.world, "uploads")
    assert not await caller.world.rows()
    assert not caller.world.llm.calls


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=20)
    | st.sampled_from([url(PNG), "data:a/b;base64,eA=="]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=6,
)


def read(part: dict[str, Any]) -> Content | BadRequest:
    """The content of a message of one part, or why it is refused."""
    try:
        return content_of([part], "messages[0].content", Limits(file_mb=1, hears=True), may_have_files=True)
    except BadRequest as error:
        return error


@pytest.mark.requirement("G-167")
@settings(max_examples=400, database=None, derandomize=True, deadline=None)
@given(st.sampled_from((*PICTURE_PARTS, *FILE_PARTS, SOUND_PART)), st.dictionaries(st.sampled_from(NAMES), ANY))
def test_no_part_breaks_anything(kind: str, fields: dict[str, Any]) -> None:
    """Each is read, or refused with the field."""
    found = read({**fields, "type": kind})
    if isinstance(found, BadRequest):
        assert str(found.param).startswith("messages[0].content[0]")
    else:
        (one,) = found.files
        assert one.data
        assert one.name.isprintable()


@pytest.mark.requirement("G-167")
async def test_too_many_and_too_large_ones_are_refused_and_nothing_is_stored(world_of: Callable[..., World]) -> None:
    limits = "[retention]\nattachment_mb = 1\n"
    async with world_of(accounts=("telegram", "api"), config=limits).process() as world, serving(world) as there:
        key = await there.key()
        create = there.client(key).chat.completions.create
        ten, large = [picture(PNG + bytes([n])) for n in range(10)], PNG + b"x" * (MEGABYTE - len(PNG))
        call = create(model="tieline", user="anna", messages=asking("look", *ten, picture()))
        assert await refused(call) == (400, "too_many_files")
        call = create(model="tieline", user="anna", messages=asking("look", picture(large + b"x")))
        assert await refused(call) == (413, "file_too_large")
        call = create(model="tieline", messages=asking("look", *ten[:5]))
        assert await refused(call) == (400, "too_many_files")
        call = create(model="tieline", messages=asking("look", file("a.txt", b"x" * 70_000, "text/plain")))
        assert await refused(call) == (413, "file_too_large")
        body = json.dumps(
            {"model": "tieline", "user": "anna", "messages": asking("look", picture(b"x" * 16 * MEGABYTE))}
        )
        answer = await there.post("/v1/chat/completions", key, body.encode(), content_type="application/json")
        assert (answer.status_code, answer.json()["error"]["message"]) == (413, "too large; at most 20 MB")
        other = await there.key("other", "send", "ask")
        for path in ("/api/send", "/api/ask"):
            answer = await there.post(path, other, b"x" * (MEGABYTE + 1))
            assert answer.status_code == 413, "the other doors take no files"
        assert not stored(world)
        assert not stored(world, "uploads")
        assert not await world.rows()
        await create(model="tieline", user="anna", messages=asking("look", *ten[1:], picture(large)))
        assert len(stored(world)) == 10
