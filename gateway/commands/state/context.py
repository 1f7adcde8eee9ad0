"""The window of the conversation: /compact /recap /context /guidelines /focus /sidequest and its dumps."""

from dataclasses import dataclass
from pathlib import Path

from agent.compaction.dumps import FORMS, dump_folder
from agent.compaction.guidelines import Guideline
from agent.core.clock import Clock
from agent.core.untrusted_text import plain
from agent.storage.timestamps import from_timestamp
from agent.turn.look import ContextView
from gateway.access.policy import Role
from gateway.commands.command import Call, Command, Reply, refused
from gateway.commands.state.status import gauge_of

DUMPS = "dumps"
MOST_KEEP = 500  # characters of what shall be kept


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextCommandDeps:
    """The data directory, for dumps."""

    clock: Clock
    home: Path


async def compact(call: Call[ContextCommandDeps]) -> Reply:
    """Summarises the older part now; words after the command say what must be kept."""
    phrase, language = call.phrase, call.incoming.language
    done = await call.agent.window.compact(call.args[:MOST_KEEP])
    if done is None:
        return Reply(text=phrase("compact_nothing", language))
    values = {"before": f"{done.tokens_before:,}", "after": f"{done.tokens_after:,}", "count": done.messages}
    return Reply(text=phrase("compact_mechanical" if done.mechanical else "compact_done", language, **values))


async def recap(call: Call[ContextCommandDeps]) -> Reply:
    """Show a recap of the conversation: in the model's words, else the stored summary."""
    phrase, language, told = call.phrase, call.incoming.language, await call.agent.window.recap()
    if told is None:
        return Reply(text=phrase("recap_none", language))
    if not told.text:
        return Reply(text=phrase("recap_failed", language))
    title = phrase("recap_title" if told.by_model else "recap_stored", language)
    # The model's words are Markdown, as its answers are; the stored summary is notes for the model, of others' words.
    shown = told.text if told.by_model else "\n".join(plain(line) for line in told.text.splitlines())
    return Reply(text=f"{title}\n\n{shown}")


async def context(call: Call[ContextCommandDeps]) -> Reply:
    """Show the content of the window, by kind, the heaviest first."""
    phrase, language, seen = call.phrase, call.incoming.language, await call.agent.window.context()
    lines = [
        phrase("context_title", language),
        "",
        phrase(
            "context_total",
            language,
            gauge=gauge_of(seen.used, seen.window),
            used=f"{seen.used:,}",
            window=f"{seen.window:,}",
            percent=f"{seen.used * 100 / seen.window:.0f}" if seen.window else "?",
        ),
        *_origin(call, seen),
    ]
    lines += [
        phrase(
            "context_kind",
            language,
            kind=phrase(f"context_{one.kind}", language),
            tokens=f"{one.tokens:,}",
            count=one.messages,
            percent=f"{one.tokens * 100 / max(1, seen.used):.0f}",
        )
        for one in seen.fillings
    ]
    if seen.cleared:
        lines += ["", phrase("context_cleared", language, count=seen.cleared)]
    if seen.asked:
        values = {"asked": seen.asked, "answered": seen.answered, "put_back": seen.put_back}
        lines += ["", phrase("context_probed", language, **values)]
    if seen.missed:
        kinds = ", ".join(f"`{tool}`" if tool else phrase("context_said", language) for tool in seen.missed)
        lines += ["", phrase("context_missed", language, kinds=kinds)]
    if seen.badge:
        lines += ["", phrase("context_badge", language, badge=seen.badge)]
    return Reply(text="\n".join(lines), private=True)


def _origin(call: Call[ContextCommandDeps], seen: ContextView) -> list[str]:
    """Where the size of the window is from; nothing of the demo, which has none."""
    if seen.origin is None:
        return []
    values = {
        "window": f"{seen.window:,}",
        "by": seen.origin.by,
        "at": f"{from_timestamp(seen.origin.at):%Y-%m-%d %H:%M} UTC",
        "answered": f"{seen.origin.answered:,}",
        "refused": f"{seen.origin.refused:,}",
    }
    return [call.phrase(f"context_from_{seen.origin.source}", call.incoming.language, **values)]


async def guidelines(call: Call[ContextCommandDeps]) -> Reply:
    """Show the guidelines of compaction here, the most important first; `clear` takes them back."""
    phrase, language = call.phrase, call.incoming.language
    match call.args.strip().lower():
        case "" | "list":
            lines = [_guideline(call, one) for one in await call.agent.window.guidelines()]
            if not lines:
                return Reply(text=phrase("guidelines_none", language), private=True)
            return Reply(text="\n".join((phrase("guidelines_title", language), "", *lines)), private=True)
        case "clear":
            if call.in_group and call.role < Role.ADMIN:
                return refused(call, "clear")
            count = await call.agent.window.clear_guidelines()
            key = "guidelines_cleared" if count else "guidelines_none"
            return Reply(text=phrase(key, language, count=count), private=True)
        case other:
            return Reply(text=phrase("guidelines_usage", language, given=other), private=True)


