"""HTTP routes of the page. The gateway has signed the person in and checked where the request comes from."""

import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

import anyio.to_thread
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from adapters.web.channel import Shelves
from adapters.web.chat_session import ChatSession
from adapters.web.chat_sessions import ChatSessions, StillAnswering, TooMany, channel_id
from adapters.web.messages import Shown, ShownFile, asked_by, file_as_json
from adapters.web.parse import Posted, PostedAgain, PostedName, PostedPress, PostedStop, pressed, retry, said, stop
from agent.core.clock import Clock
from agent.core.errors import Transient
from gateway.channels.adapter import Admit, Fullness, SignedIn
from gateway.channels.errors import ChannelGone, GatewayUnavailable
from gateway.channels.inbound import Inbound, Outcome, Receipt
from gateway.channels.keys import ConversationKey
from gateway.channels.media import safe_name

# Actions on the page: admitted first, shown at once, kept when the gateway has taken them.

log = logging.getLogger("tieline.web")


class NotListening(Exception):
    """The gateway cannot take anything now; the page tries again by itself."""


class ChatHandlers:
    """`admit` is set while the adapter runs."""

    def __init__(self, channel_type: str, sessions: ChatSessions, clock: Clock) -> None:
        self._channel_type = channel_type
        self._sessions = sessions
        self._clock = clock
        self.admit: Admit | None = None

    async def say(
        self, channel_id: str, posted: Posted, files: Sequence[ShownFile], person: SignedIn, languages: str | None
    ) -> Receipt:
        """A message. Posting it again changes nothing, also after a restart: its id is the page's."""
        session = await self._sessions.open(channel_id)
        key = ConversationKey(self._channel_type, channel_id)
        inbound = said(key, posted, files, person=person, languages=languages, at=self._clock.now())
        known = session.get(posted.id)
        # Shown before it is admitted: the answer may come before `admit` returns, and belongs below it.
        shown = known or session.appear(id=posted.id, who="person", text=posted.text, files=tuple(files))
        try:
            receipt = await self._admit(inbound)
        except NotListening:
            if known is None:
                session.vanish(posted.id)
            raise
        if known is None:
            await self._keep(session, _noted(shown, receipt))
            self._sessions.notify_elsewhere(channel_id, shown)
        return receipt

    async def press(
        self, channel_id: str, posted: PostedPress, person: SignedIn, languages: str | None
    ) -> Receipt:  # fmt: skip
        """A button."""
        key = ConversationKey(self._channel_type, channel_id)
        return await self._admit(pressed(key, posted, person=person, languages=languages, at=self._clock.now()))

    async def stop(self, channel_id: str, posted: PostedStop, person: SignedIn, languages: str | None) -> Receipt:
        """The stop button."""
        key = ConversationKey(self._channel_type, channel_id)
        return await self._admit(stop(key, posted, person=person, languages=languages, at=self._clock.now()))

    async def retry(
        self, channel_id: str, posted: PostedAgain, asked: str, person: SignedIn, languages: str | None
    ) -> Receipt:
        """The button below the newest answer."""
        key = ConversationKey(self._channel_type, channel_id)
        return await self._admit(
            retry(key, posted, asked, person=person, languages=languages, at=self._clock.now())
        )  # fmt: skip

    async def _admit(self, inbound: Inbound) -> Receipt:
        if self.admit is None:
            raise NotListening("Tieline is starting or stopping")
        try:
            return await self.admit(inbound)
        except GatewayUnavailable as error:  # the page keeps the message and posts it again
            raise NotListening("the message could not be stored") from error

    async def _keep(self, session: ChatSession, shown: Shown) -> None:
        """The message is in the inbox already; a journal that cannot be written costs only the view after a restart."""
        try:
            if shown.note:
                await session.change(shown)
            await session.keep(shown)
        except OSError as error:
            log.warning("the web chat's journal cannot be written: %s", error)


def _noted(shown: Shown, receipt: Receipt) -> Shown:
    if receipt.outcome in {Outcome.ACCEPTED, Outcome.DUPLICATE}:
        return shown
    return replace(shown, note=receipt.reason or "not accepted")


if TYPE_CHECKING:
    from jinja2 import Template

BROWSER = Path(__file__).parent / "browser"

LONGEST_SEARCH = 200  # characters


Body = TypeVar("Body", bound=BaseModel)


