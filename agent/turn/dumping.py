"""Puts requests and replies of turns into the debug dump, while one is on (SPEC §20.1)."""

import json
from dataclasses import asdict

from agent.core.messages import Message
from agent.providers.provider import Request
from agent.providers.replies import Reply
from agent.turn.states import States


def dump_request(request: Request, states: States) -> None:
    """`NNNN-request.json`: what the model is about to get; in the form "raw" as text."""
    dumps = states.context.dumps
    if not dumps.on:
        return
    if dumps.form == "raw":
        said = ((message.role, message.content) for message in request.messages)
        prompt = "\n\n".join(filter(None, (request.system.stable, request.system.volatile)))
        everything = (("system", prompt), *said, ("reminder", request.reminder))
        dumps.write("request.txt", "\n\n".join(f"[{who}]\n{text}" for who, text in everything if text) + "\n")
        return
    written = {
        "system": asdict(request.system),
        "reminder": request.reminder,
        "tools": [spec.name for spec in request.tools.specs],
        "messages": [_plain(message) for message in request.messages],
    }
    dumps.write("request.json", json.dumps(written, ensure_ascii=False, indent=1, default=str))


def dump_reply(reply: Reply, states: States) -> None:
    """`NNNN-response.txt`: what came back."""
    dumps = states.context.dumps
    if dumps.on:
        calls = "".join(f"\n[{call.name} {json.dumps(dict(call.input), ensure_ascii=False)}]" for call in reply.calls)
        dumps.write("response.txt", f"{reply.text}{calls}\n")


def _plain(message: Message) -> dict[str, object]:
    return {"role": message.role, "id": message.id, "parts": [asdict(part) for part in message.parts]}
