"""Keys of other programs: made with the key shown once, listed with what they open, revoked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from starlette.requests import Request

from agent.core.clock import Clock
from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp
from gateway.access.settings import DashboardRight
from gateway.api.keys import EVERYWHERE, MOST_DAYS, MOST_PER_MINUTE, PER_MINUTE, PREFIX, ApiKeys, State, state_of
from gateway.dashboard.frame.listing import asked, listed
from gateway.dashboard.frame.shell import Audit, Done, Entry, Page, action, noted, person_of, view
from gateway.storage import conversation_list
from gateway.storage.api_keys import KeyRow

NEEDS: DashboardRight = "configure"  # to make and revoke
CREATE = "programs.key_create"
# The scopes in words, in the order of the form.
SCOPES: Mapping[str, str] = {
    "chat": "talk as an OpenAI client, in conversations of its own",
    "send": "say something in these chats",
    "ask": "have the bot answer in these chats",
    "search": "search these chats, as another agent",
    "schedules": "list reminders of these chats, as another agent",
}
COLUMNS = ("name", "created", "used", "expires")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownKey:
    """A key as the page shows it, without what opens a door. `places` are names by id; moments are UTC."""

    row: KeyRow
    key: str
    state: State
    places: Mapping[str, str]
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    used_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyPages:
    """The page of the keys and its actions."""

    keys: ApiKeys
    database: Database
    audit: Audit
    clock: Clock

    @property
    def entries(self) -> Sequence[Entry]:
        """Its routes."""
        return (
            view("/programs", self.all),
            action("/programs/key/add", self.create, name=CREATE, needs=NEEDS),
            action("/programs/key/revoke/{name}", self.revoke, name="programs.key_revoke", needs=NEEDS),
        )

    async def all(self, request: Request) -> Page:
        """All keys, also those that open nothing any more."""
        return await self._page(request)

    async def create(self, request: Request) -> Page:
        """Make a key, which is shown on the answer alone."""
        form = await request.form()
        scopes = [str(scope) for scope in form.getlist("scope")]
        places = str(form.get("places") or "").replace(",", " ").split()
        wanted: dict[str, object] = {
            "name": str(form.get("name") or "").strip(),
            "scopes": scopes,
            "places": places,
            "by": f"web:{person_of(request).id}",
        }
        wanted |= {name: text for name in ("days", "per_minute") if (text := str(form.get(name) or "").strip())}
        made = await self.keys.create(wanted)
        detail = f"{' '.join(scopes)}; {' '.join(places) or 'no place'}"
        await self.audit(noted(request, self.clock, CREATE, made["name"], detail))
        return await self._page(request, made=made)

    async def revoke(self, request: Request) -> Done:
        """Let a key open nothing any more."""
        name = request.path_params["name"]
        await self.keys.revoke({"name": name})
        return Done(text=f"The key {name} opens nothing any more. Its conversations stay.", subject=name)

    async def _page(self, request: Request, *, made: Mapping[str, str] | None = None) -> Page:
        look = asked(request.query_params, columns=COLUMNS, descending=COLUMNS[1:], filters={"state": get_args(State)})
        now = self.clock.now()
        rows = [row for row in await self.keys.all() if look.chosen["state"] in ("", state_of(row, now))]
        page = listed(rows, look, key=_ORDERS[look.sort], words=_words)
        ids = {ConversationId(place) for row in page.rows for place in row.places if place != EVERYWHERE}
        names = await self.database.read(lambda conn: conversation_list.names(conn, ids))
        values = {
            "listing": page,
            "keys": [_shown(row, names, now) for row in page.rows],
            "states": [(state, state) for state in get_args(State)],
            "scopes": SCOPES,
            "most_days": MOST_DAYS,
            "per_minute": PER_MINUTE,
            "most_per_minute": MOST_PER_MINUTE,
            "made": made,
        }
        return Page(template="api_keys.html", values=values)


_ORDERS: Mapping[str, Callable[[KeyRow], object]] = {
    "name": lambda row: row.name,
    "created": lambda row: row.created_at,
    "used": lambda row: row.used_at or 0,
    "expires": lambda row: row.expires_at or 0,
}


def _words(row: KeyRow) -> str:
    return " ".join((row.name, row.shown, *row.scopes, *row.places))


def _shown(row: KeyRow, names: Mapping[ConversationId, str], now: datetime) -> ShownKey:
    places = {place: "all chats" if place == EVERYWHERE else names[ConversationId(place)] for place in row.places}
    return ShownKey(
        row=row,
        key=f"{PREFIX}…{row.shown}",
        state=state_of(row, now),
        places=places,
        created_at=from_timestamp(row.created_at),
        expires_at=_moment(row.expires_at),
        revoked_at=_moment(row.revoked_at),
        used_at=_moment(row.used_at),
    )


def _moment(at: int | None) -> datetime | None:
    return from_timestamp(at) if at is not None else None
