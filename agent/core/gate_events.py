"""What happened at the gate: facts about approvals and hooks (SPEC §2.8, §12.4, §12.6)."""

from dataclasses import dataclass
from typing import ClassVar

from agent.core.events import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequired(Event):
    """A person must allow a call. `correlation` names the question on its buttons; a model never sees it (W-49)."""

    name: ClassVar[str] = "approval_required"
    tool_name: str
    tool_call_id: str
    correlation: str
    reason: str
    expires_in_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspended(Event):
    """The run rests until a person answers; a restart does not end that (capability `hitl_suspend`)."""

    name: ClassVar[str] = "suspend"
    correlation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalResumed(Event):
    """The run goes on: `status` is how the question ended."""

    name: ClassVar[str] = "approval_resume"
    correlation: str
    status: str
    waited_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PermissionDenied(Event):
    """A call was not run. `by` names what said no: policy, person, hook, scope or time."""

    name: ClassVar[str] = "permission_denied"
    tool_name: str
    tool_call_id: str
    by: str
