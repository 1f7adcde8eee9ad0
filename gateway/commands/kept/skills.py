"""Skills: /skills lists them, /skill runs, shows, approves, takes back one.

A skill holds for every chat: admins of the whole bot say whether it may be used, and only they see what waits.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from agent.core.ids import PersonId
from agent.core.outbox import Button
from agent.skills.catalogue import Entry, Snapshot
from agent.skills.folders import Skills
from agent.skills.learning import Hinted, Learning
from agent.skills.matching import calling
from agent.skills.skill import FILE, slug
from gateway.access.policy import Role
from gateway.commands.command import MOST_ACTION, PRESS, Call, Command, Reply

MOST_LISTED = 60
MOST_SHOWN = 12_000  # characters of a body
DIGEST = 16  # characters of a digest that are shown and that a button carries: what was shown is what is approved
LEAST_DIGEST = 8  # of them somebody must write
_DIGEST = re.compile(rf"[0-9a-fA-F]{{{LEAST_DIGEST},64}}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillCommandDeps:
    """Skills, and the learning that chooses them."""

    role_everywhere: Callable[[PersonId | None], Role]  # for the whole bot
    learning: Learning
    skills: Skills
    skills_on: Callable[[], bool]


async def skills(call: Call[SkillCommandDeps]) -> Reply:
    """Every skill, by how it stands."""
    phrase, language, snapshot = call.phrase, call.incoming.language, _snapshot(call)
    lines = [phrase("skills_title", language), ""]
    usable = snapshot.visible()
    lines += [
        phrase("skills_line", language, name=skill.name, origin=_origin(call, skill.origin), what=skill.summary)
        for skill in usable[:MOST_LISTED]
    ] or [phrase("skills_none", language)]
    if len(usable) > MOST_LISTED:
        lines += ["", phrase("skills_more", language, count=len(usable) - MOST_LISTED)]
    waiting = [entry for entry in snapshot.entries.values() if entry.standing == "quarantined"]
    revoked = [entry.skill.name for entry in snapshot.entries.values() if entry.standing == "revoked"]
    if waiting and _decides(call):
        lines += ["", phrase("skills_waiting", language), ""]
        lines += [
            phrase("skills_line", language, name=one.skill.name, origin=_origin(call, one.skill.origin),
                   what=_why(call, one))
            for one in waiting[:MOST_LISTED]
        ]  # fmt: skip
    elif waiting:
        lines += ["", phrase("skills_waiting_count", language, count=len(waiting))]
    if revoked and _decides(call):
        lines += ["", phrase("skills_revoked", language, names=", ".join(revoked[:MOST_LISTED]))]
    if not call.deps.skills_on():
        lines += ["", phrase("skills_off", language)]
    hint = phrase("skills_hint_admin" if _decides(call) else "skills_hint", language)
    return Reply(text="\n".join([*lines, "", hint]), private=True)


async def skill(call: Call[SkillCommandDeps]) -> Reply:
    """The family's door: a verb and a name, or a name and what to do with it."""
    verb, _, rest = call.args.partition(" ")
    run = VERBS.get(verb.lower())
    if run is None:
        return await _run(call, call.args)
    if verb.lower() in FOR_ADMINS and not _decides(call):
        text = call.phrase("skill_admins", call.incoming.language, verb=verb.lower())
        return Reply(text=text, private=True)
    return await run(call, rest.strip())


async def _run(call: Call[SkillCommandDeps], rest: str) -> Reply:
    """Goes on as a turn that has the skill before it."""
    phrase, language, incoming = call.phrase, call.incoming.language, call.incoming
    given, _, words = rest.partition(" ")
    if not given:
        return Reply(text=phrase("skill_usage", language), private=True)
    if not call.deps.skills_on():
        return Reply(text=phrase("skills_off", language), private=True)
    name = slug(given)
    found = _snapshot(call).find(name)
    if found is None:
        return _missing(call, given)
    if not found.user_invocable:
        return Reply(text=phrase("skill_not_for_people", language, name=name), private=True)
    return Reply(
        go_on_with=calling(name, words.strip()), go_on_files=tuple(incoming.files), go_on_quoted=incoming.quotation
    )


async def _show(call: Call[SkillCommandDeps], rest: str) -> Reply:
    """All that there is of one."""
    entry = _snapshot(call).entries.get(slug(rest))
    if entry is None or (entry.standing != "ready" and not _decides(call)):
        return _missing(call, rest)
    return _shown(call, entry)


