"""The description of the doors (OpenAPI 3.1), as `GET /api/openapi.json` gives it to anybody. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.api.openai.parts import SOUND_PART, SOUNDS, TEXT_PARTS
from gateway.api.openai.requests import MOST_MESSAGES, MOST_NAME
from gateway.api.places import LONGEST

_TEXT = {"type": "string", "minLength": 1, "maxLength": LONGEST}
_PLACE = {"type": "string", "description": "A chat, such as telegram:77 or slack:T0/C0.", "pattern": "^[^:]+:.*$"}
_ONCE = {
    "name": "Idempotency-Key",
    "in": "header",
    "schema": {"type": "string", "maxLength": 255},
    "description": "The same request once more gets the same answer, and is not carried out twice.",
}
_CONVERSATION = {
    "name": "X-Tieline-Conversation",
    "in": "header",
    "schema": {"type": "string", "maxLength": MOST_NAME},
    "description": "The conversation that the gateway keeps. Without one the sent history is all there is.",
}
_DATA_URL = {
    "type": "string",
    "pattern": "^data:[^;,]+(;[^,]*)?;base64,",
    "description": "The bytes as a data URL. Nothing is fetched from elsewhere.",
}
_DETAIL = {"enum": ["auto", None]}
_FILE_NAME = {"type": ["string", "null"]}


def _object(required: Sequence[str], **properties: Any) -> Mapping[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required)}


def _part(kinds: Sequence[str], required: Sequence[str], **properties: Any) -> Mapping[str, Any]:
    return _object(["type", *required], type={"enum": list(kinds)}, **properties)


def _messages(*files: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of messages; the parts of a user's may be files in these forms."""
    part = {"anyOf": [_part(TEXT_PARTS, ["text"], text={"type": "string"}), *files]}
    content = {"anyOf": [{"type": "string"}, {"type": "array", "items": part}]}
    role = {"enum": ["system", "developer", "user", "assistant"]}
    return {
        "type": "array",
        "items": _object(["role", "content"], role=role, content=content),
        "minItems": 1,
        "maxItems": MOST_MESSAGES,
    }


_SOUND = _object(["data", "format"], data={"type": "string", "format": "byte"}, format={"enum": list(SOUNDS)})
_MESSAGES = _messages(
    _part(["image_url"], ["image_url"], image_url=_object(["url"], url=_DATA_URL, detail=_DETAIL)),
    _part(["file"], ["file"], file=_object(["file_data"], filename=_FILE_NAME, file_data=_DATA_URL)),
    _part([SOUND_PART], [SOUND_PART], input_audio=_SOUND),
)
_INPUT = _messages(
    _part(["input_image"], ["image_url"], image_url=_DATA_URL, detail=_DETAIL),
    _part(["input_file"], ["file_data"], filename=_FILE_NAME, file_data=_DATA_URL),
)
_MODEL = {"type": "string", "maxLength": MOST_NAME, "description": "One of GET /v1/models."}
_USER = {"type": ["string", "null"], "maxLength": MOST_NAME, "description": "Names the conversation, too."}
_CHAT = {
    "type": "object",
    "properties": {
        "model": _MODEL,
        "messages": _MESSAGES,
        "user": _USER,
        "stream": {"type": ["boolean", "null"]},
        "stream_options": {"type": ["object", "null"], "properties": {"include_usage": {"type": "boolean"}}},
        "max_completion_tokens": {"type": ["integer", "null"], "minimum": 1},
    },
    "required": ["model", "messages"],
}
_RESPONSE = {
    "type": "object",
    "properties": {
        "model": _MODEL,
        "input": {"anyOf": [{"type": "string"}, _INPUT]},
        "instructions": {"type": ["string", "null"]},
        "previous_response_id": {"type": ["string", "null"], "maxLength": MOST_NAME},
        "conversation": {"type": ["string", "object", "null"]},
        "user": _USER,
        "stream": {"type": ["boolean", "null"]},
        "max_output_tokens": {"type": ["integer", "null"], "minimum": 1},
    },
    "required": ["model", "input"],
}
_WORDS = {"type": "object", "properties": {"place": _PLACE, "text": _TEXT}, "required": ["place", "text"]}
_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
            "required": ["message", "type", "param", "code"],
        }
    },
    "required": ["error"],
}


def description(version: str, url: str) -> Mapping[str, Any]:
    """The whole description, for a gateway at this address."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tieline", "version": version},
        "servers": [{"url": url}],
        "security": [{"key": []}],
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR},
        },
        "paths": {
            "/v1/models": _get("List the models: providers and personas.", "chat"),
            "/v1/models/{name}": _get("Show one model.", "chat", named=True),
            "/v1/chat/completions": _post(
                "Answer, in a conversation or without.", "chat", _CHAT, [_CONVERSATION, _ONCE]
            ),
            "/v1/responses": _post("Answer as a response.", "chat", _RESPONSE, [_CONVERSATION, _ONCE]),
            "/api/send": _post("Say something in a chat, as the bot.", "send", _WORDS, [_ONCE]),
            "/api/ask": _post("Have something answered in a chat.", "ask", _WORDS, [_ONCE]),
            "/api/hooks/{name}": {"post": _webhook()},
        },
    }


def _get(about: str, scope: str, *, named: bool = False) -> Mapping[str, Any]:
    name = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
    return {"get": _operation(about, scope, [name] if named else [])}


def _post(about: str, scope: str, body: Mapping[str, Any], headers: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    content = {"application/json": {"schema": body}}
    return {"post": {**_operation(about, scope, headers), "requestBody": {"required": True, "content": content}}}


def _webhook() -> Mapping[str, Any]:
    """The door for services with a signature of their own in place of a key."""
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    told = {
        "200": "Nothing is to be done: it came again, or its event is not wanted.",
        "202": "Stored.",
        "400": "It is no JSON, or was signed at another time.",
        "401": "The signature does not fit.",
        "404": "There is no such webhook.",
        "413": "It is too large.",
        "422": "The template of the webhook fails on it.",
        "503": "Not now; `retry-after` says when.",
    }
    return {
        "summary": "Take a webhook of another service.",
        "description": "Signed as its section of the configuration says.",
        "security": [],
        "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": {}}}},
        "responses": {
            status: {"description": about, **({} if status.startswith("2") else {"content": error})}
            for status, about in told.items()
        },
    }


def _operation(about: str, scope: str, parameters: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    refused = {
        status: {"description": told, "content": error}
        for status, told in {
            "400": "The request is wrong; `param` names the field.",
            "401": "There is no key, or it does not hold.",
            "403": f"The key lacks the scope {scope}, or does not reach the place.",
            "404": "There is no such thing.",
            "413": "The request, or a file in it, is too large.",
            "429": "Too many requests, or a budget is used up.",
            "503": "Not now; `retry-after` says when.",
        }.items()
    }
    return {
        "summary": about,
        "description": f"Scope: {scope}.",
        "parameters": list(parameters),
        "responses": {"200": {"description": "Done."}, **refused},
    }
