"""Webhooks of other services: how each of the configuration stands, its refusals, and the deliveries that it took."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection
from starlette.requests import Request

from agent.core.ids import ConversationId
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp
from gateway.dashboard.frame.listing import PAGE, asked, listing
from gateway.dashboard.frame.shell import Done, Entry, Page, action, view
from gateway.storage import conversation_list, webhook_rows
from gateway.storage.webhook_rows import WebhookRow
from gateway.web.control import OperationError
from gateway.webhooks.door import WebhookDoor, WebhookRefusals
from gateway.webhooks.settings import WebhookSection

LONGEST_ID = 40  # characters of a sender's id that a page shows


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownWebhook:
    """A webhook as the page shows it; `entry` is its place in the configuration. Without its secret."""

    hook: WebhookSection
    entry: int
    newest_at: datetime | None
    waiting: int
    refusals: WebhookRefusals | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDelivery:
    """A delivery as the page shows it: its state in the words and the look of other pages. Without what it said."""

    row: WebhookRow
    delivery: str
    state: str
    look: str
    why: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookPages:
    """The page of the webhooks, and an end to what waits."""

    door: WebhookDoor
    database: Database
    redact: Callable[[str], str]

    @property
    def entries(self) -> Sequence[Entry]:
        """Its routes."""
        return (
            view("/programs/webhooks", self.all),
            action("/programs/webhook/drop/{name}", self.drop, name="programs.webhook_drop"),
        )

    async def all(self, request: Request) -> Page:
        """The webhooks of the configuration, and the deliveries by pages."""
        look = asked(request.query_params, filters={"webhook": ()})
        standings = await self.door.deliveries.standings(self.door.settings())
        entries = {id(hook): index for index, hook in enumerate(self.door.settings())}
        shown = [
            ShownWebhook(
                hook=one.hook,
                entry=entries.get(id(one.hook), 0),
                newest_at=from_timestamp(one.newest_at) if one.newest_at is not None else None,
                waiting=one.waiting,
                refusals=(refusals := self.door.refused.get(one.hook.name)),
                why=self.redact(refusals.text) if refusals is not None else "",
            )
            for one in standings
        ]
        chosen = look.chosen["webhook"]

        def read(conn: Connection) -> tuple[Sequence[WebhookRow], dict[ConversationId, str]]:
            rows = webhook_rows.newest(conn, webhook=chosen, most=PAGE + 1, skip=look.skip)
            keys = {row.conversation for row in rows} | {ConversationId(one.hook.place) for one in standings}
            return rows, dict(conversation_list.names(conn, keys))

        rows, names = await self.database.read(read)
        values = {
            "webhooks": shown,
            "listing": listing(rows, look),
            "deliveries": [self._shown(row) for row in rows[:PAGE]],
            "chosen": chosen,
            "names": names,
            "unknown": self.door.refused.get(""),
        }
        return Page(template="webhooks.html", values=values, live=True)

    async def drop(self, request: Request) -> Done:
        """Let the turns of a webhook that wait never begin."""
        name = request.path_params["name"]
        count = await self.door.deliveries.drop(name)
        if not count:
            raise OperationError(f"no turn of {name} waits")
        some = f"{count:,} turn{'s' if count != 1 else ''} of {name} will not begin"
        return Done(text=f"{some}.", subject=name, detail=f"{count}")

    def _shown(self, row: WebhookRow) -> ShownDelivery:
        state, look = _state(row)
        id = row.delivery if len(row.delivery) <= LONGEST_ID else f"{row.delivery[: LONGEST_ID - 1]}…"
        is_wrong = look in ("failed", "paused")
        return ShownDelivery(
            row=row,
            delivery=id,
            state=state,
            look=look,
            why=self.redact(row.note) if is_wrong else "",
            at=from_timestamp(row.created_at),
        )


def _state(row: WebhookRow) -> tuple[str, str]:
    """The outcome in words, and the class of its mark."""
    match row.status:
        case "sent":
            return "said", "connected"
        case "done":
            return ("the turn failed", "failed") if row.failed else ("answered", "connected")
        case "dead":
            return ("put aside" if row.kind == "turn" else "not delivered"), "failed"
        case "refused" | "dropped":
            return "dropped", "paused"
        case _:
            return "waits" if not row.run else "answering", "reconnecting"
