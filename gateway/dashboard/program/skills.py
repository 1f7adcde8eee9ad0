"""Skills: those that may be used, those that wait, their text, and the word of a person on each."""

from collections.abc import Sequence
from dataclasses import dataclass

import anyio.to_thread
from starlette.requests import Request

from agent.skills.catalogue import Entry, Reason, TrustStatus
from agent.skills.folders import compared, text_of
from agent.skills.rows import Kept
from agent.skills.skill import EXAMPLE, FILE, Origin
from agent.skills.trust import findings_in
from gateway.dashboard.frame.listing import asked, listed
from gateway.dashboard.frame.readings import Readings
from gateway.dashboard.frame.shell import Done, Page, Section, action, person_of, rights_of, view
from gateway.running.basics import Basics
from gateway.running.memory import SkillServices
from gateway.web.control import OperationError

WHOLE_DIGEST = 64  # hexadecimal digits: what was shown is what is approved
WHY = {
    "drafted": "It was drafted by the bot, and nobody has approved it yet.",
    "imported": "It came from another program, and nobody has approved it yet.",
    "changed": "Its text is not the one that was approved.",
    "grants": "It names more than before: {what}.",
    "hidden": "It holds characters that nobody can see.",
    "orders": "It tells the model to pass over rules or people.",
    "secrets": "It is about keys, passwords or private files.",
    "downloads": "It runs what it fetches from elsewhere.",
    "destroys": "It deletes more than a task needs.",
    "tags": "It imitates words of the gateway.",
    "environment": "It changes how programs are found or loaded.",
}
ORIGINS: dict[Origin, str] = {
    "shipped": "shipped with Tieline",
    "operator": "the operator's own",
    "imported": "from another program",
    "auto": "drafted by the bot",
}
STANDINGS: dict[TrustStatus, str] = {
    "ready": "may be used",
    "quarantined": "waits for approval",
    "revoked": "revoked",
}
ORDER: Sequence[TrustStatus] = ("quarantined", "ready", "revoked")
HIDDEN_WORDS = "[words of a person, for those who may read transcripts]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSkill:
    """A skill in the list. `well` and `badly` count turns with its hint; decay makes fractions of them."""

    entry: Entry
    why: Sequence[str]
    well: float
    badly: float

    @property
    def turns(self) -> float:
        return self.well + self.badly


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillPages:
    """The list, the text of one, and the decisions."""

    basics: Basics
    services: SkillServices
    readings: Readings

    def section(self) -> Section:
        """The section. What waits there are skills that nobody has approved yet."""
        return Section(
            title="Skills",
            group="Program",
            entries=(
                view("/skills", self.all),
                view("/skills/{name}", self.one),
                action("/skill/approve/{name}", self.approve, name="skills.approve"),
                action("/skill/revoke/{name}", self.revoke, name="skills.revoke"),
                action("/skill-reload", self.reload, name="skills.reload"),
            ),
            waiting=self._waiting,
        )

    async def all(self, request: Request) -> Page:
        """Every skill, those that wait first."""
        snapshot = self.services.skills.catalogue.snapshot
        look = asked(
            request.query_params,
            columns=("state", "name", "origin", "turns"),
            descending=("turns",),
            filters={"state": STANDINGS},
        )
        chosen = look.chosen["state"]
        shown = [self._shown(one) for one in snapshot.entries.values() if chosen in ("", one.standing)]
        keys = {
            "state": lambda one: (ORDER.index(one.entry.standing), one.entry.skill.name),
            "name": lambda one: one.entry.skill.name,
            "origin": lambda one: (one.entry.skill.origin, one.entry.skill.name),
            "turns": lambda one: (one.turns, one.entry.skill.name),
        }
        values = {
            "listing": listed(shown, look, key=keys[look.sort], words=_words),
            "standings": STANDINGS,
            "origins": ORIGINS,
            "gone": sorted(snapshot.taken_back - snapshot.entries.keys()),
            "is_on": self.basics.live.skills_enabled(),
        }
        return Page(template="skills.html", values=values)

    async def one(self, request: Request) -> Page:
        """A skill with its whole text, as it would be approved."""
        entry = self._entry(request)
        text = await anyio.to_thread.run_sync(text_of, entry.skill)
        if text is None:  # changed a moment ago: the newest text is shown, or none
            await self.services.skills.reload()
            entry = self._entry(request)
            text = await anyio.to_thread.run_sync(text_of, entry.skill)
        if text is None:
            raise LookupError(f"The file of the skill {entry.skill.name} is being changed. Look again in a moment.")
        lines = text.splitlines()
        if entry.skill.origin == "auto" and any(map(_is_quote, lines)):
            if "transcripts" in rights_of(request):
                await self.readings.note(request, "skills.read", entry.skill.name, "a draft with quotes")
            else:
                lines = [f"{EXAMPLE}{HIDDEN_WORDS}" if _is_quote(line) else line for line in lines]
        waits = entry.standing != "ready"
        comparison = await compared(self.basics.database, entry.skill, text) if waits else None
        findings = await anyio.to_thread.run_sync(findings_in, entry.skill)
        shown = self._shown(entry)
        values = {
            "title": entry.skill.name,
            "one": shown,
            "skill": entry.skill,
            "lines": lines,
            "comparison": comparison,
            "findings": shown.why or [_told(Reason(one)) for one in findings],
            "facts": _facts(entry),
            "standings": STANDINGS,
            "origins": ORIGINS,
            "file": f"{entry.skill.folder.name}/{FILE}",
        }
        return Page(template="skill.html", values=values)

    async def approve(self, request: Request) -> Done:
        """Lets the skill be used with the text that was shown, and no other."""
        entry, form = self._entry(request), await request.form()
        name, digest = entry.skill.name, str(form.get("digest") or "")
        if len(digest) != WHOLE_DIGEST:
            raise OperationError(f"read the text of {name} first", fix="its page has the button that approves it")
        if await self.services.skills.approve(name, f"web:{person_of(request).id}", digest) is None:
            raise OperationError(f"the text of {name} has changed since it was shown", fix="load the page and read it")
        text = f"{name} may be used as it stands, from the next message on."
        return Done(text=text, subject=name, detail=f"digest {digest}")

    async def revoke(self, request: Request) -> Done:
        """Lets the skill not be used any more; a draft is rejected by it."""
        entry = self._entry(request)
        name = entry.skill.name
        await self.services.skills.revoke(name, f"web:{person_of(request).id}")
        return Done(text=f"{name} is not used any more.", subject=name, detail=f"digest {entry.skill.digest}")

    async def reload(self, request: Request) -> Done:
        """Reads every folder now."""
        snapshot = await self.services.skills.reload()
        waiting = sum(one.standing == "quarantined" for one in snapshot.entries.values())
        text = f"{len(snapshot.usable)} skills may be used, {waiting} wait for approval."
        return Done(text=text, subject="all skills", detail=text)

    async def _waiting(self) -> int:
        entries = self.services.skills.catalogue.snapshot.entries.values()
        return sum(one.standing == "quarantined" for one in entries)

    def _entry(self, request: Request) -> Entry:
        name = request.path_params["name"]
        entry = self.services.skills.catalogue.snapshot.entries.get(name)
        if entry is None:
            raise LookupError(f"There is no skill {name}.")
        return entry

    def _shown(self, entry: Entry) -> ShownSkill:
        kept: Kept = self.services.learning.router.kept(entry.skill.name)
        return ShownSkill(
            entry=entry,
            why=[_told(reason) for reason in entry.why],
            well=kept.outcomes.successes,
            badly=kept.outcomes.failures,
        )


def _told(reason: Reason) -> str:
    return WHY[reason.key].format(what=reason.what)


def _is_quote(line: str) -> bool:
    """Whether the line quotes a person; one that an editor has indented does so too."""
    return line.lstrip().startswith(EXAMPLE)


def _words(one: ShownSkill) -> str:
    return f"{one.entry.skill.name} {one.entry.skill.description}"


def _facts(entry: Entry) -> Sequence[tuple[str, str]]:
    """The facts of its head that say anything."""
    one = entry.skill
    facts = (
        ("Description", one.description),
        ("When to use", one.when_to_use),
        ("Version", one.version),
        ("Triggers", ", ".join(one.triggers)),
        ("Tools", ", ".join(one.tools or ())),
        ("Environment", ", ".join(name for name, _ in one.env)),
        ("Files beside it", ", ".join(one.files)),
        ("Model", one.model),
        ("Kept and not acted on", ", ".join(key for key, _ in one.further)),
    )
    return [(name, value) for name, value in facts if value]
