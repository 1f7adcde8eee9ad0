"""Judges of each kind of hostile input: one word from the product, which the case expects."""

import re
import unicodedata
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any

from agent.core.errors import OutOfScope, ToolError
from agent.core.ids import PersonId
from agent.core.untrusted_text import TAGS, framed
from agent.inbox import Incoming, Work
from agent.run.messages import user_message
from agent.tools.approvals import may_decide
from agent.tools.files.paths import ROOT, grounded
from agent.tools.mcp.offers import WITHHELD, Offer, shown_of
from agent.tools.mcp.settings import ServerSettings
from agent.tools.settings import WebSettings
from agent.tools.shell.policy import judged
from agent.tools.web.addresses import target_of
from agent.tools.web.resolve import look_up, resolved

Case = Mapping[str, Any]
WORKSPACE = PurePosixPath("/data/workspaces/telegram%3A77")
_TAG = re.compile(rf"<\s*/?\s*(?:{'|'.join(TAGS)})\b", re.IGNORECASE)
_UNSEEN = frozenset({"Cf", "Mn"})


async def shell(case: Case) -> str:
    in_open = case.get("open", False)
    return judged(case["text"], sandboxed=not in_open, root="" if in_open else ROOT).gate


async def path(case: Case) -> str:
    try:
        names = grounded(case["text"], ("src",), WORKSPACE)
    except OutOfScope:
        return "refused"
    return "inside" if not {"..", ".", ""} & set(names) else "out"


async def url(case: Case) -> str:
    async def known(host: str, port: int) -> Sequence[str]:
        return list(case["resolves"])

    try:
        await resolved(target_of(case["text"], WebSettings()), known if "resolves" in case else look_up)
    except ToolError:
        return "refused"
    return "public"


async def result(case: Case) -> str:
    text = framed(case["text"], "web_fetch")
    first, _, rest = text.partition("\n")
    inner, _, last = rest.rpartition("\n")
    whole = first == '<untrusted source="web_fetch">' and last == "</untrusted>"
    return "defused" if whole and not _TAG.search(_as_read(inner)) else "open"


async def message(case: Case) -> str:
    incoming = Incoming(text=case["text"], person=PersonId("telegram:77"), received_at=datetime(2026, 1, 1, tzinfo=UTC))
    work = Work(inbox_ids=(1,), kind="message", incoming=incoming, attempt=1, epoch=1)
    return "defused" if not _TAG.search(user_message(work, incoming.received_at).content) else "open"


async def description(case: Case) -> str:
    schema = {"type": "object", "properties": {"a": {"type": "string", "description": case["text"]}}}
    offer = Offer(name="x", description=case["text"], schema=schema)
    (spec,) = shown_of([offer], ServerSettings(name="s", command="x")).specs.values()
    both = WITHHELD in spec.description and spec.schema["properties"]["a"]["description"] == WITHHELD
    return "withheld" if both else "shown" if case["text"] in spec.description else "changed"


async def approval(case: Case) -> str:
    asked = PersonId(case["asked"]) if "asked" in case else None
    return "taken" if may_decide(case["by"], requester=asked, approvers=("telegram:1",)) else "refused"


JUDGES: Mapping[str, Callable[[Case], Awaitable[str]]] = {
    "shell": shell,
    "path": path,
    "url": url,
    "result": result,
    "message": message,
    "description": description,
    "approval": approval,
}


def _as_read(text: str) -> str:
    """As a model may read it: without what cannot be seen, with every bracket and letter in its plain form."""
    seen = "".join(sign for sign in text if unicodedata.category(sign) not in _UNSEEN)
    return unicodedata.normalize("NFKC", seen).translate({ord(sign): "<" for sign in "‹〈⟨"})
