"""An MCP server of the protocol before 2026 over stdio: its questions do not say which call they are about."""

import json
import sys
from typing import Any

SIZE = {"type": "object", "properties": {"size": {"type": "string", "title": "Size"}}, "required": ["size"]}
TOOL = {"name": "order", "description": "Orders after a question.", "inputSchema": {"type": "object", "properties": {}}}


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def answer(method: str, id: Any) -> None:
    match method:
        case "initialize":
            info = {"name": "older", "version": "1"}
            send(id=id, result={"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info})
        case "tools/list":
            send(id=id, result={"tools": [TOOL]})
        case "tools/call":
            params = {"message": "Which size?", "requestedSchema": SIZE}
            send(id=f"about {id}", method="elicitation/create", params=params)
        case "ping":
            send(id=id, result={})
        case _:
            send(id=id, error={"code": -32601, "message": "Method not found"})


for line in sys.stdin:
    heard = json.loads(line)
    if "method" in heard:
        if "id" in heard:
            answer(heard["method"], heard["id"])
        continue
    given = heard.get("result", {})
    text = f"{given.get('action')}: {(given.get('content') or {}).get('size')}"
    call = int(str(heard["id"]).removeprefix("about "))
    send(id=call, result={"content": [{"type": "text", "text": text}]})