class Routes:
    """The endpoints; what they cause is in `talk`."""

    def __init__(
        self,
        talk: ChatHandlers,
        sessions: ChatSessions,
        shelves: Shelves,
        fullness: Callable[[str], Fullness | None],
        only_demo: Callable[[], bool],
    ) -> None:
        """`fullness` tells how full the model's window is, by channel id; `only_demo` whether no model is connected."""
        self._only_demo = only_demo
        self._fullness = fullness
        self._talk = talk
        self._sessions = sessions
        self._shelves = shelves

    @property
    def all(self) -> Sequence[BaseRoute]:
        return [
            Route("/", self._show_page),
            Mount("/browser", StaticFiles(directory=BROWSER)),
            Route("/conversations", self._conversations, methods=["GET"]),
            Route("/conversations", self._new_conversation, methods=["POST"]),
            Route("/c/{room}/rename", self._rename, methods=["POST"]),
            Route("/c/{room}/delete", self._delete, methods=["POST"]),
            Route("/c/{room}/events", self._events),
            Route("/c/{room}/older", self._older),
            Route("/c/{room}/window", self._window),
            Route("/c/{room}/messages", self._post, methods=["POST"]),
            Route("/c/{room}/press", self._press, methods=["POST"]),
            Route("/c/{room}/stop", self._stop, methods=["POST"]),
            Route("/c/{room}/again", self._again, methods=["POST"]),
            Route("/files", self._upload, methods=["POST"]),
            Route("/files/{id}", self._download),
        ]

    async def _show_page(self, request: Request) -> Response:
        page = await anyio.to_thread.run_sync(_page)
        state = request.state
        most_upload = getattr(state, "most_upload", 0)  # bytes; 0: not known, the upload itself is refused
        return HTMLResponse(page.render(csrf=state.csrf, person=state.person.display, most_upload=most_upload))

    async def _conversations(self, request: Request) -> Response:
        try:
            person, words = _person(request).id, request.query_params.get("find", "")[:LONGEST_SEARCH]
            entries = await (self._sessions.find(person, words) if words.strip() else self._sessions.list(person))
        except OSError as error:
            raise _no_disk(error) from error
        listed = [entry.as_json() for entry in entries]
        return JSONResponse({"conversations": listed, "only_demo": self._only_demo()})

    async def _new_conversation(self, request: Request) -> Response:
        try:
            return JSONResponse({"id": await self._sessions.new(_person(request).id)}, status_code=201)
        except TooMany as error:
            raise HTTPException(409, str(error)) from error

    async def _rename(self, request: Request) -> Response:
        posted = await _body(request, PostedName)
        try:
            await self._sessions.rename(_channel_id(request), " ".join(posted.title.split()))
        except OSError as error:
            raise _no_disk(error) from error
        return JSONResponse({})

    async def _delete(self, request: Request) -> Response:
        try:
            await self._sessions.remove(_channel_id(request))
        except StillAnswering as error:
            raise HTTPException(409, str(error)) from error
        except OSError as error:
            raise _no_disk(error) from error
        return JSONResponse({})

    async def _events(self, request: Request) -> Response:
        session = await self._session(request)
        after = request.headers.get("last-event-id") or request.query_params.get("after")
        return StreamingResponse(
            _as_sse(session, after, request.state.is_over),
            media_type="text/event-stream",
            headers={"x-accel-buffering": "no"},
        )

    async def _older(self, request: Request) -> Response:
        before = request.query_params.get("before", "")
        if not (before.isascii() and before.isdigit() and len(before) < 16):
            raise HTTPException(400, "before must be the order of a message")
        messages, has_older = (await self._session(request)).older(int(before))
        return JSONResponse({"messages": messages, "has_older": has_older})

    async def _window(self, request: Request) -> Response:
        """How full the model's window is; null while that is not known."""
        full = self._fullness(_channel_id(request))
        return JSONResponse({"window": asdict(full) if full is not None else None})

    async def _post(self, request: Request) -> Response:
        posted = await _body(request, Posted)
        person = _person(request)
        found = [await self._find(person, id) for id in posted.files]
        files = [each[0] for each in found if each is not None]
        if len(files) < len(found):
            raise HTTPException(400, "an attached file is no longer there; attach it again")
        if not posted.text.strip() and not files:
            raise HTTPException(400, "the message is empty")
        return await self._answer(self._talk.say(_channel_id(request), posted, files, person, _languages(request)))

    async def _press(self, request: Request) -> Response:
        posted = await _body(request, PostedPress)
        shown = (await self._session(request)).get(posted.message)
        actions = [button.action for row in shown.buttons for button in row] if shown else []
        if posted.action not in actions:
            raise HTTPException(409, "this button is gone")
        return await self._answer(
            self._talk.press(_channel_id(request), posted, _person(request), _languages(request))
        )  # fmt: skip

    async def _stop(self, request: Request) -> Response:
        posted = await _body(request, PostedStop)
        return await self._answer(
            self._talk.stop(_channel_id(request), posted, _person(request), _languages(request))
        )  # fmt: skip

    async def _again(self, request: Request) -> Response:
        """Only the newest answer: the command would take that one back whichever was meant."""
        posted = await _body(request, PostedAgain)
        session = await self._session(request)
        newest = session.newest_answer
        if newest is None or newest.id != posted.message:
            raise HTTPException(409, "this is not the newest answer any more")
        if session.is_answering:
            raise HTTPException(409, "an answer is under way here")
        session.typing("")  # at once: another tab that shows the button may be pressed before the turn begins
        asked = asked_by(newest.answers or "")
        return await self._answer(
            self._talk.retry(_channel_id(request), posted, asked, _person(request), _languages(request))
        )  # fmt: skip

    async def _upload(self, request: Request) -> Response:
        name = safe_name(request.query_params.get("name", ""))
        mime_type = request.headers.get("content-type", "").partition(";")[0].strip() or "application/octet-stream"
        store = self._shelves.of(_person(request).id)
        try:
            file = await store.take(request.stream(), name=name, mime_type=mime_type)
        except OSError as error:
            log.warning("an upload could not be kept: %s", error)
            raise HTTPException(507, f"the file could not be kept: {error.strerror}") from error
        except Transient as error:
            raise _no_database(error) from error
        return JSONResponse(file_as_json(file), status_code=201)

    async def _download(self, request: Request) -> Response:
        found = await self._find(_person(request), request.path_params["id"])
        if found is None:
            raise HTTPException(404, "this file is no longer there")
        file, path = found
        # A file that could run in a page is never shown there: all but known pictures and sounds are downloads.
        shown = (file.is_image or file.is_sound) and "download" not in request.query_params
        name = quote(file.name)
        return FileResponse(
            path,
            media_type=file.mime_type if shown else "application/octet-stream",
            headers={
                "content-disposition": f"{'inline' if shown else 'attachment'}; filename*=UTF-8''{name}",
                "content-security-policy": "default-src 'none'; sandbox",
                "cache-control": "private, max-age=31536000, immutable",
            },
        )

    async def _find(self, person: SignedIn, id: str) -> tuple[ShownFile, Path] | None:
        """A file of the person. Raises HTTPException where it cannot be fetched."""
        try:
            return await self._shelves.of(person.id).find(id)
        except Transient as error:
            raise _no_database(error) from error
        except OSError as error:
            raise _no_disk(error) from error

    async def _session(self, request: Request) -> ChatSession:
        try:
            return await self._sessions.open(_channel_id(request))
        except OSError as error:
            raise _no_disk(error) from error

    async def _answer(self, receipt: Awaitable[Receipt]) -> Response:
        try:
            found = await receipt
        except NotListening as error:
            raise HTTPException(503, str(error), headers={"retry-after": "1"}) from error
        except OSError as error:
            raise _no_disk(error) from error
        return JSONResponse({"outcome": found.outcome, "reason": found.reason})


