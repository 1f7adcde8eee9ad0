"""`POST /api/hooks/<name>`: the request of another service, checked by its signature and stored before the answer."""

import hashlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any
from urllib.parse import parse_qs

import anyio
from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from agent.core.clock import Clock
from agent.core.untrusted_text import LONG_TEXT, one_line, whole
from agent.storage.errors import StorageError
from gateway.access.policy import Flood, Take
from gateway.channels.errors import GatewayUnavailable
from gateway.webhooks.deliveries import MOST_WAITING, WebhookDeliveries, WebhookDelivery
from gateway.webhooks.settings import WebhookSection
from gateway.webhooks.signatures import BadSignature, OldTimestamp, check, event_of, id_of

LONGEST_SAID = 4_000  # characters
LONGEST_SHOWN = 16_000  # to the model
LONGEST_EVENT = 200
LONGEST_NAME = 64  # of what a sender names, in the log
FORM = "application/x-www-form-urlencoded"
PING = "ping"  # GitHub's first delivery, when a webhook was set up
LATER_S = 60
MOST_NOTED = 500  # names that payloads lack and that were logged: a template may make them of what a stranger wrote

_log = logging.getLogger("tieline.webhooks")


class WebhookRefused(Exception):
    """The request is not taken. The text is for whoever set the webhook up at the service."""

    def __init__(self, status: int, code: str, text: str, *, retry_after_s: int | None = None) -> None:
        super().__init__(text)
        self.status, self.code, self.retry_after_s = status, code, retry_after_s


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRefusals:
    """The refused requests of a webhook since the start: how many, and the last one's moment, status and reason."""

    count: int
    at: datetime
    status: int
    text: str


