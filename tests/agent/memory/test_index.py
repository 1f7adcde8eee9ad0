"""Cost of a search for words: none where nothing matches, however many texts share a single word."""

import pytest
from sqlalchemy import Connection

from agent.core.ids import ConversationId, PersonId
from agent.memory import index, rows
from agent.memory.lexicon import Lexicon
from agent.memory.records import Kept, Kind, Scope, audience_of_person
from agent.storage.database import Database

ANN = PersonId("telegram:77")
OWN = audience_of_person(ANN)
SCOPE = Scope(conversation=ConversationId("telegram:77"), own=OWN, visible=(OWN,), person=ANN)
LEXICON = Lexicon()
QUESTION = LEXICON.terms("question")
CODE = Kept(kind="code", text="question = 42", source="chat", person=ANN, message_id=1_000)


def filled(conn: Connection) -> None:
    said = [Kept(kind="said", text=f"question {n}", source="chat", person=ANN, message_id=n) for n in range(1, 600)]
    rows.keep(conn, SCOPE, said, LEXICON, at=1)


@pytest.mark.parametrize(("kinds", "looks"), [(("code",), False), (("said",), True), (("fact", "said"), True)])
async def test_the_words_are_looked_up_only_where_something_of_the_kind_is_kept(
    sqlite_database: Database, kinds: tuple[Kind, ...], looks: bool
) -> None:
    await sqlite_database.write(filled)
    asked: list[str] = []

    def work(conn: Connection) -> int:
        conn.begin()
        raw = conn.connection.driver_connection
        assert raw is not None
        raw.set_trace_callback(asked.append)
        found = index.search(conn, SCOPE, QUESTION, kinds=kinds, most=40)
        raw.set_trace_callback(None)
        return len(found)

    assert await sqlite_database.read(work) == (40 if looks else 0)
    assert any("MATCH" in statement for statement in asked) is looks


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        pytest.param("question zebra crossing yesterday", False, id="one common word of many"),
        pytest.param("question 500", True, id="a rare word is known"),
        pytest.param("question zebra crossing yesterday Bob", True, id="somebody is named who has spoken"),
    ],
)
async def test_what_nobody_asked_for_is_read_only_where_it_can_be_sure(
    database: Database, asked: str, shown: bool
) -> None:
    bob = Kept(kind="said", text="question of mine", source="chat", person=ANN, speaker="Bob", message_id=900)
    await database.write(filled)
    await database.write(lambda conn: rows.keep(conn, SCOPE, [bob], LEXICON, at=1))
    terms = LEXICON.terms(asked)

    def work(conn: Connection) -> bool:
        return bool(
            index.search(conn, SCOPE, terms, kinds=("fact", "said"), most=40, names=LEXICON.names, only_sure=True)
        )

    assert await database.read(work) is shown


@pytest.mark.parametrize(("words", "reads"), [("question zebra crossing", False), ("question 500", True)])
async def test_candidates_are_weighed_only_where_one_can_be_shown(
    sqlite_database: Database, words: str, reads: bool
) -> None:
    await sqlite_database.write(filled)
    asked: list[str] = []

    def work(conn: Connection) -> None:
        conn.begin()
        raw = conn.connection.driver_connection
        assert raw is not None
        raw.set_trace_callback(asked.append)
        index.search(conn, SCOPE, LEXICON.terms(words), kinds=("said",), most=40, names=LEXICON.names, only_sure=True)
        raw.set_trace_callback(None)

    await sqlite_database.read(work)
    assert any(statement.startswith("SELECT memory.id") for statement in asked) is reads


async def test_what_there_is_of_a_kind_is_found_among_much_else(database: Database) -> None:
    await database.write(filled)
    await database.write(lambda conn: rows.keep(conn, SCOPE, [CODE], LEXICON, at=1))
    found = await database.read(lambda conn: index.search(conn, SCOPE, QUESTION, kinds=("code",), most=40))
    assert [item.text for item in found] == [CODE.text]
