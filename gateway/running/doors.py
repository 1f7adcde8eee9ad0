"""Doors for other programs: `/v1` as OpenAI's clients know it, `/api` in the gateway's own form, and their keys."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route

from agent.core.events import EventBus
from gateway.api.entrance import Entrance
from gateway.api.http import PlacesDoor
from gateway.api.keys import ApiKeys
from gateway.api.mcp_door import McpDoor
from gateway.api.openai.door import CONVERSATION, ONCE, OpenAiDoor
from gateway.api.openai.names import ModelNames
from gateway.api.openai.parts import Limits
from gateway.api.openapi import description
from gateway.api.places import Places
from gateway.api.reading import Reading
from gateway.api.single_calls import SingleCalls
from gateway.api.turns import Turns
from gateway.api.uploads import Uploads
from gateway.channels.keys import ConversationKey
from gateway.commands.place.fields import LANGUAGE_SETTING
from gateway.config.live import Live
from gateway.conversations.place_settings import PlaceSettings
from gateway.delivery.egress import Guard
from gateway.running.accounts.accounts import Accounts
from gateway.running.basics import Basics
from gateway.running.messaging import Messaging
from gateway.running.models import ModelAccess
from gateway.running.tools import ToolServices
from gateway.running.turns import TurnServices
from gateway.webhooks.deliveries import WebhookDeliveries
from gateway.webhooks.door import WebhookDoor

Operation = Callable[[Mapping[str, Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Doors:
    """`mounts` are served to anybody: each door asks for a key itself. `operations` are those of `tieline`.

    `large` are the paths of mounts whose bodies may hold files.
    """

    mounts: Sequence[Mount]
    large: frozenset[str]
    operations: Mapping[str, Operation]
    keys: ApiKeys
    webhooks: WebhookDoor
    run: Callable[[], Awaitable[None]]  # what works beside requests, until cancelled


class _Origins(CORSMiddleware):
    """Pages of these origins may ask, as the configuration says now."""

    def __init__(self, app: Any, live: Live) -> None:
        super().__init__(
            app,
            allow_methods=("GET", "POST"),
            allow_headers=("authorization", "content-type", CONVERSATION, ONCE),
            max_age=600,
        )
        self._live = live

    def is_allowed_origin(self, origin: str) -> bool:
        return origin in self._live.settings.api.origins


def install_doors(
    basics: Basics,
    accounts: Accounts,
    messaging: Messaging,
    models: ModelAccess,
    tools: ToolServices,
    turns: TurnServices,
    place_settings: PlaceSettings,
    settle: Callable[[], Awaitable[None]],
    bus: EventBus,
) -> Doors:
    """`settle` writes the usage of calls that waits to be written; `bus` carries the events of the programs' turns."""
    guard = Guard(basics.redact.found, basics.redact.begun)
    keys = ApiKeys(basics.database, basics.clock)
    entrance = Entrance(keys)
    uploads = Uploads(basics.home, basics.files)
    asked = Turns(basics.database, bus, accounts.admit, guard, settle, uploads)

    def limits() -> Limits:
        settings = basics.live.settings
        return Limits(file_mb=settings.retention.attachment_mb, hears=bool(settings.transcription.provider))

    openai = OpenAiDoor(
        entrance=entrance,
        turns=asked,
        single=SingleCalls(
            models.models,
            models.providers,
            guard,
            lambda: basics.live.settings.timeouts,
            turns.factory.models_allowed,
            uploads,
        ),
        names=ModelNames(models.providers, tools.definitions),
        settings=place_settings,
        clock=basics.clock,
        started_s=int(basics.clock.now().timestamp()),
        limits=limits,
    )

    def language_of(place: ConversationKey) -> str:
        return place_settings.get(LANGUAGE_SETTING, place) or "en"

    places = Places(
        basics.database,
        basics.clock,
        basics.home,
        basics.files,
        channel=accounts.channel,
        deliver=messaging.delivery.wake,
        work=turns.dispatcher.wake,
        language_of=language_of,
    )

    mcp = McpDoor(entrance, places, asked, Reading(basics.database, guard), version("tieline"))

    async def describe(request: Request) -> Response:
        return JSONResponse(description(version("tieline"), str(request.base_url).removesuffix("api/").rstrip("/")))

    webhooks = WebhookDoor(
        settings=lambda: basics.live.settings.webhooks,
        deliveries=WebhookDeliveries(
            basics.database,
            basics.clock,
            deliver=messaging.delivery.wake,
            work=turns.dispatcher.wake,
            language_of=language_of,
        ),
        serves=lambda account: any(one.channel_type == account for one in basics.live.settings.channels),
        clock=basics.clock,
    )
    own = PlacesDoor(entrance=entrance, places=places, turns=asked)
    origins = [Middleware(_Origins, live=basics.live)]
    others = (Route("/mcp", mcp), Route("/openapi.json", describe))
    return Doors(
        mounts=(
            Mount("/v1", routes=list(openai.routes), middleware=origins),
            Mount("/api", routes=[*own.routes, *webhooks.routes, *others], middleware=origins),
        ),
        large=frozenset(["/v1"]),
        operations={**own.table(), **webhooks.table()},
        keys=keys,
        webhooks=webhooks,
        run=mcp.run,
    )