@dataclass(slots=True)
class WebhookDoor:
    """`settings` are the webhooks as the configuration says now, `serves` tells whether it has an account of that name.

    Refusals of a hook are logged, of many a few. `refused` are those since the start, by webhook; "": all other names.
    """

    settings: Callable[[], Sequence[WebhookSection]]
    deliveries: WebhookDeliveries
    serves: Callable[[str], bool]
    clock: Clock
    refused: dict[str, WebhookRefusals] = field(default_factory=dict)
    _templates: dict[str, tuple[WebhookSection, Any]] = field(default_factory=dict)
    _missing: set[tuple[str, str]] = field(default_factory=set)  # names that were told of
    _told: Flood = field(default_factory=lambda: Flood(per_s=1 / 60, burst=5))
    _nobody: str = field(default_factory=lambda: secrets.token_hex(32))  # signs for no hook

    @property
    def routes(self) -> Sequence[Route]:
        return [Route("/hooks/{name}", self.take, methods=["POST"])]

    def table(self) -> Mapping[str, Callable[[Mapping[str, Any]], Awaitable[object]]]:
        """The operations by the names that `tieline` uses."""
        return {"webhooks.list": self.list, "webhooks.drop": self.drop}

    async def list(self, _: Mapping[str, Any]) -> object:
        """All webhooks of the configuration, without what signs."""
        return await self.deliveries.listed(self.settings())

    async def drop(self, arguments: Mapping[str, Any]) -> object:
        """How many waiting turns of a webhook were dropped; the webhook may be gone from the configuration."""
        name = str(arguments.get("name", ""))
        count = await self.deliveries.drop(name)
        _log.info("webhook %s: an operator dropped %d deliveries that waited", one_line(name, LONGEST_NAME), count)
        return {"dropped": count}

    async def take(self, request: Request) -> Response:
        """Answer 2xx once it is stored, or needs not be."""
        name = str(request.path_params["name"])
        try:
            return await self._taken(name, request)
        except ClientDisconnect:
            return _refusal(WebhookRefused(400, "incomplete", "the client went away"))
        except HTTPException as error:
            refused = WebhookRefused(error.status_code, "unreadable", str(error.detail))
        except (StorageError, GatewayUnavailable):
            text = "the database cannot be reached now; send it again"
            refused = WebhookRefused(503, "unavailable", text, retry_after_s=5)
        except WebhookRefused as error:
            refused = error
        except Exception as error:  # noqa: BLE001 - the channel seam
            ref = hashlib.sha256(secrets.token_bytes(8)).hexdigest()[:8]
            _log.error("a webhook broke", exc_info=error, extra={"ref": ref})
            return _refusal(
                WebhookRefused(500, "internal_error", f"this request broke something here (reference {ref})")
            )
        self._note_refused(name, refused)
        return _refusal(refused)

    async def _taken(self, name: str, request: Request) -> Response:
        body = await request.body()
        hook = self._signed(name, request.headers, body)
        if not self.serves(hook.account):
            text = f"the account {hook.account} of its chat is not configured here"
            raise WebhookRefused(503, "unavailable", text, retry_after_s=LATER_S)
        if len(body) <= LONG_TEXT:
            await anyio.to_thread.run_sync(self._template_of, hook)  # which may load the template engine
            answer = self._read(hook, request.headers, body)
        else:
            answer = await anyio.to_thread.run_sync(self._read, hook, request.headers, body)
        if not isinstance(answer, WebhookDelivery):
            _log.debug("webhook %s: nothing to do: %s", hook.name, answer)
            return JSONResponse(answer)
        stored = await self.deliveries.store(hook, answer)
        if stored.full:
            text = f"{MOST_WAITING:,} deliveries wait in the chat of this webhook already; send it again later"
            raise WebhookRefused(503, "busy", text, retry_after_s=LATER_S)
        outcome = "came again" if stored.duplicate else "taken"
        _log.info("webhook %s: delivery %s %s", hook.name, one_line(answer.id, LONGEST_NAME) or "without id", outcome)
        if stored.duplicate:
            return JSONResponse({"duplicate": True})
        return JSONResponse({"accepted": True}, status_code=202)

    def _signed(self, name: str, headers: Mapping[str, str], body: bytes) -> WebhookSection:
        """The hook of that name, which the request is signed for. Raises WebhookRefused."""
        hook = next((one for one in self.settings() if one.name == name), None)
        try:
            # For a name that is not there the same work is done, so that the time tells none.
            check(
                hook.style if hook is not None else "github",
                headers,
                body,
                hook.secrets if hook is not None else (self._nobody,),
                self.clock.now(),
            )
        except BadSignature as error:
            if hook is not None:
                raise WebhookRefused(401, "bad_signature", str(error)) from error
        except OldTimestamp as error:
            raise WebhookRefused(400, "old_timestamp", str(error)) from error
        if hook is None:
            raise WebhookRefused(404, "unknown_webhook", "there is no webhook of this name")
        return hook

    def _read(
        self, hook: WebhookSection, headers: Mapping[str, str], body: bytes
    ) -> WebhookDelivery | dict[str, object]:
        """The delivery, or the answer where nothing is to be done. Raises WebhookRefused."""
        module = import_module("gateway.webhooks.template")
        payload = _payload(headers, body)
        event = event_of(hook.style, headers, payload)[:LONGEST_EVENT]
        if hook.style == "github" and event == PING:
            return {"ignored": PING}
        if hook.events and not any(fnmatchcase(event, pattern) for pattern in hook.events):
            return {"ignored": f"the event {whole(event)[:LONGEST_NAME]!r} is not among those of this webhook"}
        most = LONGEST_SAID if hook.mode == "say" else LONGEST_SHOWN
        template, shown = self._template_of(hook), module.bounded(payload)
        if template is None:
            text = module.whole_payload(shown, most)
        else:
            try:
                rendered = template.render(shown, most)
            except module.TemplateFailed as error:
                raise WebhookRefused(422, "template_failed", str(error)) from error
            text = rendered.text
            self._note_missing(hook, rendered.missing)
        if not text:
            return {"ignored": "the template gives no text for it"}
        return WebhookDelivery(id=_sound_id(id_of(hook.style, headers, payload)), body=body, text=text)

    def _template_of(self, hook: WebhookSection) -> Any:
        """Its template, compiled once for each change; None where it has none."""
        known, template = self._templates.get(hook.name, (None, None))
        if known != hook:
            made = import_module("gateway.webhooks.template").PayloadTemplate
            template = made(hook.template, markdown=hook.mode == "say") if hook.template.strip() else None
            self._templates[hook.name] = hook, template
        return template

    def _note_refused(self, name: str, refused: WebhookRefused) -> None:
        """Count it; log it where it is not one of many. Names of strangers are one: what they make up fills nothing."""
        known = any(hook.name == name for hook in self.settings())
        whose = name if known else ""
        before = self.refused[whose].count if whose in self.refused else 0
        now = self.clock.now()
        self.refused[whose] = WebhookRefusals(count=before + 1, at=now, status=refused.status, text=str(refused))
        if self._told.take(whose, self.clock.monotonic()) is Take.TAKEN:
            level = logging.WARNING if known else logging.INFO
            _log.log(level, "webhook %s refused a request: %s", one_line(name, LONGEST_NAME), refused)

    def _note_missing(self, hook: WebhookSection, names: frozenset[str]) -> None:
        """Log, once for each name while the process runs, that a value of the template is not there."""
        for name in sorted(names):
            if (hook.name, name) not in self._missing and len(self._missing) < MOST_NOTED:
                self._missing.add((hook.name, name))
                _log.warning("webhook %s: a payload has no %s; its template shows nothing there", hook.name, name)


def _payload(headers: Mapping[str, str], body: bytes) -> object:
    """The JSON of the body, or of the field `payload` of a form. Raises WebhookRefused."""
    is_form = headers.get("content-type", "").partition(";")[0].strip().lower() == FORM
    if is_form:
        try:
            found = parse_qs(body.decode(), max_num_fields=10).get("payload", [])
        except ValueError as error:
            raise WebhookRefused(
                400, "not_json", "the form of the body cannot be read; send application/json"
            ) from error
        # Without the field it may be JSON all the same: `curl -d` calls everything a form.
        body = found[0].encode() if len(found) == 1 else body
    try:
        payload: object = from_json(body)
    except ValueError as error:
        text = "the body is no JSON; choose application/json at the sender"
        if is_form and len(found) != 1:
            text = "the form has no field `payload`; send application/json"
        raise WebhookRefused(400, "not_json", text) from error
    return payload


def _sound_id(id: str) -> str:
    """An id that a database takes."""
    return whole(id).strip()


def _refusal(refused: WebhookRefused) -> JSONResponse:
    headers = {"retry-after": str(refused.retry_after_s)} if refused.retry_after_s is not None else None
    kind = "server_error" if refused.status >= 500 else "invalid_request_error"
    error = {"message": str(refused), "type": kind, "param": None, "code": refused.code}  # as all doors answer
    return JSONResponse({"error": error}, status_code=refused.status, headers=headers)
