"""/recap /delete /new --keep-plan: what a conversation has come to, its end, and what goes along to the next."""

from functools import partial

from sqlalchemy import Connection
from sqlalchemy import text as sql

from gateway.channels.document import List
from tests.fakes.waiting import until
from tests.gateway.world import BOB, GROUP, World, calling

RECAPS = {"system_contains": "what a conversation between people"}


def recapped(text: str = "- plovers were counted") -> dict[str, object]:
    return {"match": RECAPS, "reply": {"text": text}}


async def stored(world: World) -> str:
    """All that the database holds of what was said and sent."""
    tables = ("message", "passage", "memory", "inbox", "outbox", "session", "tool_call", "usage")
    found: list[str] = []

    def read(conn: Connection, table: str) -> list[str]:
        return [str(row) for row in conn.execute(sql(f"SELECT * FROM {table}"))]

    for table in tables:
        found += await world.database.read(partial(read, table=table))
    return "\n".join(found)


async def test_the_model_tells_what_the_conversation_has_come_to(world: World) -> None:
    assert await world.asks("/recap") == "There is nothing to tell of yet."
    world.script(recapped())
    await world.answered("we counted forty plovers")
    told = await world.asks("/recap", "come to")
    shown = next(shown for shown in world.screen().shown if "come to" in shown.text)
    assert isinstance(shown.message.document[1], List), "it is formatted"
    assert "**" not in told
    assert "plovers were counted" in told
    asked = str(world.llm.bodies[-1]["messages"])
    assert "forty plovers" in asked
    assert "tools" not in world.llm.bodies[-1], "a question of its own"
    await world.services.ledger.flush()
    (row,) = await world.database.read(
        lambda conn: conn.execute(sql("SELECT person, conv FROM usage WHERE purpose = 'recap'")).all()
    )
    assert tuple(row) == ("telegram:77", "telegram:77"), "who asked for it pays for it"
    await world.answered("and now?")
    assert "plovers were counted" not in str(world.llm.bodies[-1]["messages"]), "it is no part of the conversation"


async def test_without_a_model_the_stored_summary_is_told(world: World) -> None:
    await world.answered("we counted forty plovers")
    await world.database.write(
        lambda conn: conn.execute(sql("UPDATE session SET summary = 'Goal: *count* [plovers](https://x.example)'"))
    )
    world.script({"match": RECAPS, "reply": {"text": ""}})
    told = await world.asks("/recap", "No model answers now")
    assert "Goal: *count* [plovers](https://x.example)" in told, "words of others, as they are"
    assert "**" not in told
    await world.database.write(lambda conn: conn.execute(sql("UPDATE session SET summary = NULL")))
    world.script({"match": RECAPS, "reply": {"error": {"status": 400, "message": "tokens_per_hour of pool 7"}}})
    failed = await world.asks("/recap", "The model did not answer")
    assert "try /recap again in a few minutes, or read back with /export" in failed
    assert "pool" not in failed, "what a service said is the operator's"


async def test_delete_erases_this_conversation_alone_and_closes_it(world: World) -> None:
    assert "no conversation to delete" in await world.asks("/delete")
    await world.answered("the heron stays")
    await world.asks("/memory add herons are grey", "Kept")
    await world.asks("/new", "kept")
    world.script(recapped("the plover again"), *calling("count the plovers", "calculate", expression="40 + 2"))
    await world.answered("count the plovers", "Done")
    await world.asks("/recap", "the plover again")
    await world.asks("/memory add plovers are brown", "Kept")
    await world.say("/delete")
    assert "Erase this conversation (4 messages) for good" in await world.shows("Erase this conversation")
    await world.say("no")
    await world.shows("Nothing was erased")
    assert "count the plovers" in await stored(world)
    await world.say("/delete")
    await until(lambda: sum("Erase this conversation" in text for text in world.texts()) == 2)
    await world.say("yes")
    assert "Erased: 4 messages" in await world.shows("Erased:")
    await world.settled()
    left = await stored(world)
    assert "count the plovers" not in left
    assert "the plover again" not in left, "nor in answers to commands that quote it"
    assert "40 + 2" not in left
    assert "the heron stays" in left
    assert "plovers are brown" in left, "facts stay"
    await world.answered("and now?")
    assert "count the plovers" not in str(world.llm.bodies[-1]["messages"])
    listed = await world.asks("/sessions", "Conversations")
    assert "[forgotten]" in listed
    assert "the heron stays" in listed


async def test_in_a_group_delete_is_for_admins(world: World) -> None:
    await world.answered("plover", chat=GROUP)
    assert "for admins of this bot" in await world.asks("/delete", chat=GROUP, person=BOB)
    await world.say("/delete", chat=GROUP)
    await world.shows("for everybody here", GROUP)
    await world.say("yes", chat=GROUP)
    await world.shows("Erased: 2 messages", GROUP)
    await world.settled()
    assert "plover" not in await stored(world)


async def test_tasks_that_are_not_done_go_along_where_asked(world: World) -> None:
    world.script(
        *calling("plan it", "task_create", description="count plovers"),
        *calling("and that", "task_create", description="count herons", status="completed"),
    )
    await world.answered("plan it", "Done")
    await world.answered("and that", "Done")
    assert "I do not know --no-digest here" in await world.asks("/new --no-digest")
    assert "count plovers" in await world.asks("/tasks"), "nothing has happened"
    assert "Tasks that go along: 1" in await world.asks("/new --keep-plan")
    told = await world.asks("/tasks", "count plovers")
    assert "count herons" not in told
    await world.answered("hello")
    assert "count plovers" in await world.asks("/tasks")
    await world.asks("/new", "The earlier one is kept")
    await world.answered("hello again")
    assert "count plovers" not in await world.asks("/tasks")


async def test_a_phone_that_makes_one_dash_of_two_is_understood(world: World) -> None:
    assert "Tasks that go along: 0" in await world.asks("/new —keep-plan")
