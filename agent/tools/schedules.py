"""The tools with which a model sets, lists and cancels schedules; the gateway keeps them (`Schedules` is its port)."""

from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from pydantic import Field

from agent.core.function_tools import Arguments, tool
from agent.core.tools import ToolContext

LONGEST_NAME, LONGEST_CRON, LONGEST_KIND, LONGEST_TEXT = 128, 64, 64, 512  # characters (G-16)

_Name = Annotated[str, Field(description="The same name again replaces it.", min_length=1, max_length=LONGEST_NAME)]
_Kind = Annotated[
    str,
    Field(
        description='"reminder": the text is sent to the people as it is. Any other word, such as "custom": you are '
        "woken with it as your task.",
        min_length=1,
        max_length=LONGEST_KIND,
    ),
]
_Text = Annotated[str | None, Field(description="The reminder, or your task.", min_length=1, max_length=LONGEST_TEXT)]
_Zone = Annotated[
    str | None,
    Field(
        description='IANA name such as "Europe/Berlin". Left out: the person\'s zone if known, else UTC.', max_length=64
    ),
]


class _Config(Arguments):
    text: _Text = None
    zone: _Zone = None
    late: Annotated[
        str | None,
        Field(
            description="What becomes of missed times: skip, once, all, within, or within and seconds. Left out: one "
            "run is made up for if it alone was missed.",
            max_length=32,
        ),
    ] = None


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


class ScheduleTools:
    """Tools that set, list and cancel what `schedules` keeps."""

    def __init__(self, schedules: Schedules) -> None:
        self._schedules = schedules

    @tool(risk="safe", touches="place", effects=["write", "spend"], concurrency_safe=False, retryable=True)
    async def schedule_periodic(
        self,
        context: ToolContext,
        *,
        name: _Name,
        cron: Annotated[
            str,
            Field(
                description="5 fields (minute hour day month weekday) or 6 with seconds first, in the zone's "
                'wall-clock time: "30 8 * * 1-5" is every weekday at 8:30.',
                min_length=1,
                max_length=LONGEST_CRON,
            ),
        ],
        kind: _Kind,
        config: _Config | None = None,
    ) -> str:
        """Sets something that happens again and again in this conversation, by a cron line."""
        given = config.model_dump(exclude_none=True) if config is not None else {}
        return await self._schedules.periodic(name, cron, kind, given, context)

    @tool(risk="safe", touches="place", effects=["write", "spend"], concurrency_safe=False, retryable=True, core=True)
    async def schedule_deferred(
        self,
        context: ToolContext,
        *,
        name: _Name,
        run_at: Annotated[
            str,
            Field(
                description='ISO 8601, "+1h30m", "in 5 minutes", "today 14:00" or "tomorrow 09:30"; in the future.',
                min_length=1,
                max_length=64,
            ),
        ],
        kind: _Kind,
        task: _Text = None,
        zone: _Zone = None,
    ) -> str:
        """Sets something that happens once, later, in this conversation."""
        return await self._schedules.deferred(name, run_at, kind, task or name, zone, context)

    @tool(category="info", risk="safe", touches="place", effects=[], retryable=True)
    async def list_schedules(self, context: ToolContext) -> str:
        """Lists the reminders and scheduled tasks of this conversation, with their next times."""
        return await self._schedules.listed(context)

    @tool(risk="safe", touches="place", effects=["write"], concurrency_safe=False)
    async def cancel_task(
        self, context: ToolContext, *, name: Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
    ) -> str:
        """Removes a reminder or scheduled task of this conversation, by its name or its number."""
        return await self._schedules.cancel(name, context)
