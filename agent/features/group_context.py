"""Groups in a turn: what was said around a question is read with it, and who was not asked may stay silent.

What was said is put before the newest words, in no history: each question reads it anew. How far it was read is
committed with the answer, so that a question that a crash cut off reads the same again.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from zoneinfo import ZoneInfo

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from agent.core.ids import ConversationId
from agent.core.messages import ToolUse
from agent.core.tools import ToolSpec
from agent.group_context import rows
from agent.group_context.group_context import GroupContext
from agent.group_context.tools import GROUP_TOOLS
from agent.group_context.window import Count, block_of
from agent.providers.usage import read_of
from agent.run.features import Ended, Feature
from agent.run.messages import also_told
from agent.run.run import Run
from agent.storage.errors import StorageError

UNASKED = (
    "Nobody has asked you: people talk among themselves, and you may join in. Speak only if you have something that "
    "helps them now: an answer that they look for and nobody has given, or a correction of an error with consequences. "
    "Otherwise call stay_silent. When in doubt, stay silent."
)
UNASKED_CALL = "nobody has asked you: in this turn you may look things up, and change nothing"

log = logging.getLogger("tieline.turn")


@dataclass(slots=True, kw_only=True, eq=False)
class GroupContextFeature(Feature):
    """The group around one conversation, as its turns read it. `specs` gives those of tools by their names."""

    conversation: ConversationId
    group_context: GroupContext
    count: Count
    specs: Callable[[frozenset[str]], Sequence[ToolSpec]]

    async def context(self, run: Run) -> None:
        """Read what was said around the question. Failing, it costs that and nothing else."""
        incoming, place = run.work.incoming, run.work.incoming.group
        if incoming.ambient:
            run.reminder = also_told(run.reminder, UNASKED)
        if place is None or run.work.kind != "message" or not run.settings.place.reads_along:
            return
        zone = ZoneInfo(incoming.zone or "UTC")
        run.group.read = partial(self.group_context.read, place, zone)
        try:
            around = await self.group_context.around(place, unread=True, but=incoming.message_ref)
        except (StorageError, SQLAlchemyError) as error:
            log.warning(
                "the turn goes on without what was said around it: %s", type(error).__name__, extra={"run": run.id}
            )
            return
        most = self.group_context.settings().max_tokens
        run.group.said = block_of(around.said, zone, count=self.count, most_tokens=most)
        run.group.read_to = around.read_to

    def hides(self, run: Run) -> frozenset[str]:
        """Nothing can be read where nothing is kept."""
        return frozenset() if run.settings.place.reads_along else GROUP_TOOLS

    async def before_tool(self, run: Run, use: ToolUse) -> str:
        """Keep an unasked turn from changing anything, and from asking people whether it may."""
        if not run.work.incoming.ambient or all(not spec.effects for spec in self.specs(frozenset({use.name}))):
            return ""
        return UNASKED_CALL

    def committing(self, conn: Connection, ended: Ended) -> None:
        """Note how far it was read, and what an unasked turn came to."""
        run, incoming, place = ended.run, ended.run.work.incoming, ended.run.work.incoming.group
        if place is None:
            return
        spoke = bool(ended.said.strip()) and ended.executed.success
        if spoke and run.group.read_to and place.root is None:
            rows.read_to(conn, place, run.group.read_to)
        if not incoming.ambient:
            return
        costs = [spent.cost_usd for spent in run.usage]
        known = [cost for cost in costs if cost is not None]
        rows.end_ambient(
            conn,
            run.work.inbox_id,
            spoke=spoke,
            tokens=sum(read_of(spent.usage) + spent.usage.output for spent in run.usage),
            cost_usd=sum(known) if len(known) == len(costs) else None,
        )
        if not spoke:
            rows.unsay(conn, run.work.inbox_id)
        elif incoming.message_ref is not None:  # it stands in the dialogue now
            rows.take_back(conn, self.conversation, incoming.message_ref)
