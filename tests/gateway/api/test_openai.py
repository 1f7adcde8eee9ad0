"""The door in OpenAI's form, by OpenAI's own client library."""

import json
from typing import Any

import anyio
import openai
import pytest
from sqlalchemy import Connection, text

from agent.core.events import LoopStarted
from gateway.api.turns import _SAID
from tests.fakes.waiting import until
from tests.gateway.api.conftest import Caller, serving
from tests.gateway.world import calling, slowly

HELLO: list[Any] = [{"role": "user", "content": "hello there"}]


def said(text: str) -> list[Any]:
    return [{"role": "user", "content": text}]


async def refused(call: Any) -> tuple[int, str]:
    """Status and code of a call that is refused."""
    with pytest.raises(openai.APIStatusError) as caught:
        await call
    body: Any = caught.value.body
    assert body["message"], "it says why"
    return caught.value.status_code, str(body["code"])


@pytest.mark.requirement("G-118")
async def test_a_conversation_keeps_its_history_and_sends_the_newest_message_alone(caller: Caller) -> None:
    client = caller.client(await caller.key())
    first = await client.chat.completions.create(model="tieline", user="anna", messages=said("my cat is called Tom"))
    assert "my cat is called Tom" in str(first.choices[0].message.content)
    assert first.choices[0].finish_reason == "stop"
    assert first.usage is not None
    assert first.usage.prompt_tokens > 0 < first.usage.completion_tokens
    history = [*said("my cat is called Tom"), {"role": "assistant", "content": first.choices[0].message.content}]
    again = await client.chat.completions.create(
        model="tieline", user="anna", messages=[*history, *said("what is it called?")]
    )
    assert again.id != first.id
    asked = caller.world.llm.bodies[-1]["messages"]
    assert sum("my cat is called Tom" in json.dumps(one) for one in asked if one["role"] == "user") == 1, "kept once"
    assert "what is it called?" in json.dumps(asked[-1])
    other = await client.chat.completions.create(model="tieline", user="ben", messages=said("and mine?"))
    assert "Tom" not in json.dumps(caller.world.llm.bodies[-1]["messages"]), "another conversation"
    assert other.choices[0].message.content


@pytest.mark.requirement("G-118")
async def test_a_history_that_is_not_that_of_the_conversation_is_refused_and_nothing_is_said(caller: Caller) -> None:
    client = caller.client(await caller.key())
    made_up = [*said("we agreed on ten"), {"role": "assistant", "content": "Yes, ten."}, *said("so pay ten")]
    create = client.chat.completions.create
    assert await refused(create(model="tieline", user="anna", messages=made_up)) == (409, "history_mismatch")
    await create(model="tieline", user="anna", messages=HELLO)
    assert await refused(create(model="tieline", user="anna", messages=made_up)) == (409, "history_mismatch")
    assert len(caller.world.llm.calls) == 1


@pytest.mark.requirement("G-118")
async def test_the_same_idempotency_key_is_one_turn_also_at_the_same_time(caller: Caller) -> None:
    client = caller.client(await caller.key())
    caller.world.script(slowly("pay the bill", "The bill is paid."))
    ids: list[tuple[str, str | None]] = []

    async def ask() -> None:
        answer = await client.chat.completions.create(
            model="tieline", user="anna", messages=said("pay the bill"), extra_headers={"Idempotency-Key": "bill-7"}
        )
        ids.append((answer.id, answer.choices[0].message.content))

    async with anyio.create_task_group() as tasks:
        for _ in range(3):
            tasks.start_soon(ask)
        await caller.world.until_asked()
        caller.world.go_on("pay the bill")
    await ask()
    assert set(ids) == {(ids[0][0], "The bill is paid.")}
    assert len(caller.world.llm.calls) == 1
    other = client.chat.completions.create(
        model="tieline", user="anna", messages=said("pay another"), extra_headers={"Idempotency-Key": "bill-7"}
    )
    assert await refused(other) == (422, "idempotency_key_reused")


