"""The tools with which a model sets, lists and cancels schedules; the gateway keeps them (`Schedules` is its port)."""

from collections.abc import Mapping
from typing import Any, Protocol

from agent.core.tools import ToolContext, ToolSpec

LONGEST_NAME, LONGEST_CRON, LONGEST_KIND, LONGEST_TEXT = 128, 64, 64, 512  # characters (G-16)

_NAME = {"type": "string", "description": "The same name again replaces it.",
         "minLength": 1, "maxLength": LONGEST_NAME}  # fmt: skip
_KIND = {
    "type": "string",
    "description": '"reminder": the text is sent to the people as it is. Any other word, such as "custom": you are '
    "woken with it as your task.",
    "minLength": 1,
    "maxLength": LONGEST_KIND,
}
_TEXT = {"type": "string", "description": "The reminder, or your task.", "minLength": 1,
         "maxLength": LONGEST_TEXT}  # fmt: skip
_ZONE = {
    "type": "string",
    "description": 'IANA name such as "Europe/Berlin". Left out: the person\'s zone if known, else UTC.',
    "maxLength": 64,
}


class Schedules(Protocol):
    """Where schedules are kept. Each call returns what the model shall read; raises ToolError with what is wrong.

    Safe to repeat: a name is there once in a conversation.
    """

    async def periodic(
        self, name: str, cron: str, kind: str, config: Mapping[str, Any], context: ToolContext
    ) -> str: ...

    async def deferred(
        self, name: str, run_at: str, kind: str, task: str, zone: str | None, context: ToolContext
    ) -> str: ...

    async def listed(self, context: ToolContext) -> str: ...

    async def cancel(self, name: str, context: ToolContext) -> str: ...


class SchedulePeriodic:
    """`schedule_periodic(name, cron, kind, config?)`: again and again."""

    spec = ToolSpec(
        name="schedule_periodic",
        description="Sets something that happens again and again in this conversation, by a cron line.",
        schema={
            "type": "object",
            "properties": {
                "name": _NAME,
                "cron": {
                    "type": "string",
                    "description": "5 fields (minute hour day month weekday) or 6 with seconds first, in the zone's "
                    'wall-clock time: "30 8 * * 1-5" is every weekday at 8:30.',
                    "minLength": 1,
                    "maxLength": LONGEST_CRON,
                },
                "kind": _KIND,
                "config": {
                    "type": "object",
                    "properties": {
                        "text": _TEXT,
                        "zone": _ZONE,
                        "late": {
                            "type": "string",
                            "description": "What becomes of missed times: skip, once, all, within, or within and "
                            "seconds. Left out: one run is made up for if it alone was missed.",
                            "maxLength": 32,
                        },
                    },
                    "additionalProperties": False,
                },
            },
            "required": ["name", "cron", "kind"],
            "additionalProperties": False,
        },
        concurrency_safe=False,
        retryable=True,
        risk="safe",
    )

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        config = arguments.get("config") or {}
        return await self._schedules.periodic(
            arguments["name"], arguments["cron"], arguments["kind"], config, context
        )  # fmt: skip


class ScheduleDeferred:
    """`schedule_deferred(name, run_at, kind, task?)`: once."""

    spec = ToolSpec(
        name="schedule_deferred",
        description="Sets something that happens once, later, in this conversation.",
        schema={
            "type": "object",
            "properties": {
                "name": _NAME,
                "run_at": {
                    "type": "string",
                    "description": 'ISO 8601, "+1h30m", "in 5 minutes", "today 14:00" or "tomorrow 09:30"; '
                    "in the future.",
                    "minLength": 1,
                    "maxLength": 64,
                },
                "kind": _KIND,
                "task": _TEXT,
                "zone": _ZONE,
            },
            "required": ["name", "run_at", "kind"],
            "additionalProperties": False,
        },
        concurrency_safe=False,
        retryable=True,
        risk="safe",
        core=True,
    )

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        task = arguments.get("task") or arguments["name"]
        return await self._schedules.deferred(
            arguments["name"], arguments["run_at"], arguments["kind"], task, arguments.get("zone"), context
        )


class ListSchedules:
    """`list_schedules()`: what is set in this conversation."""

    spec = ToolSpec(
        name="list_schedules",
        description="Lists the reminders and scheduled tasks of this conversation, with their next times.",
        schema={"type": "object", "properties": {}, "additionalProperties": False},
        retryable=True,
        category="info",
        risk="safe",
    )

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await self._schedules.listed(context)


class CancelTask:
    """`cancel_task(name)`: removes one."""

    spec = ToolSpec(
        name="cancel_task",
        description="Removes a reminder or scheduled task of this conversation, by its name or its number.",
        schema={
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1, "maxLength": LONGEST_NAME}},
            "required": ["name"],
            "additionalProperties": False,
        },
        concurrency_safe=False,
        risk="safe",
    )

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    async def run(self, arguments: Mapping[str, Any], context: ToolContext) -> str:
        return await self._schedules.cancel(arguments["name"], context)
