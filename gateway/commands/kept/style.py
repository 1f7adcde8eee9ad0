"""Style of a person: /style shows it, forgets it, and switches it off for that person everywhere."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.ids import PersonId
from agent.memory import rows
from agent.memory.memory import Memory
from agent.memory.records import Scope
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from agent.style import user_model as people
from agent.style.detector import ENOUGH, Style, StyleDetector, line_of
from agent.style.user_model import UserModel
from gateway.commands.command import Call, Command, Reply

log = logging.getLogger("tieline.commands")
VERBS = ("", "show", "reset", "off", "on")


@dataclass(frozen=True, slots=True, kw_only=True)
class StyleCommandDeps:
    """Notes on how people write."""

    clock: Clock
    database: Database
    memory: Memory
    user_model: Callable[[], UserModel | None]


async def style(call: Call[StyleCommandDeps]) -> Reply:
    """Everybody sees and changes their own alone."""
    phrase, language, person = call.phrase, call.incoming.language, call.incoming.person
    verb = call.args.strip().lower()
    if verb not in VERBS:
        return Reply(text=phrase("style_usage", language, given=verb), private=True)
    if person is None:
        return Reply(text=phrase("style_nobody", language), private=True)
    model = call.deps.user_model()
    if model is None:
        return Reply(text=phrase("style_none", language), private=True)
    if verb in ("", "show"):
        return Reply(text="\n".join(await _shown(call, model, person)), private=True)
    at, accounts = to_timestamp(call.deps.clock.now()), call.deps.memory.accounts(person)

    def change(conn: Connection) -> None:
        for account in accounts:
            if verb == "reset":
                people.reset(conn, account)
            else:
                people.set_adapt(conn, account, adapt=verb == "on", at=at)

    await call.deps.database.write(change)
    return Reply(text=phrase(f"style_{verb}", language), private=True)


async def style_of(call: Call[StyleCommandDeps]) -> StyleDetector:
    """Notes on how the caller writes here; empty where there are none."""
    scope = call.deps.memory.scope(call.agent.conversation, call.incoming.chat_type, call.incoming.person)
    return await style_in(call.deps, scope)


async def style_in(deps: StyleCommandDeps, scope: Scope) -> StyleDetector:
    """Notes on how the person of the scope writes there; empty where there are none."""
    model = deps.user_model()
    if model is None or scope.person is None:
        return StyleDetector()
    here, *others = scope.by_account

    def read(conn: Connection) -> StyleDetector:
        return model.brief(conn, *here).filled_up([model.brief(conn, *other) for other in others])

    try:
        return await deps.database.read(read)
    except ValueError as error:  # what is kept cannot be read: the next message begins it anew
        log.warning("the style of %s cannot be read: %s", scope.person, error)
        return StyleDetector()


async def _shown(call: Call[StyleCommandDeps], model: UserModel, person: PersonId) -> Sequence[str]:
    phrase, language, conversation = call.phrase, call.incoming.language, call.agent.conversation
    accounts = call.deps.memory.accounts(person)

    def read(conn: Connection) -> tuple[bool, bool]:
        return people.adapts(conn, model, accounts), rows.is_off(conn, conversation)

    adapt, off = await call.deps.database.read(read)
    if not adapt:
        return (phrase("style_is_off", language),)
    detector = await style_of(call)
    count = len(detector.window)
    lines = [phrase("style_title", language, count=count), ""]
    lines += [
        phrase("style_number", language, what=phrase(f"style_{name}", language), value=f"{value:.2f}")
        for name, value in numbers_of(detector.style)
    ]
    if off:
        told = phrase("memory_is_off", language)
    elif count < ENOUGH:
        told = phrase("style_too_few", language, enough=ENOUGH)
    elif line := line_of(detector):
        told = phrase("style_told", language, line=line)
    else:
        told = phrase("style_plain", language)
    return (*lines, "", told, phrase("style_hint", language))


def numbers_of(style: Style) -> Sequence[tuple[str, float]]:
    """The four numbers by name, as they are shown."""
    return (
        ("formality", style.formality),
        ("energy", style.energy),
        ("terseness", style.terseness),
        ("emoji_use", style.emoji_use),
    )


STYLE = Command(
    name="style",
    deps=StyleCommandDeps,
    choices=("reset", "off", "on"),
    feature="memory.style",
    run=style,
    group="chat",
    usage="[reset | off | on]",
)
