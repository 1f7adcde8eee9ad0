"""Money: /cost, and /budget with the button that allows more."""

import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
from sqlalchemy import Connection

from agent.core.clock import Clock
from agent.core.errors import Permanent
from agent.core.files.store import FileStore
from agent.core.ids import ConversationId, CostAttribution, PersonId
from agent.core.outbox import Button, Buttons, FileRef
from agent.ledger import rows
from agent.ledger.ledger import MOST_USD, AlreadyDecided, Ledger, NoAmount, NoLimit, NotInMoney, PeriodOver
from agent.ledger.spending import SCOPES, SPANS, Account, AccountBalance, UsageTotals, amount, period_of
from agent.storage.database import Database
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import Role
from gateway.channels.keys import ConversationKey
from gateway.commands.command import MOST_ACTION, PRESS, AnyCall, Call, Command, Reply, refused
from gateway.phrases.catalogue import Catalogue

MOST_LINES = 8
BUDGETS = "budgets are decided by admins of the whole bot"
MOST_PERCENT = 999  # of a limit; above it a share says no more
GROUPINGS: tuple[rows.Grouping, ...] = ("model", "purpose")
MOST_EXPORTED = 50_000  # calls


@dataclass(frozen=True, slots=True, kw_only=True)
class SpendingCommandDeps:
    """The ledger and its budgets."""

    role_everywhere: Callable[[PersonId | None], Role]  # for the whole bot
    clock: Clock
    database: Database
    home: Path
    files: FileStore
    ledger: Ledger
    more_allowed: Callable[[Account, ConversationKey], Awaitable[None]]  # for whom somebody raised a budget, and where


async def cost(call: Call[SpendingCommandDeps]) -> Reply:
    """Show what this chat spent, on what, and of which budgets. Admins of the bot see everything together."""
    if call.words[:1] == ["export"]:
        return await _export(call)
    deps, phrase, language = call.deps, call.phrase, call.incoming.language
    await deps.ledger.flush()
    conversation, everywhere = ConversationId(str(call.key)), _is_admin_everywhere(call)
    day = deps.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    today, month = to_timestamp(day), to_timestamp(day.replace(day=1))

    def read(conn: Connection) -> list[str]:
        spans = [("cost_today", today), ("cost_month", month)]
        lines = [_line(call, key, rows.totals(conn, conversation=conversation, since=since)) for key, since in spans]
        for group in GROUPINGS:
            parts = rows.by(conn, group, conversation=conversation, since=month, most=MOST_LINES)
            if len(parts) > 1:
                lines += ["", phrase(f"cost_by_{group}", language), ""]
                lines += [f"- {name}: {spent_in_words(call, totals)}" for name, totals in parts]
        if everywhere:
            lines += ["", phrase("cost_everything", language), ""]
            lines += [_line(call, key, rows.totals(conn, since=since)) for key, since in spans]
        return lines

    lines = await deps.database.read(read)
    standings = await standings_here(call)
    if standings:
        lines += ["", phrase("cost_budgets", language), "", *(_standing(call, standing) for standing in standings)]
    return Reply(text="\n".join([phrase("cost_title", language), "", *lines]), private=True)


async def budget(call: Call[SpendingCommandDeps]) -> Reply:
    """Every budget in use; `more` raises one. For admins of the whole bot, and roles that are given it."""
    if not call.is_granted and not _is_admin_everywhere(call):  # a group's own admins are let through as far as here
        return Reply(text=call.phrase("budget_not_yours", call.incoming.language), private=True, refused_by=BUDGETS)
    if call.words[:1] == ["more"]:
        return await _more(call, call.words[1:])
    phrase, language = call.phrase, call.incoming.language
    standings = call.deps.ledger.budgets.all_standings()[:MOST_LINES]
    if not standings:
        return Reply(text=phrase("budget_none", language), private=True)
    lines = [_standing(call, standing) for standing in standings]
    buttons = [
        row
        for standing in standings
        if standing.share >= 0.5
        for row in more_button(phrase, language, standing.account, standing.approvals)
    ]
    text = "\n".join([phrase("budget_title", language), "", *lines])
    return Reply(text=text, buttons=tuple(buttons), private=True)


def more_button(phrase: Catalogue, language: str, account: Account, approvals: int) -> Buttons:
    """The button that lets the account spend more, good until somebody has; none where its name is too long for one."""
    payer = f"{account.scope}:{account.name}" if account.name else account.scope
    period = account.period[2:].replace("-", "")
    action = f"{PRESS}/budget more {payer} {period} #{approvals}"
    if len(action.encode()) > MOST_ACTION:
        return ()
    label = phrase("budget_more", language, who=str(account), per=phrase(f"per_{account.per}", language))
    return ((Button(label=label, action=action, style="primary"),),)


async def standings_here(call: Call[SpendingCommandDeps]) -> Sequence[AccountBalance]:
    """The limits that the caller's next message here would come under."""
    provider = (await call.agent.status()).provider
    attribution = CostAttribution(
        purpose="turn", conversation=ConversationId(str(call.key)), person=call.incoming.person
    )
    return call.deps.ledger.budgets.standings(attribution, provider)


