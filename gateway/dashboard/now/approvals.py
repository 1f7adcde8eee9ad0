"""Approvals and questions: calls that wait for a person's word, rules that hold for good, and past decisions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar, assert_never

from sqlalchemy import Connection
from starlette.requests import Request

from agent.core.ids import ConversationId, PersonId, RunId
from agent.core.phrases import Phrases
from agent.storage import approval_rows
from agent.storage.approval_rows import EVERY_CALL, RESTORED, Approval, ApprovalStatus, Rule
from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp
from agent.tools.approvals import Approvals, Finding, Ruling, Word, extent_of
from gateway.commands.access.approvals import told
from gateway.dashboard.frame.listing import PAGE, Asked, Listing, asked, listed, listing
from gateway.dashboard.frame.readings import Readings
from gateway.dashboard.frame.shell import Done, Page, Section, action, person_of, rights_of, view
from gateway.delivery.ephemeral.prompts import label_of
from gateway.storage import conversation_list
from gateway.storage.queues import inbox_entries
from gateway.traces import rows as traces
from gateway.web.control import OperationError

DECISIONS = 50  # past ones that are shown
MOST_LOOKED_AT = 5_000  # open calls, and rules, that a search looks at
LANGUAGE = "en"  # of the dashboard

Row = TypeVar("Row", Approval, Rule)

OUTCOMES: Mapping[ApprovalStatus, str] = {
    "pending": "open",
    "approved": "allowed, not begun yet",
    "executed": "allowed",
    "answered": "question answered",
    "rejected": "denied",
    "expired": "nobody answered in time",
    "cancelled": "withdrawn",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownApproval:
    """A call or a question as the page shows it. `shown` is "" for somebody who may not read it.

    `extent` is what "always" would allow, "" where the call cannot be allowed for good. `answers` are the labels of a
    question's choices. `outcome` and `who` say how it ended.
    """

    id: str
    tool: str
    conversation: ConversationId
    run: str
    place: str
    asked_by: str
    reason: str
    shown: str
    extent: str
    answers: Sequence[str]
    takes_words: bool
    asked_at: datetime
    expires_at: datetime
    outcome: str
    who: str
    decided_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRule:
    """A rule as the page shows it: `covers` is what it is about, "" for somebody who may not read it."""

    rule: Rule
    place: str
    covers: str
    made_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalPages:
    """The page, and the words that operators give on it. `redact` hides secrets in calls."""

    database: Database
    approvals: Approvals
    phrase: Phrases
    redact: Callable[[str], str]
    readings: Readings

    def section(self) -> Section:
        """The section."""
        return Section(
            title="Approvals",
            group="Now",
            entries=(
                view("/approvals", self.page),
                action("/approvals/{id}/answer/{number:int}", self.choose, name="approvals.answer"),
                action("/approvals/{id}/words", self.reply, name="approvals.answer"),
                action("/approvals/rules/{id:int}/revoke", self.revoke, name="approvals.revoke"),
                action("/approvals/{id}/{decision}", self.decide, name="approvals.decide"),
            ),
            waiting=self.waiting,
        )

    async def waiting(self) -> int:
        """How many calls and questions are open."""
        return await self.database.read(approval_rows.count_pending)

    async def page(self, request: Request) -> Page:
        """Open calls by pages, oldest first, rules by pages of their own, and the newest decisions.

        A search by tool, place or person holds for all three. Who may operate reads what they decide; the calls of the
        past are words of others.
        """
        rights, query = rights_of(request), request.query_params
        look, look_at_rules = asked(query), asked({**query, "page": query.get("rules", "")})

        def read(conn: Connection) -> dict[str, object]:
            pending = approval_rows.pending_page(conn, **_extent(look))
            rules = approval_rows.all_rules(conn, **_extent(look_at_rules))
            decided = approval_rows.decided(conn, most=DECISIONS)
            keys = {one.conversation for one in (*pending, *decided)} | {rule.conversation for rule in rules}
            places = conversation_list.names(conn, keys)
            senders = inbox_entries.senders(conn, {one.inbox_id for one in (*pending, *decided)})
            makers = conversation_list.known_as(conn, sorted({rule.created_by for rule in rules}))
            may_operate, may_read = "operate" in rights, "transcripts" in rights

            def words(one: Approval | Rule) -> str:
                people = (
                    (one.created_by, makers.get(one.created_by))
                    if isinstance(one, Rule)
                    else (senders.get(one.inbox_id), one.requester)
                )
                return " ".join(filter(None, (one.tool, places[one.conversation], one.conversation, *people)))

            found, ruled = _found(pending, look, words), _found(rules, look_at_rules, words)
            sought = look.find.casefold()
            past = [one for one in decided if sought in words(one).casefold()]
            return {
                "listing": found,
                "pending": [self._shown(one, places, senders, readable=may_operate) for one in found.rows],
                "ruled": ruled,
                "makers": makers,
                "rules": [self._rule(rule, places, readable=may_operate) for rule in ruled.rows],
                "traced": traces.with_traces(conn, {RunId(one.run) for one in past}),
                "decided": [self._shown(one, places, senders, readable=may_read) for one in past],
            }

        values = await self.database.read(read)
        if values["decided"] and "transcripts" in rights:
            await self.readings.note(request, "approvals.read", "past calls")
        title = "Approvals and questions"
        return Page(template="approvals.html", values={**values, "title": title}, live=True)

    async def decide(self, request: Request) -> Done:
        """A call is allowed once, allowed for good, or denied."""
        decision = request.path_params["decision"]
        if decision not in ("allow", "always", "deny"):
            raise LookupError("A call can be allowed, always allowed, or denied.")
        one = await self._find(request)
        if one.choices:
            raise OperationError("this is a question", fix="choose one of its answers")
        word = self._word(request, approve=decision != "deny", for_good=decision == "always")
        whom = await self.database.read(lambda conn: _whom(conn, one))
        ended = await self._answer(one, word)
        verb = {"allow": "is allowed {}", "always": "is allowed {} from now on", "deny": "is denied {}"}[decision]
        return Done(
            text=f"{ended.tool} {verb.format(whom)}.",
            subject=one.conversation,
            detail=f"{decision} {one.tool} ({one.id})",
        )

    async def choose(self, request: Request) -> Done:
        """A question is answered by one of its choices."""
        one = await self._find(request)
        return await self._answered(one, self._word(request, choice=request.path_params["number"]))

    async def reply(self, request: Request) -> Done:
        """A question is answered in the operator's own words."""
        one = await self._find(request)
        words = str((await request.form()).get("words") or "").strip()
        if not words:
            raise OperationError("the answer is empty")
        return await self._answered(one, self._word(request, words=words))

    async def revoke(self, request: Request) -> Done:
        """A rule is taken back: such calls are asked about again."""
        id = request.path_params["id"]

        def work(conn: Connection) -> Rule | None:
            rule = approval_rows.find_rule(conn, id)
            return rule if rule is not None and approval_rows.revoke(conn, rule.conversation, id) else None

        rule = await self.database.write(work)
        if rule is None:
            raise LookupError("This rule was taken back already.")
        text = f"The rule about {rule.tool} is taken back."
        return Done(text=text, subject=rule.conversation, detail=f"{rule.effect} {rule.tool} (rule {id})")

    async def _find(self, request: Request) -> Approval:
        id = request.path_params["id"]
        one = await self.database.read(lambda conn: approval_rows.find(conn, id))
        if one is None:
            raise LookupError("Nothing of this name is asked any more.")
        return one

    def _word(
        self,
        request: Request,
        *,
        approve: bool = False,
        for_good: bool = False,
        choice: int | None = None,
        words: str | None = None,
    ) -> Word:
        person = person_of(request)
        return Word(
            by=PersonId(f"web:{person.id}"),
            name=person.display,
            approve=approve,
            for_good=for_good,
            may_allow_for_good=True,
            choice=choice,
            words=words,
            operates=True,
        )

    async def _answered(self, one: Approval, word: Word) -> Done:
        if not one.choices:
            raise OperationError("this is no question", fix="allow or deny the call")
        ended = await self._answer(one, word)
        return Done(
            text=f"Answered: {label_of(ended, self.phrase, LANGUAGE)}",
            subject=one.conversation,
            detail=f"a question of {one.tool} ({one.id})",
        )

    async def _answer(self, one: Approval, word: Word) -> Approval:
        """The approval as the word has left it. Raises OperationError where it changed nothing."""
        ruling = await self.approvals.answer(one.id, one.conversation, word)
        if ruling.finding is Finding.DONE and ruling.approval is not None:
            return ruling.approval
        raise OperationError(self._refusal(ruling, word))

    def _refusal(self, ruling: Ruling, word: Word) -> str:
        match ruling.finding:
            case Finding.OVER if ruling.approval is not None and ruling.approval.choices:
                who = _decider(ruling.approval)
                return f"{who} has answered this question already" if who else "this question is closed"
            case Finding.NO_SUCH_ANSWER:
                return "this question has other answers"
            case Finding.NOT_YOURS:
                return ruling.rule
            case Finding.DONE | Finding.OVER | Finding.UNKNOWN | Finding.NOT_FOR_GOOD:
                return told(ruling, word, self.phrase, LANGUAGE)
            case _:
                assert_never(ruling.finding)

    def _shown(
        self,
        one: Approval,
        places: Mapping[ConversationId, str],
        senders: Mapping[int, str],
        *,
        readable: bool,
    ) -> ShownApproval:
        extent = "" if one.covers is None else extent_of(one.covers) or "exactly this call"
        return ShownApproval(
            id=one.id,
            tool=one.tool,
            conversation=one.conversation,
            run=one.run,
            place=places[one.conversation],
            asked_by=senders.get(one.inbox_id) or one.requester or "",
            reason=self.redact(one.reason) if readable else "",
            shown=self.redact(one.shown) if readable else "",
            extent=self.redact(extent) if readable else "",
            answers=[self.phrase(each, LANGUAGE) if each in ("yes", "no") else each for each in one.choices],
            takes_words=one.takes_words,
            asked_at=from_timestamp(one.created_at),
            expires_at=from_timestamp(one.expires_at),
            outcome=OUTCOMES[one.status],
            who=_decider(one),
            decided_at=from_timestamp(one.decided_at) if one.decided_at is not None else None,
        )

    def _rule(self, rule: Rule, places: Mapping[ConversationId, str], *, readable: bool) -> ShownRule:
        covers = "every call" if rule.covers == EVERY_CALL else extent_of(rule.covers) or rule.shown
        return ShownRule(
            rule=rule,
            place=places[rule.conversation],
            covers=self.redact(covers) if readable else "",
            made_at=from_timestamp(rule.created_at),
        )


def _extent(look: Asked) -> Mapping[str, int]:
    """The rows to read: those of the page, or with words to look for all in which they may stand."""
    return {"most": MOST_LOOKED_AT} if look.find else {"most": PAGE + 1, "skip": look.skip}


def _found(rows: Sequence[Row], look: Asked, words: Callable[[Row], str]) -> Listing[Row]:
    """The page of rows that were read to that extent, in the order in which they were."""
    return listed(rows, look, key=lambda row: 0, words=words) if look.find else listing(rows, look)


def _whom(conn: Connection, one: Approval) -> str:
    """For whom and where a call was asked about, in words."""
    name, account = inbox_entries.senders(conn, (one.inbox_id,)).get(one.inbox_id, ""), one.requester or ""
    whom = f"for {name} ({account})" if name and account else f"for {name or account}" if name or account else ""
    if account == one.conversation:
        return whom
    place = conversation_list.names(conn, (one.conversation,))[one.conversation]
    return f"{whom} in {place}".strip() if place != name else whom


def _decider(one: Approval) -> str:
    if one.decided_by == RESTORED:
        return "a backup that was restored"
    return one.decided_name or one.decided_by or ""
