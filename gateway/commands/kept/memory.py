"""The memory of a place: /memory (list, search, add, forget, notes, export, off, on) and /graph.

Everything is of the place where the command is given: a person's own in a direct chat, the group's in a group.
"""

import json
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import anyio
from anyio import to_thread
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.files.store import FileStore
from agent.core.ids import ConversationId
from agent.core.outbox import Answer, FileRef, Question
from agent.memory import graph as graph_rows
from agent.memory import index, notes, rows
from agent.memory.erasure import forget, of_others, preview
from agent.memory.lexicon import telling
from agent.memory.memory import EVERYTHING, Memory
from agent.memory.notes import path_of
from agent.memory.records import LONGEST_FACT, Audience, Item, Kept, Scope, reaches_others
from agent.memory.rows import Erased, Target
from agent.run.messages import FOLDER as RECEIVED
from agent.skills.learning import Learning
from agent.skills.signals import Holds
from agent.storage.database import Database
from agent.style.detector import StyleDetector
from agent.tools.files.paths import workspace_of
from agent.tools.output_files import outputs_of
from gateway.access.policy import Role
from gateway.channels.keys import ConversationKey
from gateway.commands.command import Call, Command, Reply, Setting, on_or_off, refused, source_of
from gateway.commands.kept.style import StyleCommandDeps, numbers_of, style_of
from gateway.config.places import text_of

PAGE = 15  # facts of one list
MOST_FOUND = 8
MOST_SHOWN = 200  # characters of one thing
MOST_NOTES = 3_000
MOST_LEFT, LONGEST_PATH = 5, 100  # files that are told of, characters of each
MOST_RELATIONS = 10_000  # of a file
LEAST_WORDS = 3  # characters of what is forgotten by its words


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryCommandDeps:
    """The memory, and the person who is asked before something is deleted."""

    ask: Callable[[ConversationKey, Question, str], Awaitable[Answer]]
    clock: Clock
    database: Database
    home: Path
    files: FileStore
    learning: Learning
    memory: Memory
    style: StyleCommandDeps


async def memory(call: Call[MemoryCommandDeps]) -> Reply:
    """The family's door: the first word says what to do."""
    verb, _, rest = call.args.partition(" ")
    run = VERBS.get(verb.lower() or "list")
    if run is None:
        return Reply(text=call.phrase("memory_usage", call.incoming.language, given=verb), private=True)
    if call.in_group and verb.lower() in FOR_ADMINS and call.role < Role.ADMIN:
        return refused(call, verb.lower())
    if call.role < Role.MEMBER and verb.lower() not in FOR_GUESTS:  # as the tools of the memory have it
        text = call.phrase("command_for_members", call.incoming.language, name=f"{call.name} {verb.lower()}")
        return Reply(text=text, private=True, refused_by=f"/memory {verb.lower()} is for members")
    return await run(call, rest.strip())


def scope_of(call: Call[MemoryCommandDeps]) -> Scope:
    """Without a session: what stands in the window may be looked up as well."""
    incoming = call.incoming
    return call.deps.memory.scope(call.agent.conversation, incoming.chat_type, incoming.person)


async def _list(call: Call[MemoryCommandDeps], rest: str) -> Reply:
    """The facts of this place, the newest first, and how much else is kept."""
    phrase, language, scope = call.phrase, call.incoming.language, scope_of(call)
    page = max(1, int(rest)) if rest.isdecimal() and len(rest) < 6 else 1
    conversation = call.agent.conversation

    def read(conn: Connection) -> tuple[tuple[Item, ...], dict[str, int], bool]:
        facts = rows.facts(conn, scope.theirs, most=PAGE, after=PAGE * (page - 1))
        return facts, dict(rows.counts(conn, scope.theirs)), rows.is_off(conn, conversation)

    facts, counts, off = await call.deps.database.read(read)
    style = await style_of(call.on(call.deps.style))
    lines = [phrase("memory_title_private" if scope.is_private else "memory_title_group", language), ""]
    lines += [_line(call, fact) for fact in facts] or [phrase("memory_no_facts", language)]
    if counts.get("fact", 0) > PAGE * page:
        lines += ["", phrase("memory_more", language, page=page + 1)]
    said = counts.get("said", 0) + counts.get("code", 0)
    lines += ["", phrase("memory_counts", language, facts=counts.get("fact", 0), said=said)]
    if style.window:
        lines.append(phrase("memory_style", language, count=len(style.window)))
    off = off or any(not one.value for one in call.settings.layers(MEMORY_SETTING, call.key))
    if off or not call.deps.memory.settings.recall.enabled:
        lines.append(phrase("memory_is_off", language))
    lines.append(phrase("memory_hint", language))
    return Reply(text="\n".join(lines), private=True)


