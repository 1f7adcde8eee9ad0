"""Messages around a message help to find it, and are erased with it. Both databases."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
from sqlalchemy import Connection, insert, select, text, update

from agent.compaction.settings import MemorySettings
from agent.core.clock import SystemClock
from agent.core.ids import ConversationId, CostAttribution, PersonId, SessionId
from agent.core.messages import text_message
from agent.memory import index, rows
from agent.memory.backlog import Backlog
from agent.memory.index import MOST_HOLDERS
from agent.memory.lexicon import kept_of
from agent.memory.memory import Memory
from agent.memory.recall_block import FRAME, block_for
from agent.memory.records import Scope
from agent.memory.rows import follow
from agent.memory.settings import RecallSettings
from agent.sessions import store
from agent.sessions.store import Stored
from agent.storage.database import Database
from agent.storage.tables import memory, memory_unindexed
from agent.storage.timestamps import to_timestamp
from tests.fakes.clock import FakeClock

GROUP = ConversationId("telegram:-5")
ANN, BEN = PersonId("telegram:77"), PersonId("telegram:78")
NAMES = {ANN: "Ann", BEN: "Ben"}
BILL = CostAttribution(purpose="turn", conversation=GROUP)


@dataclass
class Chat:
    """A memory of one place in which people talk."""

    database: Database
    clock: FakeClock
    settings: MemorySettings = field(default_factory=MemorySettings)
    runs: int = 0

    def __post_init__(self) -> None:
        self.memory = Memory(self.database, self.clock, settings=lambda: self.settings)

    def scope(self, *, place: ConversationId = GROUP, session: str | None = None) -> Scope:
        return self.memory.scope(place, "group", None, session=SessionId(session) if session else None)

    async def say(
        self, *lines: str, session: str = "s1", place: ConversationId = GROUP, by: PersonId = ANN
    ) -> list[int]:
        """Each line a run of its own, as turns keep them; their ids in the transcript."""
        ids = []
        for line in lines:
            self.runs += 1

            def work(conn: Connection, line: str = line, run: int = self.runs) -> int:
                at = to_timestamp(self.clock.now())
                store.open_session(conn, SessionId(session), place, title=line, at=at)
                said = text_message("user", line, created_at=self.clock.now())
                stored = Stored(message=said, inbox_id=run, position=0, person=by)
                id = store.append(conn, SessionId(session), place, stored, at=at)
                assert id is not None
                kept = kept_of(line, person=by, speaker=NAMES[by], session=session, message_id=id, inbox_id=run)
                rows.keep(conn, self.scope(place=place), kept, self.memory.lexicon, at=at)
                return id

            ids.append(await self.database.write(work))
        return ids

    async def found(self, question: str, *, exact: bool = False, **more: str) -> Sequence[str]:
        scope, terms = self.scope(**more), self.memory.lexicon.terms(question)  # type: ignore[arg-type]
        items = await self.database.read(
            lambda conn: index.search(conn, scope, terms, kinds=("fact", "said"), most=20, exact=exact)
        )
        return [item.text for item in items]

    async def block(self, question: str, **more: str) -> str:
        scope = self.scope(**more)  # type: ignore[arg-type]
        return await block_for(question, scope, self.memory, self.settings.recall, attribution=BILL, begins=False)


ANSWERED = ("Did you finish the painting of the lighthouse?", "Yes, last Tuesday!")


async def test_an_answer_is_found_by_the_question_before_it(database: Database, clock: FakeClock) -> None:
    chat = Chat(database, clock)
    await chat.say("The ferry was late again.", "Bread is in the oven.", "It rains.", *ANSWERED)
    assert set(ANSWERED) <= set(await chat.found("when was the lighthouse painted"))
    assert await chat.found("lighthouse") == [
        *ANSWERED,
        "It rains.",
        "Bread is in the oven.",
        "The ferry was late again.",
    ]
    assert await chat.found("lighthouse", exact=True) == [ANSWERED[0]], "what holds the word itself"


async def test_what_holds_more_of_the_question_in_its_surroundings_comes_first(
    database: Database, clock: FakeClock
) -> None:
    chat = Chat(database, clock)
    await chat.say("We talked of the harbour.", "The key hangs on the left.", session="s1")
    await chat.say("The harbour was closed.", "Nobody came.", session="s2")
    await chat.say("A key was lost.", "Never mind.", session="s3")
    assert (await chat.found("the key of the harbour"))[0] == "The key hangs on the left."


async def test_a_neighbour_is_of_the_same_session(database: Database, clock: FakeClock) -> None:
    chat = Chat(database, clock)
    await chat.say(ANSWERED[0], session="s1")
    await chat.say("Quite another matter of boats.", session="s2")
    assert await chat.found("lighthouse") == [ANSWERED[0]]


@pytest.mark.requirement("G-25")
async def test_a_neighbour_of_another_audience_is_never_shown_nor_found(database: Database, clock: FakeClock) -> None:
    chat = Chat(database, clock)
    other = ConversationId("telegram:-6")
    await chat.say("The lighthouse is white.", session="same")
    await chat.say("Our secret is the heron.", session="same", place=other)
    await chat.say("It has a red roof.", session="same")
    assert await chat.found("heron secret") == []
    shown = await chat.block("how is the lighthouse")
    assert "red roof" in shown
    assert "heron" not in shown
    assert await chat.found("lighthouse roof", place=other) == []


async def test_what_is_forgotten_is_not_in_its_neighbours_index(database: Database, clock: FakeClock) -> None:
    chat = Chat(database, clock)
    await chat.say("Good morning to the crew.", "The password is heron.", "Thanks a lot, captain.")
    assert len(await chat.found("heron")) == 3

    def forget(conn: Connection) -> None:
        ids = conn.execute(select(memory.c.id).where(memory.c.text.contains("heron"))).scalars().all()
        rows.remove(conn, ids)

    await database.write(forget)
    assert await chat.found("heron") == []
    assert len(await chat.found("captain")) == 2, "the others are there"


async def test_what_is_taken_back_is_not_in_its_neighbours_index(database: Database, clock: FakeClock) -> None:
    chat = Chat(database, clock)
    ids = await chat.say("Good morning to the crew.", "The password is heron.", "Thanks a lot, captain.")

    def undo(conn: Connection) -> None:
        store.hide_from(conn, SessionId("s1"), ids[1], also_from_people=True)
        index.take_back(conn, SessionId("s1"), ids[1])

    await database.write(undo)
    assert await chat.found("heron password") == []
    assert await chat.found("crew") == ["Good morning to the crew."]


async def test_what_the_window_shows_is_not_found_but_what_left_it_is(database: Database, clock: FakeClock) -> None:
    chat = Chat(database, clock)
    ids = await chat.say("The lighthouse is white.", "It has a red roof.", session="now")
    assert await chat.found("lighthouse", session="now") == []
    hide = text("UPDATE message SET agent_visible = false WHERE id = :id")
    await database.write(lambda conn: conn.execute(hide, {"id": ids[0]}))
    assert await chat.found("lighthouse", session="now") == ["The lighthouse is white."]


async def test_a_place_that_got_a_new_name_keeps_its_index(database: Database, clock: FakeClock) -> None:
    chat = Chat(database, clock)
    new = ConversationId("telegram:-100")
    await chat.say(*ANSWERED)
    await database.write(lambda conn: follow(conn, GROUP, new))
    assert await chat.found("lighthouse") == []
    assert set(await chat.found("lighthouse", place=new)) == set(ANSWERED)


async def test_both_databases_give_the_same_order(database: Database, clock: FakeClock) -> None:
    chat = Chat(database, clock)
    for number in range(30):
        name = f"day{number}"
        await chat.say(f"The ferry number {number} left.", f"{'Heron' if number % 3 else 'Stork'} seen.", session=name)
    assert (await chat.found("which stork was seen from ferry 6"))[:2] == ["The ferry number 6 left.", "Stork seen."]


# The block


async def test_the_block_shows_passages_within_its_limit(database: Database, clock: FakeClock) -> None:
    chat = Chat(database, clock)
    for day in range(10):
        lines = (f"First of day {day}", f"Then about the lighthouse, {'and so on ' * 12}", f"Last of day {day}")
        await chat.say(*lines, session=f"day{day}")
    shown = await chat.block("the lighthouse")
    assert 2_000 < len(shown) <= RecallSettings().max_chars
    assert re.search(r"- \d{4}-\d\d-\d\d, Ann: First.*\n  Ann: Then.*\n  Ann: Last", shown), "in the order of the chat"
    short = replace(chat.settings, recall=RecallSettings(max_chars=600))
    chat.settings = short
    assert len(await chat.block("the lighthouse")) <= 600
    assert FRAME in shown


async def test_what_was_found_is_shown_before_what_stands_beside_it(database: Database, clock: FakeClock) -> None:
    chat = Chat(database, clock, replace(MemorySettings(), recall=RecallSettings(max_chars=700)))
    for day in range(4):
        await chat.say("Nothing else " * 5, f"The lighthouse of day {day}", "Nothing more " * 5, session=f"day{day}")
    shown = await chat.block("the lighthouse")
    assert shown.count("The lighthouse of day") == 4, shown
    assert "Nothing" in shown, "there is room for some of it"


async def test_what_somebody_said_who_is_named_comes_before_what_others_said_of_them(
    database: Database, clock: FakeClock
) -> None:
    chat = Chat(database, clock)
    await chat.say("I painted the lighthouse", session="s1", by=ANN)
    await chat.say("Ann painted a lighthouse", session="s2", by=BEN)
    scope, lexicon = chat.scope(), chat.memory.lexicon
    terms = lexicon.terms("What has Ann painted?")
    found = await database.read(
        lambda conn: index.search(conn, scope, terms, kinds=("said",), most=3, names=lexicon.names)
    )
    assert [item.speaker for item in found] == ["Ann", "Ben"], "not the newest first"


@pytest.mark.parametrize(
    ("question", "shows"),
    [
        pytest.param("Which colour has the roof of the lighthouse?", True, id="about it"),
        pytest.param("What did Ann say?", True, id="names who spoke"),
        pytest.param("Which countries border Paraguay?", False, id="about nothing here"),
        pytest.param("Explain how a roof rack for kayaks is mounted on saloon cars", False, id="one word in common"),
    ],
)
@pytest.mark.requirement("Z-11")
async def test_a_question_about_something_else_gets_no_block(
    database: Database, clock: FakeClock, question: str, shows: bool
) -> None:
    chat = Chat(database, clock)
    for day in range(10):
        await chat.say(f"Nothing new on day {day}.", "Ferries run.", "Bread is out.", session=f"d{day}", by=BEN)
    await chat.say("We painted the lighthouse.", "The roof is red now.", session="roof")
    assert bool(await chat.block(question)) is shows


# An index of an older version


async def as_before(database: Database) -> None:
    """As the migration leaves what an older version has kept."""

    def work(conn: Connection) -> None:
        conn.execute(update(memory).values(slot=None, words=None))
        conn.execute(text("DELETE FROM memory_session"))
        newest = conn.execute(select(memory.c.id).order_by(memory.c.id.desc()).limit(1)).scalar_one()
        conn.execute(insert(memory_unindexed), {"id": 1, "below": newest + 1})

    await database.write(work)


async def test_what_was_kept_before_gets_its_words_in_steps_while_people_talk(
    database: Database, clock: FakeClock
) -> None:
    chat = Chat(database, clock)
    for number in range(3):
        await chat.say(f"Old talk {number} of the crew.", *ANSWERED, f"Fine {number}, captain.", session=f"s{number}")
    taken_back = await chat.say("The password is heron.", session="s2")
    hide = text("UPDATE message SET user_visible = false WHERE id = :id")
    await database.write(lambda conn: conn.execute(hide, {"id": taken_back[0]}))
    before = await chat.found("lighthouse")
    await as_before(database)
    assert await chat.found("lighthouse") == []
    await chat.say("New talk of the storm.", session="s2")
    assert await chat.found("storm") == ["New talk of the storm."], "recall works meanwhile"

    assert await database.write(lambda conn: index.index_some(conn, chat.memory.lexicon, most=4)) == 4
    assert len(await chat.found("lighthouse")) > 0, "the newest first"
    again = Memory(database, clock, settings=lambda: chat.settings)
    await Backlog(database, again, SystemClock()).run()  # as after a restart
    assert sorted(await chat.found("lighthouse")) == sorted([*before, "New talk of the storm."])
    assert await chat.found("heron") == [], "what was taken back stays so"
    assert "Fine 2, captain." in await chat.found("storm"), "old and new of a session are neighbours"
    assert await database.read(lambda conn: conn.execute(select(memory_unindexed)).all()) == []


# What it costs


async def test_a_question_reads_no_more_in_a_long_history(sqlite_database: Database, clock: FakeClock) -> None:
    chat = Chat(sqlite_database, clock)
    scope, lexicon = chat.scope(), chat.memory.lexicon

    def fill(conn: Connection, first: int, many: int) -> None:
        for number in range(first, first + many):
            kept = kept_of(
                f"The ferry left at {number}", person=ANN, speaker="Ann", session=f"s{number // 20}",
                message_id=number, inbox_id=number,
            )  # fmt: skip
            rows.keep(conn, scope, kept, lexicon, at=number)

    steps = []
    for first, many in ((1, MOST_HOLDERS * 2), (MOST_HOLDERS * 2 + 1, MOST_HOLDERS * 8)):
        await sqlite_database.write(lambda conn, first=first, many=many: fill(conn, first, many))  # type: ignore[misc]
        steps.append(await sqlite_database.read(lambda conn: _steps(conn, chat)))
    assert steps[1] < steps[0] * 1.6, "ten times the history"


def _steps(conn: Connection, chat: Chat) -> int:
    """Steps of SQLite's virtual machine for one search, in thousands."""
    conn.begin()
    raw = conn.connection.driver_connection
    assert raw is not None
    count = [0]

    def tick() -> None:
        count[0] += 1

    raw.set_progress_handler(tick, 10)
    found = index.search(
        conn, chat.scope(), chat.memory.lexicon.terms("when did the ferry leave"), kinds=("said",), most=15
    )
    raw.set_progress_handler(None, 0)
    assert len(found) == 15
    return count[0]
