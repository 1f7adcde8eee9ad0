"""Context that is not ready in time: the turn of the running gateway goes on with what it had before."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agent.core.events import ContextDegraded
from agent.core.ids import ConversationId
from agent.memory.notes import path_of
from tests.fakes.llm_server import LlmServer
from tests.gateway.world import BOB
from tests.live.scenes import CHAT, WorldOf, happened, model, turns_of, write_agent

PLAIN = "[skills]\nenabled = false\n"
SOON_S = 1.0


@contextmanager
def unanswered(path: Path) -> Iterator[None]:
    """A pipe in the file's place, as a disk that does not answer: whoever reads it waits until the end of the block."""
    path.unlink()
    os.mkfifo(path)
    try:
        yield
    finally:
        with suppress(OSError):  # nobody reads it any more
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        path.unlink()


@pytest.mark.requirement("Z-23", "Z-24")
async def test_notes_that_cannot_be_read_in_time_cost_the_news_and_not_what_was_read_before(
    world_of: WorldOf, llm: LlmServer, tmp_path: Path
) -> None:
    write_agent(tmp_path)
    patient = PLAIN + model(llm)
    made = world_of(config=patient, providers=())
    assert made.settings().timeouts.context_prep == 30, "what is shipped"
    notes = path_of(tmp_path, ConversationId(CHAT))
    notes.parent.mkdir(parents=True)
    notes.write_text("The gate opens with 4711.\n")
    async with made.process() as world:
        await world.answered("remember the heron")
        assert not happened(world, ContextDegraded)
        world.config = f"{PLAIN}[timeouts]\ncontext_prep = {SOON_S}\n{model(llm)}"
        world.reload()
        with unanswered(notes):
            await world.answered("and the plover")
            (late,) = happened(world, ContextDegraded)
            assert late.after_s == SOON_S
            request = turns_of(world)[-1]["messages"]
            assert [one["role"] for one in request] == ["system", "user", "assistant", "user"]
            assert "remember the heron" in str(request[1]), "the history as it was"
            assert "and the plover" in str(request[3])
            assert "opens with 4711" in str(request), "and the notes"
            await world.answered("and I", person=BOB)
            assert len(happened(world, ContextDegraded)) == 1, "nobody else waits for this chat's disk"
        notes.write_text("The gate opens with 4712.\n")
        world.config = patient
        world.reload()
        await world.answered("and the crane")
        assert len(happened(world, ContextDegraded)) == 1
        request = turns_of(world)[-1]["messages"]
        assert "opens with 4712" in str(request)
        assert "and the plover" in str(request[3]), "the turn that went on without is remembered like any other"
        assert request[4]["role"] == "assistant"