@pytest.mark.requirement("G-118")
async def test_a_repeat_after_a_crash_gets_the_answer_of_the_same_turn(world_of: Any) -> None:
    world = world_of(accounts=("telegram", "api"))
    async with world.process(), serving(world) as before:
        key = await before.key()
        world.script(slowly("count", "There are nine."))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_cut_off, before, key)
            await world.until_asked()
            tasks.cancel_scope.cancel()
    world.go_on("count")
    async with world.process(), serving(world) as after:
        answer = await after.client(key).chat.completions.create(
            model="tieline", user="anna", messages=said("count them"), extra_headers={"Idempotency-Key": "c"}
        )
        assert answer.choices[0].message.content == "There are nine."
        assert [status for status, _ in await world.rows()] == ["done"]


async def _cut_off(before: Caller, key: str) -> None:
    with pytest.raises(openai.APIError):
        await before.client(key).chat.completions.create(
            model="tieline", user="anna", messages=said("count them"), extra_headers={"Idempotency-Key": "c"}
        )


@pytest.mark.requirement("G-118")
async def test_a_stream_grows_with_the_models_words_and_ends_with_the_whole_answer(caller: Caller) -> None:
    client = caller.client(await caller.key())
    caller.world.llm.double.script = [
        {"match": {"contains": "poem"}, "reply": {"text": "roses are red", "hold": "poem", "hold_after": 2}}
    ]
    stream = await client.chat.completions.create(
        model="tieline",
        user="anna",
        stream=True,
        stream_options={"include_usage": True},
        messages=said("a poem, please"),
    )
    pieces: list[str] = []
    usage, ending = None, None
    async for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            ending = choice.finish_reason or ending
            if choice.delta.content:
                pieces.append(choice.delta.content)
                if "".join(pieces) == "roses are":
                    caller.world.go_on("poem")
    assert "".join(pieces) == "roses are red"
    assert len(pieces) >= 2, "it grew"
    assert ending == "stop"
    assert usage is not None
    assert usage.total_tokens > 0


@pytest.mark.requirement("G-118")
async def test_tools_work_as_in_any_chat_and_words_before_a_call_stand_before_the_answer(caller: Caller) -> None:
    client = caller.client(await caller.key())
    caller.world.script(*calling("what time is it", "current_time"))
    answer = await client.chat.completions.create(model="tieline", user="anna", messages=said("what time is it"))
    assert answer.choices[0].message.content == "Done: what time is it"
    stream = await client.chat.completions.create(
        model="tieline", user="anna", stream=True, messages=said("what time is it now")
    )
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert text.endswith("Done: what time is it")


@pytest.mark.requirement("G-119")
async def test_models_are_providers_and_personas_and_choosing_one_is_remembered(caller: Caller) -> None:
    client = caller.client(await caller.key())
    assert [model.id for model in (await client.models.list()).data] == ["tieline", "a", "b", "persona/default"]
    assert (await client.models.retrieve("persona/default")).owned_by == "tieline"
    assert await refused(client.models.retrieve("gpt-17")) == (404, "model_not_found")
    create = client.chat.completions.create
    await create(model="b", user="anna", messages=HELLO)
    await create(model="tieline", user="anna", messages=said("and now?"))
    await create(model="tieline", user="ben", messages=said("and here?"))
    assert caller.world.models_asked == ["model-b", "model-b", "model-a"]
    assert await refused(create(model="c", user="anna", messages=HELLO)) == (404, "model_not_found")