async def _search(call: Call[MemoryCommandDeps], words: str) -> Reply:
    """Facts and messages that hold the words."""
    phrase, language = call.phrase, call.incoming.language
    if not words:
        return Reply(text=phrase("memory_search_what", language), private=True)
    scope = scope_of(call)
    terms = call.deps.memory.lexicon.terms(words)
    found = await call.deps.database.read(
        lambda conn: index.search(conn, scope, terms, kinds=EVERYTHING, most=MOST_FOUND, exact=True)
    )
    if not found:
        return Reply(text=phrase("memory_nothing_found", language), private=True)
    return Reply(text="\n".join(_line(call, item) for item in found), private=True)


async def _add(call: Call[MemoryCommandDeps], words: str) -> Reply:
    """Keeps a fact in the person's own words."""
    phrase, language, incoming = call.phrase, call.incoming.language, call.incoming
    scope = scope_of(call)
    fact = Kept(
        kind="fact",
        text=" ".join(words.split())[:LONGEST_FACT],
        source="person",
        person=incoming.person,
        speaker="" if scope.is_private else incoming.display,
    )
    id = await call.deps.memory.remember(scope, fact) if words else None
    if id is None:
        return Reply(text=phrase("memory_add_what", language), private=True)
    return Reply(text=phrase("memory_added", language, id=id), private=True)


async def _forget(call: Call[MemoryCommandDeps], what: str) -> Reply:
    """Erases a fact by its number, what holds some words, or all; after a question."""
    phrase, language, deps = call.phrase, call.incoming.language, call.deps
    scope = scope_of(call)
    others_too = reaches_others(call.incoming.chat_type, call.incoming.role)
    number = what.removeprefix("#")
    everything = what.lower() in ("all", "everything", "alles")
    target = Target(
        scope=scope,
        item=int(number) if number.isdecimal() and len(number) < 16 else None,
        words="" if everything or number.isdecimal() else what.strip("\"'“”„ "),
        only_by=None if others_too else call.incoming.person,
    )
    if not what or (not everything and target.item is None and len(target.words) < LEAST_WORDS):
        return Reply(text=phrase("memory_forget_what", language), private=True)
    if not others_too and target.only_by is None:
        return refused(call, "forget")
    there = await preview(deps.memory, target)
    if not there.items and not there.messages and not everything:
        text = await _not_theirs(call, target) or phrase("memory_nothing_found", language)
        return Reply(text=text, private=True)
    if not await _sure(call, target, there):
        return Reply(text=phrase("memory_kept", language), private=True)
    erased = await erase(deps.memory, deps.learning, target, there, home=deps.home, files=deps.files, clock=deps.clock)
    call.agent.memory_changed()
    text = phrase("memory_forgotten", language, items=erased.items, messages=erased.messages)
    if left := erased.left:
        names = ", ".join(map(_shown, left[:MOST_LEFT])) + (", …" if len(left) > MOST_LEFT else "")
        text += "\n\n" + phrase("memory_left", language, count=len(left), names=names)
    return Reply(text=text, private=True)


async def erase(
    memory: Memory, learning: Learning, target: Target, there: Erased, *, home: Path, files: FileStore, clock: Clock
) -> Erased:
    """Forget what `preview` found, and what drafts of skills quote of it. `left` names what could not be removed."""
    if target.item is not None:
        holds: Holds | None = await to_thread.run_sync(learning.quoted_of, there.texts)
    else:
        holds = target.holds if target.words else None
    # Before the messages that tell what drafts quote of them: it can be done again, should this be cut off.
    drafts = await learning.forget(there.conversations, holds, target.only_by)
    erased = await forget(memory, target, home=home, files=files, folders=partial(copies_of, home), clock=clock)
    return replace(erased, left=(*(f"skills/auto/{name}" for name in drafts), *erased.left))


