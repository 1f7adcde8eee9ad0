"""Tool-call names and ids that every API accepts; ids are unique within one request (SPEC §6.10). Pure."""

import hashlib
import re
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from agent.core.messages import Message

_SAFE = re.compile(r"[A-Za-z0-9_-]{1,40}")  # Anthropic's alphabet, OpenAI's length
_SHORT = re.compile(r"[A-Za-z0-9]{9}")  # Mistral's
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")  # OpenAI's; Anthropic takes 128


@dataclass(frozen=True, slots=True)
class Ids:
    """The ids of one message, as they go over the wire."""

    uses: tuple[str, ...] = ()
    results: tuple[str, ...] = ()


NO_IDS = Ids()


def ids_of(message: Message) -> Ids | None:
    """The ids in a message; None for the many that have none."""
    uses, results = message.tool_uses, message.tool_results
    if not uses and not results:
        return None
    return Ids(tuple(wire_id(use.id) for use in uses), tuple(wire_id(result.tool_use_id) for result in results))


def wire_id(id: str) -> str:
    """`id` itself if every API accepts it, else a stable stand-in: another provider may have named the call."""
    return id if _SAFE.fullmatch(id) else "call_" + hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:24]


def wire_name(name: str) -> str:
    """The name of a call as every API accepts it: models make up names that are none of the tools'."""
    return name if _NAME.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "unknown"


def unique(messages: Sequence[Ids | None]) -> dict[int, Ids]:
    """New ids for the messages (by position) that repeat an id an earlier call had; empty when all is well."""
    seen: set[str] = set()
    if not any(_clashes(seen, ids.uses) for ids in messages if ids):
        return {}
    changed: dict[int, Ids] = {}
    taken: set[str] = {id for ids in messages if ids for id in ids.uses}
    seen = set()
    open_calls: dict[str, deque[str]] = {}
    for position, ids in enumerate(messages):
        if ids is None:
            continue
        if ids.uses:
            open_calls = {}
        uses = []
        for id in ids.uses:
            new = id if id not in seen else _free(id, taken)
            seen.add(new)
            taken.add(new)
            open_calls.setdefault(id, deque()).append(new)
            uses.append(new)
        results = [open_calls[id].popleft() if open_calls.get(id) else id for id in ids.results]
        renamed = Ids(tuple(uses), tuple(results))
        if renamed != ids:
            changed[position] = renamed
    return changed


def _clashes(seen: set[str], ids: Iterable[str]) -> bool:
    for id in ids:
        if id in seen:
            return True
        seen.add(id)
    return False


def short_id(id: str) -> str:
    """`id` itself if Mistral's API accepts it, else a stable stand-in."""
    return id if _SHORT.fullmatch(id) else hashlib.sha256(id.encode("utf-8", "replace")).hexdigest()[:9]


def _free(id: str, taken: set[str]) -> str:
    number, is_short = 2, _SHORT.fullmatch(id)
    while (candidate := short_id(f"{id}_{number}") if is_short else f"{id[:34]}_{number}") in taken:
        number += 1
    return candidate