def _shown(call: Call[SkillCommandDeps], entry: Entry) -> Reply:
    """The whole text, and for who may decide how to: nothing is approved but what stands here."""
    phrase, language, decides, one = call.phrase, call.incoming.language, _decides(call), entry.skill
    facts = {
        "when": one.when_to_use,
        "triggers": ", ".join(one.triggers),
        "tools": ", ".join(one.tools or ()),
        "files": ", ".join(one.files),
        "env": ", ".join(name for name, _ in one.env),
        "model": one.model,
        "arguments": one.argument_hint or " ".join(f"[{argument}]" for argument in one.arguments),
        "further": ", ".join(f"{key} = {value}" for key, value in one.further),
    }
    version = f", {one.version}" if one.version else ""
    lines = [
        phrase("skill_title", language, name=one.name, origin=_origin(call, one.origin) + version),
        phrase(f"skill_{entry.standing}", language, why=_why(call, entry)),
        one.description,
        *(phrase(f"skill_{key}", language, value=value) for key, value in facts.items() if value),
    ]
    body = one.body[:MOST_SHOWN]
    lines += ["", _fenced(body or "–")]
    if len(one.body) > MOST_SHOWN:
        lines += ["", phrase("skill_longer", language, count=len(one.body) - MOST_SHOWN, file=str(one.folder / FILE))]
    if decides and entry.standing != "ready":
        lines += ["", _how_to_approve(call, entry)]
    return Reply(text="\n".join(lines), private=True, buttons=_buttons(call, entry) if decides else ())


async def _approve(call: Call[SkillCommandDeps], rest: str) -> Reply:
    """From the next message on it may be used, as it stands; the digest says which wording was read.

    A button gives the digest alone: names may be too long for one.
    """
    phrase, language, entries = call.phrase, call.incoming.language, _snapshot(call).entries
    given, _, digest = rest.partition(" ")
    name, digest = slug(given), digest.strip().lower()
    if name not in entries and not digest and _DIGEST.fullmatch(given):
        digest = given.lower()
        meant = [one for one in entries.values() if one.standing != "ready" and one.skill.digest.startswith(digest)]
        if not meant:
            return Reply(text=phrase("skill_stale", language), private=True)
        if len(meant) > 1:  # the same words under several names
            return Reply(text="\n".join(_how_to_approve(call, one) for one in meant), private=True)
        name = meant[0].skill.name
    if name not in entries:
        return _missing(call, given)
    if len(digest) < LEAST_DIGEST:
        return _shown(call, entries[name])
    entry = await call.deps.skills.approve(name, call.incoming.person or "", digest)
    if entry is None:
        return Reply(text=phrase("skill_changed", language, name=name), private=True)
    return Reply(text=phrase("skill_approved", language, name=name), private=True)


async def _revoke(call: Call[SkillCommandDeps], rest: str) -> Reply:
    """It is not used any more, whatever becomes of its file."""
    name = slug(rest)
    if await call.deps.skills.revoke(name, call.incoming.person or "") is None:
        return _missing(call, rest)
    return Reply(text=call.phrase("skill_taken_back", call.incoming.language, name=name), private=True)


async def _reload(call: Call[SkillCommandDeps], rest: str) -> Reply:
    """Reads every folder now, instead of within two seconds."""
    snapshot = await call.deps.skills.reload()
    if rest and slug(rest) not in snapshot.entries:
        return _missing(call, rest)
    waiting = sum(entry.standing == "quarantined" for entry in snapshot.entries.values())
    values = {"usable": len(snapshot.usable), "waiting": waiting}
    return Reply(text=call.phrase("skill_reloaded", call.incoming.language, **values), private=True)


def _decides(call: Call[SkillCommandDeps]) -> bool:
    return call.deps.role_everywhere(call.incoming.person) >= Role.ADMIN


def _snapshot(call: Call[SkillCommandDeps]) -> Snapshot:
    return call.deps.skills.catalogue.snapshot


def _missing(call: Call[SkillCommandDeps], given: str) -> Reply:
    """No such skill for this person; whoever may decide is shown it when it only waits."""
    phrase, language, snapshot, name = call.phrase, call.incoming.language, _snapshot(call), slug(given)
    if not given:
        return Reply(text=phrase("skill_usage", language), private=True)
    entry = snapshot.entries.get(name)
    if entry is not None and _decides(call):
        return _shown(call, entry)
    near = get_close_matches(name, [one.name for one in snapshot.usable], n=1)
    text = phrase("skill_unknown", language, given=given)
    return Reply(text=f"{text} {phrase('skill_near', language, name=near[0])}" if near else text, private=True)