async def _not_theirs(call: Call[MemoryCommandDeps], target: Target) -> str:
    """The sentence that other people's words stay, with their names as far as /memory search shows them; else ""."""
    if target.only_by is None:
        return ""
    phrase, language = call.phrase, call.incoming.language
    found = await of_others(call.deps.memory, target)
    names = dict.fromkeys(item.speaker or phrase("memory_somebody", language) for item in found)
    return phrase("memory_of_others", language, who=", ".join(names)) if names else ""


def _shown(path: str) -> str:
    """A path as code on one line, whatever a command has called its files: the end tells more than the beginning."""
    clean = "".join(sign if sign.isprintable() and sign != "`" else "?" for sign in path)
    return f"`{clean if len(clean) <= LONGEST_PATH else '…' + clean[-LONGEST_PATH:]}`"


def copies_of(home: Path, conversation: ConversationId) -> Sequence[Path]:
    """Where copies of what was said and sent there lie, besides the agent's own work."""
    return outputs_of(home, conversation), workspace_of(home, conversation) / RECEIVED


async def _sure(call: Call[MemoryCommandDeps], target: Target, there: Erased) -> bool:
    """Whether the person wants it gone; what they have told by other accounts goes with it, and they are told so."""
    values = {"items": there.items, "messages": there.messages}
    prompt = call.phrase("memory_question", call.incoming.language, **values)
    others = target.scope.accounts[1:]
    if target.scope.is_private and others and target.item is None:
        names = ", ".join(f"`{one}`" for one in others)
        prompt += "\n\n" + call.phrase("memory_question_linked", call.incoming.language, accounts=names)
    question = Question(
        prompt=prompt,
        asked_of=call.incoming.person,
        interaction=call.incoming.interaction,
        grave=True,
    )
    answer = await call.deps.ask(call.key, question, call.incoming.language)
    return answer.choice == "yes"


async def _notes(call: Call[MemoryCommandDeps], rest: str) -> Reply:
    """MEMORY.md of this conversation as it stands."""
    path = path_of(call.deps.home, call.agent.conversation)
    await call.deps.memory.sync_notes(call.agent.conversation)
    try:
        text = await anyio.to_thread.run_sync(notes.read, path, MOST_NOTES + 1)
    except OSError:
        text = ""
    if not text.strip():
        return Reply(text=call.phrase("memory_no_notes", call.incoming.language), private=True)
    return Reply(text=text if len(text) <= MOST_NOTES else f"{text[:MOST_NOTES]}…", private=True)


async def _export(call: Call[MemoryCommandDeps], rest: str) -> Reply:
    """All that is kept here, as a file of JSON."""
    scope, style = scope_of(call), await style_of(call.on(call.deps.style))
    written = await call.deps.database.read(lambda conn: exported(conn, scope.theirs, style))
    # The name cannot be guessed: files of the data directory are handed out by name.
    path = Path("exports", f"{secrets.token_hex(8)}.json")
    await anyio.to_thread.run_sync(_write, call.deps.home / path, written)
    await call.deps.files.put(str(path), conversation=call.agent.conversation)
    file = FileRef(path=str(path), name="memory.json", mime_type="application/json")
    return Reply(text=call.phrase("memory_exported", call.incoming.language), files=(file,))


def exported(conn: Connection, audiences: Sequence[Audience], style: StyleDetector) -> str:
    """All that these audiences have, as JSON."""
    kept = [
        {
            "id": item.id,
            "kind": item.kind,
            "text": item.text,
            "by": item.person,
            "source": item.source,
            "confidence": item.confidence,
            "at": item.at.isoformat(),
        }
        for item in rows.everything(conn, audiences)
    ]
    edges = [
        {"subject": edge.subject, "relation": edge.word, "object": edge.object, "confidence": edge.confidence}
        for edge in graph_rows.listed(conn, audiences, most=MOST_RELATIONS)
    ]
    yours = dict(numbers_of(style.style)) | {"messages": len(style.window)} if style.window else None
    return json.dumps({"kept": kept, "relations": edges, "your_style": yours}, ensure_ascii=False, indent=1)


