"""The visible tools as bytes, made once for each frozen schema and then always the same (SPEC §6.5)."""

from collections.abc import Callable

from agent.providers.provider import ToolSchema

KEPT = 64  # schemas; conversations share most of them


class SchemaBytes:
    """Keeps what `encode` made of a schema, by identity: the agent hands over the same object until it is dirty."""

    def __init__(self, encode: Callable[[ToolSchema], bytes]) -> None:
        self._encode = encode
        self._kept: dict[int, tuple[ToolSchema, bytes]] = {}  # the schema is held, so that its id stays its own

    def of(self, schema: ToolSchema) -> bytes:
        kept = self._kept.get(id(schema))
        if kept is None:
            if len(self._kept) >= KEPT:
                del self._kept[next(iter(self._kept))]
            kept = self._kept[id(schema)] = (schema, self._encode(schema))
        return kept[1]