async def _as_sse(
    session: ChatSession, after: str | None, is_over: Callable[[], Awaitable[bool]]
) -> AsyncIterator[str]:
    async for id, event in session.events(after):
        if await is_over():  # signed out, perhaps from another copy of the cookie
            return
        if event is None:
            yield "event: alive\ndata: {}\n\n"  # a comment would not reach the page
        else:
            yield f"id: {id}\ndata: {json.dumps(event, ensure_ascii=False, default=list)}\n\n"


async def _body(request: Request, model: type[Body]) -> Body:
    try:
        return model.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise HTTPException(400, f"{where}: {first['msg']}" if where else first["msg"]) from error


@cache
def _page() -> "Template":
    """The chat page, read once."""
    from jinja2 import Environment, FileSystemLoader  # only here: the start does not wait for it

    return Environment(loader=FileSystemLoader(BROWSER), autoescape=True).get_template("chat.html")


def _no_database(error: Transient) -> HTTPException:
    log.warning("a file could not be stored or fetched: %s", error)
    return HTTPException(503, "files cannot be stored or fetched now; try again", headers={"retry-after": "5"})


def _no_disk(error: OSError) -> HTTPException:
    log.warning("the web chat's journal cannot be used: %s", error)
    return HTTPException(503, f"what is shown here cannot be read or kept: {error.strerror}")


def _person(request: Request) -> SignedIn:
    person: SignedIn = request.state.person
    return person


def _languages(request: Request) -> str | None:
    return request.headers.get("accept-language")


def _channel_id(request: Request) -> str:
    """The conversation of the path, of this person and nobody else."""
    try:
        return channel_id(_person(request).id, request.path_params["room"])
    except ChannelGone as error:
        raise HTTPException(404, "there is no such conversation") from error