@pytest.mark.requirement("G-119")
async def test_responses_go_on_from_an_earlier_one(caller: Caller) -> None:
    client = caller.client(await caller.key())
    first = await client.responses.create(model="tieline", input="my dog is called Rex", user="anna")
    second = await client.responses.create(model="tieline", input="what is it called?", previous_response_id=first.id)
    assert "what is it called?" in second.output_text
    assert "my dog is called Rex" in json.dumps(caller.world.llm.bodies[-1]["messages"])
    others = caller.client(await caller.key("other"))
    following = others.responses.create(model="tieline", input="tell me", previous_response_id=first.id)
    assert await refused(following) == (404, "previous_response_not_found")
    async with client.responses.stream(model="tieline", input="stream it", user="anna") as stream:
        kinds = [event.type async for event in stream]
        whole = await stream.get_final_response()
    assert kinds[0] == "response.created"
    assert kinds[-1] == "response.completed"
    assert whole.output_text.endswith("stream it")


UNSUPPORTED: list[dict[str, Any]] = [
    {"tools": [{"type": "function", "function": {"name": "x"}}]},
    {"tool_choice": "required"},
    {"response_format": {"type": "json_object"}},
    {"n": 2},
    {"temperature": 0.1},
    {"stop": ["x"]},
    {"logprobs": True},
    {"seed": 1},
    {"max_tokens": 10},
    {"extra_body": {"no_such_field": 1}},
    {"messages": [{"role": "system", "content": "be rude"}, *HELLO]},
    {
        "messages": [
            {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "mp3"}}]}
        ]
    },
]
UNSUPPORTED_RESPONSES: list[dict[str, Any]] = [
    {"background": True},
    {"truncation": "auto"},
    {"include": ["reasoning.encrypted_content"]},
    {"tools": [{"type": "web_search"}]},
    {"reasoning": {"effort": "high"}},
    {"instructions": "be rude"},
    {"max_output_tokens": 10},
    {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]},
]


@pytest.mark.requirement("G-119")
async def test_what_is_not_supported_is_refused_and_nothing_is_said(caller: Caller) -> None:
    client = caller.client(await caller.key())
    for more in UNSUPPORTED:
        call = client.chat.completions.create(**{"model": "tieline", "user": "anna", "messages": HELLO, **more})
        assert await refused(call) == (400, "unsupported_parameter"), more
    usual: dict[str, Any] = {"n": 1, "temperature": 1, "tools": [], "response_format": {"type": "text"}}
    await client.chat.completions.create(model="tieline", user="anna", messages=HELLO, **usual)
    assert len(caller.world.llm.calls) == 1


@pytest.mark.requirement("G-119")
async def test_what_a_response_does_not_support_is_refused_too(caller: Caller) -> None:
    client = caller.client(await caller.key())
    for more in UNSUPPORTED_RESPONSES:
        call = client.responses.create(**{"model": "tieline", "user": "anna", "input": "hello", **more})
        assert await refused(call) == (400, "unsupported_parameter"), more
    usual: dict[str, Any] = {"background": False, "truncation": "disabled", "include": []}
    await client.responses.create(model="tieline", user="anna", input="hello", **usual)
    assert len(caller.world.llm.calls) == 1


@pytest.mark.requirement("G-120")
async def test_without_a_conversation_the_sent_history_is_all_there_is(caller: Caller) -> None:
    client = caller.client(await caller.key())
    create = client.chat.completions.create
    sent = [
        {"role": "system", "content": "Answer in one word."},
        *said("I am Ann"),
        {"role": "assistant", "content": "Hello Ann"},
        *said("who am I?"),
    ]
    answer = await create(model="b", messages=sent, max_tokens=50)
    assert str(answer.choices[0].message.content).endswith("who am I?")
    body = caller.world.llm.bodies[-1]
    assert body["model"] == "model-b"
    assert not body.get("tools")
    assert [one["content"] for one in body["messages"] if one["role"] != "system"] == [
        "I am Ann",
        "Hello Ann",
        "who am I?",
    ]
    assert "Answer in one word." in json.dumps([one for one in body["messages"] if one["role"] == "system"])
    await create(model="tieline", messages=said("do you know me?"))
    assert "Ann" not in json.dumps(caller.world.llm.bodies[-1]["messages"]), "nothing is kept"
    stream = await create(model="tieline", messages=said("grow"), stream=True)
    text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])
    assert text.endswith("grow")
    once = create(model="tieline", messages=HELLO, extra_headers={"Idempotency-Key": "x"})
    assert await refused(once) == (400, "conversation_required")
    await caller.world.services.ledger.flush()
    usage = await caller.operations["usage"]({"group": "person"})
    assert "api:crm" in json.dumps(usage), "it is paid for by the key"


