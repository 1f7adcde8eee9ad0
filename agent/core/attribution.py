"""The account of a call that costs money: who pays for it, and what it is for."""

from dataclasses import dataclass

from agent.core.ids import ConversationId, PersonId, RunId, SessionId


@dataclass(frozen=True, slots=True, kw_only=True)
class CostAttribution:
    """The account to which a call is charged, and its purpose.

    `purpose` is one word: "turn" for the answer itself, else the work behind it, such as "compaction", "judge" or
    "transcription". `job` names a schedule and `goal` a goal, where the call was made for one. `unattended`: no
    person has asked for it, the goal's own work needs it, so that its limits hold before the call is made.
    """

    purpose: str
    conversation: ConversationId
    session: SessionId | None = None
    inbox_id: int | None = None
    run: RunId | None = None
    person: PersonId | None = None
    job: str | None = None
    goal: str | None = None
    unattended: bool = False