def _guideline(call: Call[ContextCommandDeps], one: Guideline) -> str:
    """On one line; what was looked for is a model's words and shown as code."""
    phrase, language = call.phrase, call.incoming.language
    kind = phrase("guidelines_results", language, tool=one.tool) if one.tool else phrase("context_said", language)
    about = one.about.replace("`", "'")
    return f"- {kind}: `{about}`" if about else f"- {kind}"


async def focus(call: Call[ContextCommandDeps]) -> Reply:
    """Show the brackets and findings of Focus."""
    phrase, language, seen = call.phrase, call.incoming.language, await call.agent.window.focus()
    if not seen.enabled:
        return Reply(text=phrase("focus_off", language), private=True)
    values = {"scope": seen.scope, "count": seen.messages, "turns": seen.turns}
    lines = [phrase("focus_open" if seen.scope else "focus_none", language, **values)]
    if seen.findings:
        sizes = {"count": len(seen.findings), "tokens": f"{seen.tokens:,}", "most": f"{seen.most_tokens:,}"}
        lines += ["", phrase("focus_found", language, **sizes)]
        lines += [f"{number}. {found}" for number, found in enumerate(seen.findings, start=1)]
    return Reply(text="\n".join(lines), private=True)


async def sidequest(call: Call[ContextCommandDeps]) -> Reply:
    """Show the results that SideQuest has let go."""
    phrase, language, seen = call.phrase, call.incoming.language, call.agent.window.sidequest()
    if not seen.enabled:
        return Reply(text=phrase("sidequest_off", language), private=True)
    values = {"every": seen.every, "left": seen.turns_left, "asked": seen.asked, "evicted": seen.evicted}
    return Reply(text=phrase("sidequest_now", language, **values), private=True)


async def debug_dump(call: Call[ContextCommandDeps]) -> Reply:
    """Writes requests and answers of this chat into files on the operator's machine, until told to stop."""
    phrase, language = call.phrase, call.incoming.language
    match call.args.strip().lower():
        case "off":
            call.agent.window.dump(None)
            return Reply(text=phrase("dump_off", language), private=True)
        case "":
            folder = call.agent.window.dumping
            if folder is None:
                return Reply(text=phrase("dump_is_off", language), private=True)
            shown = str(folder.relative_to(call.deps.home))
            return Reply(text=phrase("dump_is_on", language, folder=shown), private=True)
        case "on":
            folder = dump_folder(call.deps.home / DUMPS, call.agent.conversation, call.deps.clock.now())
            call.agent.window.dump(folder)
            shown = str(folder.relative_to(call.deps.home))
            return Reply(text=phrase("dump_on", language, folder=shown), private=True)
        case other:
            return Reply(text=phrase("dump_usage", language, given=other), private=True)


COMPACT = Command(
    name="compact", deps=ContextCommandDeps, run=compact, group="chat", usage="[what to keep]", admin_in_groups=True
)
RECAP = Command(name="recap", deps=ContextCommandDeps, run=recap, group="chat")
CONTEXT = Command(name="context", deps=ContextCommandDeps, run=context, group="chat")
GUIDELINES = Command(
    name="guidelines",
    deps=ContextCommandDeps,
    choices=("list", "clear"),
    run=guidelines,
    group="more",
    usage="[list | clear]",
)


async def dump_format(call: Call[ContextCommandDeps]) -> Reply:
    """Set what the dumps of this chat keep."""
    phrase, language = call.phrase, call.incoming.language
    wanted = call.args.strip().lower()
    form = next((form for form in FORMS if form == wanted), None)
    if form is None:
        key = "dump_format_usage" if wanted else "dump_format_which"
        return Reply(text=phrase(key, language, given=wanted), private=True)
    call.agent.window.dump_as(form)
    return Reply(text=phrase("dump_format_set", language, form=form), private=True)


FOCUS = Command(name="focus", deps=ContextCommandDeps, feature="memory.focus", run=focus, group="more")
SIDEQUEST = Command(name="sidequest", deps=ContextCommandDeps, feature="memory.sidequest", run=sidequest, group="more")
DEBUG_DUMP = Command(
    name="debug-dump",
    deps=ContextCommandDeps,
    choices=("on", "off"),
    run=debug_dump,
    group="more",
    usage="[on|off]",
    admin=True,
)
DUMP_FORMAT = Command(
    name="dump-format",
    deps=ContextCommandDeps,
    choices=FORMS,
    run=dump_format,
    group="more",
    usage="json|raw|trace",
    admin=True,
)
