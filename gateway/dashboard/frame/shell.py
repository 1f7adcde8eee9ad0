"""The dashboard's frame: sections, the right that each page and action needs, the audit log, answers to the browser.

A section is a list of routes made by `view` and `action`, a title and a place in the navigation. `Shell` serves them.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from agent.core.clock import Clock
from agent.storage.timestamps import to_timestamp
from gateway.access.settings import DashboardRight
from gateway.channels.adapter import SignedIn
from gateway.dashboard.frame.rendering import render
from gateway.storage.operator_actions import OperatorAction
from gateway.web.control import OperationError

Group = Literal["Now", "Work", "People", "Program"]
GROUPS: tuple[Group, ...] = ("Now", "Work", "People", "Program")

LONGEST_DETAIL = 2_000  # characters of the audit log
NEEDED = {
    "view": "looking at the dashboard",
    "operate": "changing anything here",
    "transcripts": "reading what others wrote",
    "configure": "changing accounts, roles and settings",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page: a template below `templates/`, and its values.

    `live`: it is fetched anew when something happens in the gateway.
    """

    template: str
    values: Mapping[str, object]
    live: bool = False
    status_code: int = 200


LONGEST_NAME = 60  # characters of somebody's words in the name of a thing


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """An action that was carried out: a sentence for the person, and what the audit log keeps of it.

    `detail` holds no secret and nobody's words. `go`: the page to show next; "" is the same one again.
    """

    text: str
    subject: str
    detail: str = ""
    go: str = ""


