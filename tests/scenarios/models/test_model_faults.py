"""Every way a model's service can fail, at every place of a tool loop, over both wire formats: the run ends in an
answer or in one sentence, and the conversation goes on."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic import SecretStr
from sqlalchemy import select

from agent.core.clock import SystemClock
from agent.core.ids import ConversationId
from agent.core.messages import ToolResult
from agent.providers.registry import LazyProvider, ProviderDeps
from agent.providers.settings import ProviderSettings
from agent.run.settings import Settings, TimeoutSettings
from agent.storage.database import Database
from agent.storage.inbox_rows import SET_ASIDE
from agent.storage.tables import inbox
from tests.agent.world import World
from tests.fakes.llm_server import LlmServer, serving_llm
from tests.fakes.tools import FakeTool

pytestmark = pytest.mark.asyncio(loop_scope="module")

SHAPES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "openai": ("gpt-double", "/v1", {}),
    "anthropic": ("claude-double", "", {"thinking": 1024}),
}
POSITIONS = range(3)  # of the call that fails: before any tool, after one, after two at once
PATIENT = replace(Settings(), timeouts=TimeoutSettings(no_providers_backoff=0.01))
QUICK = replace(PATIENT, timeouts=replace(PATIENT.timeouts, llm=0.5))  # where silence is the fault
ANSWER = "All of it is done."
FINE = {"text": "Fine."}
_chats = count(1)


def use(text: str) -> dict[str, Any]:
    return {"type": "tool_use", "name": "echo", "input": {"text": text}}


LOOP = (
    {"blocks": [{"type": "thinking", "thinking": "First one."}, {"type": "text", "text": "One."}, use("a")]},
    {"blocks": [{"type": "thinking", "thinking": "Now two."}, use("b"), use("c")]},
    {"text": ANSWER},
)

PASSING: list[dict[str, Any]] = [
    *({"kind": "error", "status": status} for status in (408, 409, 429, 500, 502, 503, 504, 529)),
    {"kind": "drop"},
    *(
        {"kind": kind, "after_tokens": after, **more}
        for after in (0, 2)
        for kind, more in (
            ("truncate", {}),
            ("disconnect", {}),
            ("error_event", {}),
            ("malformed", {}),
            ("stall", {"delay": 5}),
        )
    ),
]
STAYING = (("error", 429, None), ("drop", None, None), ("disconnect", None, 2), ("stall", None, 2))
LASTING = [
    *(fault for fault in PASSING if (fault["kind"], fault.get("status"), fault.get("after_tokens")) in STAYING),
    *({"kind": "error", "status": status} for status in (400, 401, 402, 403, 404, 413, 422)),
    {"kind": "error", "status": 400, "message": "prompt is too long", "code": "context_length_exceeded"},
    {"kind": "error", "status": 429, "code": "insufficient_quota"},
]


def named(fault: dict[str, Any]) -> str:
    return "-".join(str(fault[key]) for key in ("kind", "status", "code", "after_tokens") if key in fault)


def everywhere(faults: list[dict[str, Any]]) -> list[Any]:
    """Each at every position; all but one of these, by turns, wait for `make slow`."""
    return [
        pytest.param(
            fault,
            position,
            id=f"{named(fault)}-at-{position}",
            marks=() if number % len(POSITIONS) == position else (pytest.mark.slow,),
        )
        for number, fault in enumerate(faults)
        for position in POSITIONS
    ]


@dataclass(frozen=True, kw_only=True)
class Place:
    """A model double, and conversations with it over one wire format."""

    server: LlmServer
    provider: LazyProvider
    database: Database
    home: Path

    def conversation(self) -> World:
        self.server.double.faults.clear()
        self.server.double.settings["poison"] = ""
        self.server.double.script = [{"match": {}, "reply": FINE}]
        key = ConversationId(f"telegram:{next(_chats)}")
        return World(self.database, self.home, self.provider, settings=PATIENT, tools=(FakeTool(),), key=key)


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=SHAPES)
async def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, sqlite_template: Path
) -> AsyncIterator[Place]:
    """One for all tests: a model's library takes longer to set up than all the calls of a test."""
    model, path, more = SHAPES[request.param]
    home = tmp_path_factory.mktemp("faults")
    database = await import_module("tests.fakes.databases").open_sqlite(home, sqlite_template)
    async with serving_llm() as server:
        settings = ProviderSettings(
            name="main", type=request.param, model=model, base_url=server.url + path, api_key=SecretStr("k"), **more
        )
        server.double.settings["expose_reasoning"] = True
        server.double.settings["offered_only"] = True
        provider = LazyProvider(settings, ProviderDeps(home=home, clock=SystemClock()))
        found = Place(server=server, provider=provider, database=database, home=home)
        warming = found.conversation()
        warming.settings = Settings()
        assert await warming.say("warm up") == ["Fine."]
        yield found
        await provider.aclose()
    await database.aclose()


