"""Hints: names one of the skills that fit, and learns from the result. Knows skills by name alone.

Counts are held in memory and added to the database in the background: a turn waits for neither.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random

from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.skills import rows
from agent.skills.bandit import Arm, Chance, Outcome, choose, credited, priors_by_rank
from agent.skills.matching import called_in
from agent.skills.rows import Kept
from agent.skills.settings import LearningSettings
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """The skill of one turn, and why it: its sample (None: somebody asked for it), its counts, among how many.

    `fit` (0..1) is how well it fits the words; None where nobody looked.
    """

    name: str
    value: float | None
    arm: Arm
    simulated: float
    among: int
    fit: float | None = None


class Router:
    """One for the process: what one conversation shows helps all. Without a database it learns until its end.

    `chance` None: each draw follows from the work that it is for, so that a replay has the same ones (B-02).
    """

    def __init__(
        self,
        database: Database | None,
        clock: Clock,
        *,
        settings: Callable[[], LearningSettings],
        chance: Chance | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self._chance = chance
        self._arms: dict[str, Kept] = {}
        self._priors: Mapping[str, int] = {}
        self._ranks: tuple[Sequence[str], Mapping[str, int]] = ((), {})
        self._more: dict[str, Arm] = {}  # outcomes that are not in the database yet
        self.unread = False  # there are drafts whose priors were not read yet

    async def open(self) -> None:
        """Read what was learnt. Raises StorageError or SQLAlchemyError; it works without, and loses nothing of it."""
        if self._database is not None:
            self._arms = await self._database.read(rows.all_arms)
            await self.read_priors()

    async def read_priors(self) -> None:
        """Let new drafts begin with what they were given (W-60); skills that are known keep what they have."""
        if self._database is not None:
            self._priors = await self._database.read(rows.priors)
        self.unread = False

    def pick(self, candidates: Sequence[str], text: str, *, work: str = "") -> Pick:
        """The skill for a turn with these words: the one they name, else the best draw. Raises NoCandidates.

        `work` names the turn's message, the same in every replay.
        """
        wanted, at, settings = called_in(text), to_timestamp(self._clock.now()), self._settings()
        if wanted is not None and (name := next((one for one in candidates if one.lower() == wanted), None)):
            kept = self._kept(name, at, settings)
            return Pick(name=name, value=None, arm=kept.arm, simulated=kept.simulated, among=len(candidates))
        chance = self._chance or Random(work)  # noqa: S311 - no secret
        draw = choose(candidates, lambda name: self._kept(name, at, settings).arm, chance)
        simulated = self._kept(draw.name, at, settings).simulated
        return Pick(name=draw.name, value=draw.value, arm=draw.arm, simulated=simulated, among=draw.among)

    def credit(self, name: str, outcome: Outcome, weight: float = 1.0) -> None:
        """Count what the turn says of the skill that was hinted in it (W-07); `weight` (0..1): how much that is."""
        more = credited(Arm(), outcome, weight)
        if more == Arm():
            return
        self._arms[name] = self.kept(name).with_more(more, to_timestamp(self._clock.now()))
        self._more[name] = credited(self._more.get(name, Arm()), outcome, weight)

    def kept(self, name: str) -> Kept:
        """The present state of a skill."""
        return self._kept(name, to_timestamp(self._clock.now()), self._settings())

    def _kept(self, name: str, at: int, settings: LearningSettings) -> Kept:
        known = self._arms.get(name)
        if known is not None:
            return known.now(at, settings.decay)
        if self._ranks[0] is not settings.preferred:
            self._ranks = (settings.preferred, priors_by_rank(settings.preferred))
        return rows.beginning(max(self._priors.get(name, 0), self._ranks[1].get(name, 0)), at)

    def forget(self, names: Sequence[str]) -> None:
        """Skills that people want nothing left of."""
        for name in names:
            self._arms.pop(name, None)
            self._more.pop(name, None)

    @property
    def waits(self) -> bool:
        """Whether there is something to write."""
        return bool(self._more) and self._database is not None

    async def flush(self) -> None:
        """Add to the database what is not in it yet. Raises StorageError or SQLAlchemyError: it is kept for later."""
        if not self.waits or self._database is None:
            return
        more, self._more = self._more, {}
        at, decay = to_timestamp(self._clock.now()), self._settings().decay
        begin = {name: rows.beginning(round(self._arms[name].simulated), at) for name in more}
        shown = {name: self.kept(name).outcomes for name in more}

        def write(conn: Connection) -> None:
            rows.add(conn, more, begin, at=at, decay=decay)
            for name, outcomes in shown.items():
                rows.measure(conn, name, outcomes)

        with ExitStack() as unwritten:
            unwritten.callback(self._keep_for_later, more)
            await self._database.write(write)
            unwritten.pop_all()

    def _keep_for_later(self, more: Mapping[str, Arm]) -> None:
        for name, outcomes in more.items():
            if name not in self._arms:
                continue  # forgotten meanwhile
            since = self._more.get(name, Arm())
            self._more[name] = Arm(
                successes=outcomes.successes + since.successes, failures=outcomes.failures + since.failures
            )