View = Callable[[Request], Awaitable[Page | Response]]
Action = Callable[[Request], Awaitable[Done | Page]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A page or an action of a section, and the right that it needs. `name` is an action's, in the audit log."""

    path: str
    needs: DashboardRight
    view: View | None = None
    action: Action | None = None
    name: str = ""


def view(path: str, endpoint: View, *, needs: DashboardRight = "view") -> Entry:
    """A page for GET. `endpoint` raises LookupError for what there is not."""
    return Entry(path=path, needs=needs, view=endpoint)


def action(path: str, endpoint: Action, *, name: str, needs: DashboardRight = "operate") -> Entry:
    """A change for POST, kept in the audit log under this name. `endpoint` raises OperationError to say no.

    It returns a Page in place of Done for a form with mistakes: nothing was done then.
    """
    return Entry(path=path, needs=needs, action=endpoint, name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of the dashboard with a place of its own in the navigation; `entries[0]` is its first page.

    `waiting` counts what waits there for a person.
    """

    title: str
    group: Group
    entries: Sequence[Entry]
    waiting: Callable[[], Awaitable[int]] | None = None

    @property
    def path(self) -> str:
        return self.entries[0].path

    @property
    def needs(self) -> DashboardRight:
        return self.entries[0].needs


Audit = Callable[[OperatorAction], Awaitable[None]]  # keeps it in the audit log


class Shell:
    """Serves sections. `chat` is where the web chat is, "" where there is none."""

    def __init__(self, sections: Sequence[Section], audit: Audit, clock: Clock, chat: str) -> None:
        self._sections = sections
        self._audit = audit
        self._clock = clock
        self._chat = chat

    @property
    def routes(self) -> Sequence[Route]:
        """All pages and actions, each behind its right."""
        return [self._route(section, entry) for section in self._sections for entry in section.entries]

    def _route(self, section: Section, entry: Entry) -> Route:
        async def show(request: Request) -> Response:
            assert entry.view is not None
            if entry.needs not in rights_of(request):
                return await self._refused(request, section, entry.needs)
            try:
                shown = await entry.view(request)
            except LookupError as error:
                missing = Page(template="nothing.html", values={"text": _said(error)}, status_code=404)
                return await self._page(request, section, missing)
            return shown if isinstance(shown, Response) else await self._page(request, section, shown)

        async def act(request: Request) -> Response:
            assert entry.action is not None
            if entry.needs not in rights_of(request):
                return told(f"Your account has no right for {NEEDED[entry.needs]}.", status_code=403)
            try:
                done = await entry.action(request)
            except OperationError as error:
                fix = f" {error.fix[:1].upper()}{error.fix[1:]}." if error.fix else ""
                return told(f"{_sentence(str(error))}{fix}", status_code=409)
            except LookupError as error:
                return told(_said(error), status_code=404)
            if isinstance(done, Page):
                return await self._page(request, section, done)
            await self._audit(noted(request, self._clock, entry.name, done.subject, done.detail))
            return told(done.text, go=done.go)

        endpoint, methods = (show, ["GET"]) if entry.view is not None else (act, ["POST"])
        return Route(entry.path, endpoint, methods=methods)

    async def _page(self, request: Request, section: Section, page: Page) -> Response:
        rights = rights_of(request)
        values = {
            **page.values,
            "title": page.values.get("title", section.title),
            "section": section,
            "rights": rights,
            "person": person_of(request),
            "live": page.live,
        }
        navigation = [
            (
                group,
                [(one, await _waiting(one)) for one in self._sections if one.group == group and one.needs in rights],
            )
            for group in GROUPS
        ]
        layout = "fragment.html" if request.headers.get("hx-target") == "content" else "layout.html"
        frame = {"layout": layout, "navigation": navigation, "csrf": request.state.csrf, "chat_page": self._chat}
        # A page of long transcripts takes a second: meanwhile turns go on.
        text = await anyio.to_thread.run_sync(partial(render, page.template, **frame, **values))
        return HTMLResponse(text, status_code=page.status_code)

    async def _refused(self, request: Request, section: Section, needs: DashboardRight) -> Response:
        whose = f"web:{person_of(request).id}"
        text = (
            f"Your account has no right for {NEEDED[needs]}. Ask an owner for it: it is given under People, at {whose}."
        )
        return await self._page(request, section, Page(template="nothing.html", values={"text": text}, status_code=403))


def noted(request: Request, clock: Clock, action: str, subject: str, detail: str = "") -> OperatorAction:
    """The line of the audit log which says that the person of the request did that.

    Reading other people's words is noted as well as changes.
    """
    person = person_of(request)
    return OperatorAction(
        at=to_timestamp(clock.now()),
        person=f"web:{person.id}",
        name=person.display,
        address=request.client.host if request.client else "",
        action=action,
        subject=subject,
        detail=detail[:LONGEST_DETAIL],
    )


def rights_of(request: Request) -> frozenset[DashboardRight]:
    """The rights of the person who asks; none where nobody said which."""
    rights: frozenset[DashboardRight] = getattr(request.state, "rights", frozenset())
    return rights


def person_of(request: Request) -> SignedIn:
    """The person who asks."""
    person: SignedIn = request.state.person
    return person


def named(request: Request, thing: str, words: str) -> str:
    """The name of a thing in a sentence, as in `Goal 1 (tidy up the wiki)`; the words for who may read them alone."""
    if "transcripts" not in rights_of(request) or not words:
        return thing
    line = " ".join(words.split())
    return f"{thing} ({line if len(line) <= LONGEST_NAME else line[: LONGEST_NAME - 1] + '…'})"


def told(text: str, *, status_code: int = 200, go: str = "") -> Response:
    """The answer to an action: shown by the page that asked, and plain JSON for others."""
    is_error = status_code >= 400
    headers = {"hx-reswap": "none", "hx-trigger": json.dumps({"told": {"text": text, "isError": is_error, "go": go}})}
    return JSONResponse({"error" if is_error else "text": text}, status_code=status_code, headers=headers)


async def _waiting(section: Section) -> int:
    return await section.waiting() if section.waiting is not None else 0


def _said(error: LookupError) -> str:
    return str(error.args[0]) if error.args else "There is nothing here any more."


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}"