async def asked(world: World, server: LlmServer, position: int, fault: dict[str, Any]) -> list[str]:
    """The replies to a person whose model meets this fault at that call of its loop."""
    server.calls.clear()
    server.double.script = [
        {"match": {"contains": "do it", "turn": turn}, "reply": reply} for turn, reply in enumerate(LOOP)
    ] + [{"match": {}, "reply": FINE}]
    server.double.faults[:] = [{"skip": position, **fault}]
    world.settings = QUICK if fault["kind"] == "stall" else PATIENT
    return await world.say("do it")


async def goes_on(world: World, server: LlmServer) -> None:
    """The next message is answered, and the double (which looks at every pair of call and result) refused nothing."""
    server.double.faults.clear()
    world.settings = PATIENT
    assert await world.say("and now?") == ["Fine."]
    refused = [call["error"] for call in server.calls if "error" in call and call["fault"] is None]
    assert refused == []


@pytest.mark.requirement("W-41", "W-42", "B-32", "Z-33", "W-39", "Z-80", "Z-82")
@pytest.mark.parametrize(("fault", "position"), everywhere(PASSING))
async def test_what_passes_is_not_noticed_wherever_it_happens(
    place: Place, fault: dict[str, Any], position: int
) -> None:
    conversation, server = place.conversation(), place.server
    assert await asked(conversation, server, position, fault) == [f"One.\n\n{ANSWER}"]
    messages = [stored.message for stored in await conversation.transcript()]
    results = [part for message in messages for part in message.tool_results]
    assert [result.content for result in results] == ["a", "b", "c"], "each tool ran once"
    await goes_on(conversation, server)


@pytest.mark.requirement("W-43", "B-33", "Z-33", "W-39", "Z-80", "Z-82")
@pytest.mark.parametrize(("fault", "position"), everywhere(LASTING))
async def test_what_stays_ends_in_one_sentence_and_the_conversation_goes_on(
    place: Place, fault: dict[str, Any], position: int
) -> None:
    conversation, server = place.conversation(), place.server
    got = await asked(conversation, server, position, {**fault, "times": 99})
    assert got[-1].rstrip().endswith((".", "message.")), got
    assert len(got) == (1 if position == 0 and len(got) == 1 else 2), got
    assert len(got[-1]) < 200
    assert len(server.calls) <= position + 4, "bounded"
    open_uses = await unanswered(conversation)
    assert open_uses == set()
    await goes_on(conversation, server)


async def unanswered(world: World) -> set[str]:
    """Calls in the transcript that have no result."""
    messages = [stored.message for stored in await world.transcript()]
    uses = {call.id for message in messages for call in message.tool_uses}
    return uses - {part.tool_use_id for message in messages for part in message.parts if isinstance(part, ToolResult)}


