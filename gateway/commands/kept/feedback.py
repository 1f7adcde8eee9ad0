"""/feedback: a person's word on the last answer, for the operator and for learning about skills."""

from dataclasses import dataclass

from agent.core.clock import Clock
from agent.skills.learning import Learning
from agent.storage import feedback_rows
from agent.storage.database import Database
from agent.storage.feedback_rows import LONGEST_TEXT, Feedback
from agent.storage.timestamps import to_timestamp
from gateway.commands.command import Call, Command, Reply

UP = frozenset({"up", "+", "👍", "good", "gut", "hoch"})
DOWN = frozenset({"down", "-", "👎", "bad", "schlecht", "runter"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedbackCommandDeps:
    """The votes, and the learning that hears them."""

    clock: Clock
    database: Database
    learning: Learning


async def feedback(call: Call[FeedbackCommandDeps]) -> Reply:
    """Keeps it with the last answer here; said again, the newer word counts."""
    phrase, language, person = call.phrase, call.incoming.language, call.incoming.person
    word, _, text = call.args.strip().partition(" ")
    rating = word.lower()
    if person is None or rating not in UP | DOWN:
        conversation = call.agent.conversation
        ups, downs = await call.deps.database.read(lambda conn: feedback_rows.counts(conn, conversation))
        return Reply(text=phrase("feedback_usage", language, ups=ups, downs=downs), private=True)
    rated = await call.agent.rated()
    if rated is None:
        return Reply(text=phrase("feedback_nothing", language), private=True)
    session, run = rated
    one = Feedback(
        conversation=call.agent.conversation,
        session=session,
        inbox_id=run,
        person=person,
        up=rating in UP,
        text=text.strip()[:LONGEST_TEXT],
        at=to_timestamp(call.deps.clock.now()),
    )
    await call.deps.database.write(lambda conn: feedback_rows.put(conn, one))
    call.deps.learning.rate(call.agent.conversation, person, up=one.up)
    return Reply(text=phrase("feedback_kept", language), private=True)


FEEDBACK = Command(
    name="feedback",
    deps=FeedbackCommandDeps,
    choices=("up", "down"),
    run=feedback,
    group="chat",
    usage="up|down [text]",
    immediate=True,
)