def _why(call: Call[SkillCommandDeps], entry: Entry) -> str:
    phrase, language = call.phrase, call.incoming.language
    return "; ".join(phrase(f"skill_why_{reason.key}", language, what=reason.what) for reason in entry.why)


def _origin(call: Call[SkillCommandDeps], origin: str) -> str:
    return call.phrase(f"skill_origin_{origin}", call.incoming.language)


def _how_to_approve(call: Call[SkillCommandDeps], entry: Entry) -> str:
    one = entry.skill
    return call.phrase("skill_how_to_approve", call.incoming.language, name=one.name, digest=one.digest[:DIGEST])


def _buttons(call: Call[SkillCommandDeps], entry: Entry) -> tuple[tuple[Button, ...], ...]:
    """Buttons for an admin, as far as they fit."""
    one, phrase, language = entry.skill, call.phrase, call.incoming.language
    approve = ("button_skill_approve", f"approve {one.digest[:DIGEST]}")
    revoke = ("button_skill_revoke", f"revoke {one.name}")
    offered = {"ready": (revoke,), "quarantined": (approve, revoke), "revoked": (approve,)}[entry.standing]
    row = tuple(Button(label=phrase(key, language), action=f"{PRESS}/skill {words}") for key, words in offered)
    fitting = tuple(button for button in row if len(button.action.encode()) <= MOST_ACTION)
    return (fitting,) if fitting else ()


def _fenced(text: str) -> str:
    """The text between fences that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}\n{text}\n{fence}"


VERBS: dict[str, Callable[[Call[SkillCommandDeps], str], Awaitable[Reply]]] = {
    "run": _run,
    "show": _show,
    "approve": _approve,
    "revoke": _revoke,
    "reject": _revoke,
    "reload": _reload,
}
FOR_ADMINS = frozenset({"approve", "revoke", "reject", "reload"})

SKILLS = Command(name="skills", deps=SkillCommandDeps, feature="skills", run=skills, group="chat", immediate=True)


async def skill_names(call: Call[SkillCommandDeps]) -> Sequence[str]:
    """The names of the skills that may be used now."""
    return [one.name for one in _snapshot(call).visible()]


SKILL = Command(
    name="skill",
    deps=SkillCommandDeps,
    feature="skills",
    run=skill,
    group="chat",
    usage="name [words] | show name",
    suggest=skill_names,
)


# Reasons of a hint: `/why skill`.


async def why_skill(call: Call[SkillCommandDeps]) -> Reply:
    """The last hint of this chat: how well it fitted or whose wish it was, by which counts, and what came of it."""
    phrase, language, learning = call.phrase, call.incoming.language, call.deps.learning
    hinted = learning.hinted(call.agent.conversation)
    if hinted is None:
        key = "why_skill_none" if learning.settings.router else "why_skill_off"
        return Reply(text=phrase(key, language), private=True)
    return Reply(text="\n".join(_told(call, hinted)), private=True)


def _told(call: Call[SkillCommandDeps], hinted: Hinted) -> list[str]:
    phrase, language, pick = call.phrase, call.incoming.language, hinted.pick
    lines = [phrase("why_skill_title", language, name=f"`{pick.name}`", when=f"{hinted.at:%H:%M:%S} UTC")]
    if pick.value is None:
        lines.append(phrase("why_skill_asked", language))
    else:
        key = "why_skill_drawn" if pick.among > 1 else "why_skill_alone"
        fit = f"{pick.fit or 0.0:.2f}"
        lines.append(phrase(key, language, among=pick.among, fit=fit, value=f"{pick.value:.2f}"))
    counts = {"successes": _count(pick.arm.successes), "failures": _count(pick.arm.failures)}
    lines.append(phrase("why_skill_counts", language, **counts))
    if pick.simulated:
        lines.append(phrase("why_skill_simulated", language, simulated=_count(pick.simulated)))
    lines.append(phrase(f"why_skill_{_came_of(hinted)}", language))
    if hinted.sign is not None and hinted.use != "unused":
        lines.append(phrase(f"why_skill_{hinted.sign}", language))
    return lines


def _came_of(hinted: Hinted) -> str:
    if hinted.outcome == "success" and hinted.use != "used":
        return hinted.use
    return hinted.outcome or "open"


def _count(number: float) -> str:
    return f"{round(number, 2):g}"
