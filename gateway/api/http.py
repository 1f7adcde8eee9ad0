"""The doors in the gateway's own form, below `/api`: words into chats, for programs and for `tieline`."""

import mimetypes
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic_core import from_json
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gateway.access.policy import OWNER
from gateway.api.entrance import Entrance
from gateway.api.keys import Key, Refused
from gateway.api.openai.door import LONGEST_ONCE, ONCE, refused_by
from gateway.api.places import Caller, Places
from gateway.api.refusals import BadRequest
from gateway.api.turns import NotTaken, Turns
from gateway.channels.keys import ConversationKey
from gateway.web.control import OperationError

OPERATOR = Caller(id=OWNER, display="operator", role="owner")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacesDoor:
    """Its routes check the key themselves; its operations come by the control socket, whose caller is the operator."""

    entrance: Entrance
    places: Places
    turns: Turns

    @property
    def routes(self) -> Sequence[Route]:
        return [
            Route("/send", self.entrance.door("send", self.send), methods=["POST"]),
            Route("/ask", self.entrance.door("ask", self.ask), methods=["POST"]),
        ]

    def table(self) -> Mapping[str, Any]:
        """The operations by the names that `tieline` uses."""
        return {"send": self.operator_sends, "ask": self.operator_asks}

    async def send(self, request: Request, key: Key) -> Response:
        fields = await _fields(request, {"place", "text"})
        sent = await self.places.send(
            self._place(fields, key), _text(fields), (), caller=_caller(key), once=_once(request)
        )
        return JSONResponse(asdict(sent), status_code=202 if sent.state == "waiting" else 200)

    async def ask(self, request: Request, key: Key) -> Response:
        fields = await _fields(request, {"place", "text"})
        begun = await self.places.ask(self._place(fields, key), _text(fields), caller=_caller(key), once=_once(request))
        answer = await self.turns.answer(begun)
        if (refused := refused_by(answer)) is not None:
            raise refused
        return JSONResponse({"id": answer.id, "text": answer.text, "state": answer.ended, "files": answer.files})

    async def operator_sends(self, arguments: Mapping[str, Any]) -> Any:
        """The same for who may open the control socket, with files of this machine."""
        try:
            place = self.places.place(arguments.get("place"))
            files = [_file(path) for path in arguments.get("files") or ()]
            once = secrets.token_hex(12)
            return asdict(
                await self.places.send(place, str(arguments.get("text") or ""), files, caller=OPERATOR, once=once)
            )
        except BadRequest as error:
            raise OperationError(str(error)) from error

    async def operator_asks(self, arguments: Mapping[str, Any]) -> Any:
        try:
            place = self.places.place(arguments.get("place"))
            text, once = str(arguments.get("text") or ""), secrets.token_hex(12)
            answer = await self.turns.answer(await self.places.ask(place, text, caller=OPERATOR, once=once))
        except (BadRequest, NotTaken) as error:
            raise OperationError(str(error)) from error
        return {"text": answer.text, "state": answer.ended, "files": list(answer.files)}

    def _place(self, fields: Mapping[str, Any], key: Key) -> ConversationKey:
        place = self.places.place(fields["place"])
        if not key.reaches(place):
            raise Refused(f"the API key {key.name} does not reach {place}", status=403, code="place_not_allowed")
        return place


def _caller(key: Key) -> Caller:
    return Caller(id=key.person, display=key.name, role="member")


def _once(request: Request) -> str:
    once = request.headers.get(ONCE, "")
    if len(once) > LONGEST_ONCE or not once.isprintable():
        raise BadRequest(f"Idempotency-Key: at most {LONGEST_ONCE} printable characters")
    return once or secrets.token_hex(16)


async def _fields(request: Request, needed: set[str]) -> Mapping[str, Any]:
    try:
        fields = from_json(await request.body())
    except ValueError as error:
        raise BadRequest(f"the body is no JSON: {error}") from error
    if not isinstance(fields, dict):
        raise BadRequest("the body must be a JSON object")
    for name in sorted(needed - fields.keys()):
        raise BadRequest(f"{name}: is missing", param=name)
    for name in sorted(fields.keys() - needed):
        raise BadRequest(f"{name[:100]}: is not known", param=name[:100], code="unsupported_parameter")
    return fields


def _text(fields: Mapping[str, Any]) -> str:
    text = fields["text"]
    if not isinstance(text, str):
        raise BadRequest("text: must be a text", param="text")
    return text


def _file(path: object) -> tuple[str, str, Path]:
    """Name, MIME type and place of a file of this machine."""
    file = Path(str(path))
    if not file.is_file():
        raise BadRequest(f"{file}: there is no such file", param="files")
    return file.name, mimetypes.guess_type(file.name)[0] or "application/octet-stream", file