class TestHealing:
    """A history that the provider refuses."""

    SET_ASIDE = "The model service no longer took {} earlier messages of this conversation."

    @pytest.mark.requirement("W-39", "Z-82", "B-89")
    async def test_a_poisoned_exchange_is_set_aside_once_and_told(self, place: Place) -> None:
        conversation, server = place.conversation(), place.server
        assert await conversation.say("good start") == ["Fine."]
        server.double.settings["poison"] = "POISON"
        (refused,) = await conversation.say("this holds POISON, sadly")
        assert "refused the request" in refused
        before = len(server.calls)
        answer, told = await conversation.say("still there?")
        assert answer == "Fine."
        assert told.startswith(self.SET_ASIDE.format(1))
        assert len(server.calls) - before == 3, "as it was, read anew, without the exchange"
        assert "good start" in str(server.bodies[-1]), "what was accepted before is kept"
        before = len(server.calls)
        assert await conversation.say("and now?") == ["Fine."]
        await conversation.restart()
        assert await conversation.say("and after a restart?") == ["Fine."]
        assert len(server.calls) - before == 2, "never again"
        texts = [text for _, text in await conversation.texts()]
        assert "this holds POISON, sadly" in texts, "the transcript keeps what people said"
        found = select(inbox.c.note).where(inbox.c.conv == conversation.key, inbox.c.note.is_not(None))
        notes = await conversation.database.read(lambda conn: list(conn.execute(found).scalars()))
        assert notes[1:] == [f"{SET_ASIDE}: 1 messages"], "once, where the operator's doctor looks for it"

    async def test_what_was_accepted_once_and_is_not_any_more_goes_as_well(self, place: Place) -> None:
        """A stricter model, a withdrawn feature: nobody can tell which message it is."""
        conversation, server = place.conversation(), place.server
        await conversation.say("POISON it was not yet")
        await conversation.say("something else")
        server.double.settings["poison"] = "POISON"
        answer, told = await conversation.say("hello?")
        assert (answer, told.startswith(self.SET_ASIDE.format(4))) == ("Fine.", True)
        assert await conversation.say("again") == ["Fine."]

    async def test_a_poisoned_tool_result_does_not_stop_the_next_message(self, place: Place) -> None:
        conversation, server = place.conversation(), place.server
        await conversation.say("good start")
        server.double.settings["poison"] = "POISON"
        server.double.script.insert(
            0, {"match": {"contains": "use it", "tool_result": False}, "times": 1, "reply": {"blocks": [use("POISON")]}}
        )
        (refused,) = await conversation.say("use it")
        assert "refused the request" in refused
        answer, told = await conversation.say("next")
        assert (answer, told.startswith(self.SET_ASIDE.format(3))) == ("Fine.", True)
        assert await conversation.say("again") == ["Fine."]

    async def test_what_is_recalled_of_another_conversation_is_done_without(self, place: Place) -> None:
        earlier = place.conversation()
        await earlier.say("POISON it was not in Gdańsk")
        conversation, server = place.conversation(), place.server
        server.double.settings["poison"] = "POISON"
        before = len(server.calls)
        assert await conversation.say("what was it in Gdańsk?") == ["Fine."]
        asked = [str(body["messages"]) for body in server.bodies[before:]]
        assert ["POISON" in messages for messages in asked] == [True, False]

    async def test_a_refusal_that_the_history_is_not_to_blame_for_costs_no_history(self, place: Place) -> None:
        conversation, server = place.conversation(), place.server
        await conversation.say("remember me")
        for _ in range(3):
            server.fails(kind="error", status=400, message="max_tokens: too large", times=99)
            before = len(server.calls)
            (refused,) = await conversation.say("hello?")
            assert "refused the request" in refused
            assert len(server.calls) - before <= 4, "bounded"
            server.double.faults.clear()
        assert await conversation.say("now?") == ["Fine."]
        assert "remember me" in str(server.bodies[-1])
        assert all(stored.message.agent_visible for stored in await conversation.transcript())

    async def test_a_history_that_a_server_wants_in_turn_is_sent_so_and_kept(self, place: Place) -> None:
        """A message that was never answered leaves two of one person in a row, as a compaction does."""
        conversation, server = place.conversation(), place.server
        await conversation.say("remember me")
        server.fails(kind="error", status=401, times=99)
        await conversation.say("nobody answers this")
        server.double.faults.clear()
        server.double.settings["strict_alternation"] = True
        try:
            assert await conversation.say("hello?") == ["Fine."]
            assert await conversation.say("again") == ["Fine."]
        finally:
            server.double.settings["strict_alternation"] = False
        assert "remember me" in str(server.bodies[-1])
        assert all(stored.message.agent_visible for stored in await conversation.transcript())

    @pytest.mark.parametrize("fault", [{"kind": "error", "status": 401}, {"kind": "drop"}], ids=named)
    async def test_what_fails_for_another_reason_proves_nothing(self, place: Place, fault: dict[str, Any]) -> None:
        """Read anew it was refused; without its history the service is away."""
        conversation, server = place.conversation(), place.server
        await conversation.say("remember me")
        server.fails(kind="error", status=400, message="messages.3: no", times=2)
        server.fails(**fault, times=99)
        (told,) = await conversation.say("hello?")
        assert "set them aside" not in told
        server.double.faults.clear()
        assert await conversation.say("now?") == ["Fine."]
        assert "remember me" in str(server.bodies[-1])
        assert all(stored.message.agent_visible for stored in await conversation.transcript())

    async def test_a_refusal_that_passes_costs_nothing(self, place: Place) -> None:
        conversation, server = place.conversation(), place.server
        await conversation.say("remember me")
        server.fails(kind="error", status=400)
        assert await conversation.say("hello?") == ["Fine."]
        assert "remember me" in str(server.bodies[-1])