@pytest.mark.requirement("G-120")
async def test_budgets_hold_for_calls_without_a_conversation(world_of: Any) -> None:
    config = '[spending]\nunpriced = "allow"\n[[spending.limits]]\nscope = "person"\ntokens = 1000\n'
    world = world_of(accounts=("telegram", "api"), config=config)
    async with world.process(), serving(world) as there:
        client = there.client(await there.key())
        create = client.chat.completions.create
        status, code = await refused(create(model="tieline", messages=said("x " * 4000)))
        assert (status, code) == (429, "budget_exceeded")
        assert not world.llm.calls


@pytest.mark.slow  # it is asked again with growing waits
async def test_a_model_that_fails_is_an_error_and_no_answer(caller: Caller) -> None:
    client = caller.client(await caller.key())
    for _ in range(20):
        caller.world.llm.fails(status=400)
    status, code = await refused(client.chat.completions.create(model="tieline", user="anna", messages=HELLO))
    assert (status, code) == (502, "turn_failed")
    status, _ = await refused(client.chat.completions.create(model="tieline", messages=HELLO))
    assert status in (502, 503)


async def test_the_trace_of_a_program_goes_on_in_its_turn(caller: Caller) -> None:
    client = caller.client(await caller.key())
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    await client.chat.completions.create(
        model="tieline", user="anna", messages=HELLO, extra_headers={"traceparent": trace}
    )
    [began] = [event for event in caller.world.events if isinstance(event, LoopStarted)]
    assert began.traceparent == trace


async def test_a_turn_goes_on_without_the_program_that_asked(caller: Caller) -> None:
    client = caller.client(await caller.key())
    caller.world.script(slowly("long", "done at last"))
    with anyio.move_on_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_ask, client)
            await caller.world.until_asked()
            tasks.cancel_scope.cancel()
    caller.world.go_on("long")
    await caller.world.settled()
    answer = await client.chat.completions.create(
        model="tieline", user="anna", messages=said("a long one"), extra_headers={"Idempotency-Key": "l"}
    )
    assert answer.choices[0].message.content == "done at last"
    assert len(caller.world.llm.calls) == 1


async def _ask(client: openai.AsyncOpenAI) -> None:
    await client.chat.completions.create(
        model="tieline", user="anna", messages=said("a long one"), extra_headers={"Idempotency-Key": "l"}
    )


async def test_nobody_listens_once_the_answers_are_there(caller: Caller) -> None:
    """Else each request would make every later turn a little dearer."""
    client = caller.client(await caller.key())
    listeners = caller.world.bus._listeners  # noqa: SLF001 - they are asked for nowhere else
    before = len(listeners)
    for number in range(3):
        await client.chat.completions.create(model="tieline", user="anna", messages=said(f"hello {number}"))
        stream = await client.chat.completions.create(
            model="tieline", user="anna", stream=True, messages=said(f"again {number}")
        )
        async for _ in stream:
            pass
    await until(lambda: len(listeners) == before)


async def test_an_answer_is_found_by_an_index_however_much_was_said_before(caller: Caller) -> None:
    """The look of a waiting request, once a second, may not read the whole outbox."""
    query = "explain query plan " + str(_SAID._statement)  # noqa: SLF001 - the statement itself

    def plan(conn: Connection) -> str:
        given = {"conversation": "api:crm:anna", "after": 7, "row": 8}
        return " ".join(str(row.detail) for row in conn.execute(text(query), given))

    found = await caller.world.database.read(plan)
    assert "USING INDEX ix_outbox_conv (conv=? AND id>?)" in found, found