async def _off(call: Call[MemoryCommandDeps], rest: str) -> Reply:
    """Nothing is kept or recalled here from now on; what is there stays until it is forgotten."""
    return await _switch(call, "off")


async def _on(call: Call[MemoryCommandDeps], rest: str) -> Reply:
    return await _switch(call, "on")


async def _switch(call: Call[MemoryCommandDeps], written: str | None) -> Reply:
    """Choose it for this place; None: no choice. The memory keeps it too: it asks while it writes."""
    by, phrase, language = str(call.incoming.person), call.phrase, call.incoming.language
    if written is None:
        await call.settings.clear(MEMORY_SETTING, call.key, by=by)
    else:
        await call.settings.put(MEMORY_SETTING, call.key, written, by=by)
    await call.deps.memory.set_off(call.agent.conversation, off=written == "off")
    call.agent.memory_changed()
    layers = call.settings.layers(MEMORY_SETTING, call.key)
    around = next((one for one in layers if not one.value), None)
    if around is not None and written != "off":
        return Reply(text=phrase("memory_off_around", language, source=source_of(call, around)))
    return Reply(text=phrase("memory_off" if written == "off" else "memory_on", language))


async def graph(call: Call[MemoryCommandDeps]) -> Reply:
    """Show relations of the graph: of some names, or the newest."""
    phrase, language, scope = call.phrase, call.incoming.language, scope_of(call)
    settings = call.deps.memory.settings.graph

    def read(conn: Connection) -> list[str]:
        if call.args:
            words = telling(call.args)
            found = graph_rows.around(conn, scope.visible, words, hops=settings.max_hops, least=0.0, most=PAGE)
        else:
            found = graph_rows.listed(conn, scope.visible, most=PAGE)
        return [f"- {edge.text} ({edge.confidence:.0%})" for edge in found]

    lines = await call.deps.database.read(read)
    if not lines:
        return Reply(text=phrase("graph_off" if not settings.enabled else "graph_empty", language), private=True)
    return Reply(text="\n".join((phrase("graph_title", language), "", *lines)), private=True, verbatim=True)


def _line(call: Call[MemoryCommandDeps], item: Item) -> str:
    text = " ".join(item.text.split())
    shown = text if len(text) <= MOST_SHOWN else f"{text[: MOST_SHOWN - 1]}…"
    key = "memory_fact" if item.kind == "fact" else "memory_said"
    who = item.speaker or ("" if item.person is not None else call.phrase("memory_me", call.incoming.language))
    return call.phrase(
        key, call.incoming.language, id=item.id, text=shown, when=f"{item.at:%Y-%m-%d}", who=f", {who}" if who else ""
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(text, "utf-8")
    path.chmod(0o600)


VERBS: dict[str, Callable[[Call[MemoryCommandDeps], str], Awaitable[Reply]]] = {
    "list": _list,
    "search": _search,
    "add": _add,
    "forget": _forget,
    "notes": _notes,
    "export": _export,
    "off": _off,
    "on": _on,
}
MEMORY_SETTING: Setting[bool] = Setting(
    key="memory",
    command="memory",
    default=lambda settings, place: True,
    choices=("on", "off"),
    parse=on_or_off,
    show=text_of,
    change_by=_switch,
)
FOR_GUESTS = frozenset({"", "list", "search", "forget"})  # who look, and take back their own words
FOR_ADMINS = frozenset({"export", "off", "on"})

MEMORY = Command(
    name="memory",
    deps=MemoryCommandDeps,
    everyday=True,
    run=memory,
    group="chat",
    usage="[list | search … | add … | forget number/words/all | notes | export | off | on]",
    settings=(MEMORY_SETTING,),
)
GRAPH = Command(name="graph", deps=MemoryCommandDeps, feature="memory.graph", run=graph, group="chat", usage="[names]")