def spent_in_words(call: AnyCall, totals: UsageTotals) -> str:
    """Money as far as prices are known, and what is not sure about it."""
    phrase, language = call.phrase, call.incoming.language
    if not totals.calls:
        return phrase("cost_none", language)
    if totals.unpriced == totals.calls:
        words = phrase("cost_unknown", language)
    else:
        words = amount(totals.cost_usd, "usd")
        if totals.unpriced:
            words = phrase("cost_and_unknown", language, cost=words, count=totals.unpriced)
    return phrase("cost_estimated", language, cost=words, count=totals.estimated) if totals.estimated else words


async def _more(call: Call[SpendingCommandDeps], words: Sequence[str]) -> Reply:
    """`/budget more person:telegram:77 [day | month] [USD]`; a button gives the period itself and `#approvals`."""
    deps, phrase, language = call.deps, call.phrase, call.incoming.language
    account = _account(words, today=period_of(deps.clock.now(), "day"))
    if account is None:
        return Reply(text=phrase("budget_usage", language), private=True)
    usd: float | None = None
    after: int | None = None
    for word in words[2:]:
        try:
            if word.startswith("#"):
                after = int(word[1:])
            else:
                usd = float(word)
        except ValueError:
            return Reply(text=phrase("budget_usage", language), private=True)
    try:
        standing = await deps.ledger.budgets.approve(account, by=str(call.incoming.person), usd=usd, after=after)
    except Permanent as error:
        keys = {
            AlreadyDecided: "budget_decided",
            PeriodOver: "budget_over",
            NoLimit: "budget_no_limit",
            NotInMoney: "budget_not_money",
            NoAmount: "budget_no_amount",
        }
        values = {"who": str(account), "payer": words[0], "per": account.per, "most": amount(MOST_USD, "usd")}
        return Reply(text=phrase(keys[type(error)], language, **values), private=True)
    await deps.more_allowed(standing.account, call.key)
    return Reply(text=phrase("budget_raised", language, line=_standing(call, standing).removeprefix("- ")))


def _account(words: Sequence[str], *, today: str) -> Account | None:
    """The budget that is meant: scope and name, then "day" (the default), "month", or a period without its dashes."""
    if not words:
        return None
    scope, _, name = words[0].partition(":")
    period = words[1] if len(words) > 1 else "day"
    if scope not in SCOPES or bool(name) == (scope == "gateway"):
        return None
    if period in SPANS:
        period = today if period == "day" else today[:7]
    elif period.isdecimal() and len(period) in (4, 6):
        period = "-".join((f"20{period[:2]}", *(period[at : at + 2] for at in range(2, len(period), 2))))
    else:
        return None
    return Account(scope, name, period)


def _line(call: Call[SpendingCommandDeps], key: str, totals: UsageTotals) -> str:
    return f"- {call.phrase(key, call.incoming.language)}: {spent_in_words(call, totals)}"


def _standing(call: Call[SpendingCommandDeps], standing: AccountBalance) -> str:
    """`- person telegram:77, day: 1.20 USD of 2.00 USD (60 %)`."""
    phrase, language = call.phrase, call.incoming.language
    parts = []
    if standing.usd is not None:
        parts.append((amount(standing.spent_usd, "usd"), amount(standing.usd, "usd")))
    if standing.tokens is not None:
        parts.append((amount(standing.spent_tokens, "tokens"), amount(standing.tokens, "tokens")))
    spent = ", ".join(phrase("budget_of", language, spent=spent, limit=limit) for spent, limit in parts)
    share = "∞" if standing.share == float("inf") else f"{standing.share * 100:.0f}"
    if MOST_PERCENT < standing.share * 100 < float("inf"):  # under a limit made smaller since: the sums tell enough
        share = f">{MOST_PERCENT}"
    per = phrase(f"per_{standing.account.per}", language)
    return phrase("budget_line", language, who=str(standing.account), per=per, spent=spent, percent=share)


async def _export(call: Call[SpendingCommandDeps]) -> Reply:
    """This chat's calls as a file, for those who run the bot here."""
    deps, phrase, language = call.deps, call.phrase, call.incoming.language
    if call.in_group and call.role < Role.ADMIN:
        return refused(call, "export")
    await deps.ledger.flush()
    conversation = ConversationId(str(call.key))
    entries, _ = await deps.database.read(lambda conn: rows.page(conn, conversation=conversation, most=MOST_EXPORTED))
    if not entries:
        return Reply(text=phrase("nothing_to_export", language))
    # The name cannot be guessed: files of the data directory are handed out by name.
    path = Path("exports", f"{secrets.token_hex(8)}.csv")
    await anyio.to_thread.run_sync(_write, deps.home / path, rows.HEADING + rows.lines(entries))
    await deps.files.put(str(path), conversation=conversation)
    file = FileRef(path=str(path), name="usage.csv", mime_type="text/csv")
    return Reply(text=phrase("cost_exported", language, count=len(entries)), files=(file,))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.write_text(text, "utf-8")
    path.chmod(0o600)


def _is_admin_everywhere(call: Call[SpendingCommandDeps]) -> bool:
    return call.deps.role_everywhere(call.incoming.person) >= Role.ADMIN


COST = Command(name="cost", deps=SpendingCommandDeps, run=cost, group="model", usage="[export]", immediate=True)
BUDGET = Command(
    name="budget",
    deps=SpendingCommandDeps,
    run=budget,
    group="model",
    usage="[more <who> [day|month] [USD]]",
    immediate=True,
    admin=True,
    everyday=True,
)
