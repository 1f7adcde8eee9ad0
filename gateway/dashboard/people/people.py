"""People: who is let in by whom, with which role and which linked accounts; requests, and changes of all that."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from sqlalchemy import Connection
from starlette.requests import Request
from starlette.responses import Response

from agent.storage.database import Database
from agent.storage.timestamps import from_timestamp, to_timestamp
from gateway.access.changes import AccessChanges
from gateway.access.policy import Role, is_let_in_by_name, is_owner, role_everywhere, subject_kind
from gateway.access.roles import roles_of
from gateway.channels.adapter import Ids
from gateway.config.settings import Settings
from gateway.dashboard.frame.listing import asked, listed
from gateway.dashboard.frame.shell import Done, Page, Section, action, person_of, view
from gateway.dashboard.people.dashboard_roles import DashboardRoles
from gateway.dashboard.people.person_data import KeptOfPerson, PersonData
from gateway.running.rights import Rights
from gateway.scheduler import person_zones
from gateway.storage import conversation_list, grants, pairings, web_sign_ins
from gateway.storage.grants import Grant
from gateway.storage.pairings import Pairing
from gateway.web.control import OperationError

RANKS: Mapping[str, str] = {
    "owner": "owner",
    "admin": "admin",
    "member": "member",
    "blocked": "blocked",
    "stranger": "not let in",
}
WEB = "web"  # the platform of accounts that sign in
LONGEST_ACCOUNT = 200  # characters
_NEVER = datetime.min.replace(tzinfo=UTC)

GivenRole = Literal["member", "admin", "blocked", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """An account. `rank` holds everywhere; `configured` names the key of [access] that names it, "" where none does.

    `grant` is what was given while running. `roles` are named ones, `linked` the other accounts of the person.
    """

    account: str
    name: str
    rank: str
    configured: str
    grant: Grant | None
    in_places: tuple[Grant, ...]
    roles: tuple[str, ...]
    linked: tuple[str, ...]
    active_at: datetime | None

    @property
    def title(self) -> str:
        return self.name or self.account

    @property
    def named(self) -> str:
        """The name with the account, by which nobody is mistaken for somebody else."""
        return f"{self.name} ({self.account})" if self.name else self.account


@dataclass(frozen=True, slots=True, kw_only=True)
class PeoplePages:
    """The list, one person, and their rights. `ids` tells what those of a platform look like."""

    database: Database
    now: Callable[[], datetime]
    settings: Callable[[], Settings]
    rights: Rights
    changes: AccessChanges
    ids: Callable[[str], Ids]
    platforms: Callable[[], Collection[str]]
    data: PersonData
    dashboard_roles: DashboardRoles

    def section(self) -> Section:
        """The section."""
        return Section(
            title="People",
            group="People",
            waiting=self._waiting,
            entries=(
                view("/people", self.all),
                view("/people/{account:path}", self.one),
                action("/person/add", self.add, name="people.add", needs="configure"),
                action("/person/role/{account:path}", self.role, name="people.role", needs="configure"),
                action("/person/take/{account:path}", self.take_there, name="people.take", needs="configure"),
                view("/person/export/{account:path}", self.export, needs="transcripts"),
                action("/person/erase/{account:path}", self.erase, name="people.erase", needs="configure"),
                action("/person/dashboard/{account:path}", self.dashboard, name="people.dashboard", needs="configure"),
                action("/person/part/{account:path}", self.part, name="people.part", needs="configure"),
            ),
        )

    async def _waiting(self) -> int:
        now = to_timestamp(self.now())
        return len(await self.database.read(lambda conn: pairings.open_requests(conn, now)))

    async def all(self, request: Request) -> Page:
        """Everybody whom a grant, a sign-in, the configuration or an answer names; those answered last first."""
        look = asked(
            request.query_params,
            columns=("active", "who", "role", "since"),
            descending=("active", "since"),
            filters={"role": tuple(RANKS)},
        )
        now = to_timestamp(self.now())

        def read(conn: Connection) -> tuple[Sequence[Person], Sequence[Pairing]]:
            return self._everybody(conn), pairings.open_requests(conn, now)

        people, requests = await self.database.read(read)
        chosen = [one for one in people if look.chosen["role"] in ("", one.rank)]
        keys: Mapping[str, Callable[[Person], object]] = {
            "active": lambda one: one.active_at or _NEVER,
            "who": lambda one: (one.title.casefold(), one.account),
            "role": lambda one: list(RANKS).index(one.rank),
            "since": lambda one: one.grant.at if one.grant is not None else 0,
        }
        values = {
            "listing": listed(chosen, look, key=keys[look.sort], words=_words),
            "requests": requests,
            "ranks": [(rank, words) for rank, words in RANKS.items() if rank != "owner"],  # who is not listed
            "rank_words": RANKS,
            "names": {one.account: one.title for one in people},
            "platforms": sorted({name.partition("@")[0] for name in self.platforms()}),
            "at": from_timestamp,
        }
        return Page(template="people.html", values=values, live=True)

    async def one(self, request: Request) -> Page:
        """One account, with everything that gives it rights."""
        account = request.path_params["account"]

        def read(conn: Connection) -> tuple[Person, Mapping[str, str], Mapping[str, str], KeptOfPerson]:
            everybody = {one.account: one for one in self._everybody(conn)}
            person = _found(everybody, account)
            names = {one.account: one.title for one in everybody.values()}
            zones = person_zones.given_zones(conn, (account, *person.linked))
            return person, names, zones, self.data.kept(conn, account)

        person, names, zones, kept = await self.database.read(read)
        values = {
            "title": person.title,
            "one": person,
            "names": names,
            "kept": kept,
            "dashboard_roles": self.dashboard_roles.offered if account.startswith(f"{WEB}:") else None,
            "zone": next(iter(zones.values()), ""),
            "linked_by_file": self.rights.identities.configured(account),
            "with_rights": self.rights.identities.now.with_rights_of(account),
            "rank_words": RANKS,
            "at": from_timestamp,
        }
        return Page(template="person.html", values=values, live=True)

    async def export(self, request: Request) -> Response:
        """All that the memory keeps of them, as a file."""
        await self._known(request.path_params["account"])
        return await self.data.export(request)

    def _everybody(self, conn: Connection) -> Sequence[Person]:
        settings, identities = self.settings(), self.rights.identities.now
        access, given = settings.access, grants.all_grants(conn)
        known, asked_as = conversation_list.people(conn), pairings.displays(conn)
        own = {one.subject: one for one in given if one.kind == "person" and not one.place}
        there: dict[str, list[Grant]] = {}
        for one in given:
            if one.kind == "person" and one.place:
                there.setdefault(one.subject, []).append(one)
        linked = [account for accounts in identities.all_people() for account in accounts]
        named = [person for role in settings.roles for person in role.people]
        signs_in = {f"{WEB}:{row.id}": row.display for row in web_sign_ins.persons(conn)}
        accounts = dict.fromkeys(
            [*known, *signs_in, *own, *there, *access.admins, *access.allow, *access.block, *linked, *named]
        )
        return [
            Person(
                account=account,
                name=(known[account].name if account in known else "")
                or asked_as.get(account, "")
                or signs_in.get(account, ""),
                rank=self._rank(account, settings),
                configured=next((key for key in ("block", "admins", "allow") if account in getattr(access, key)), ""),
                grant=own.get(account),
                in_places=tuple(there.get(account, ())),
                roles=roles_of(account, (), settings.roles, identities),
                linked=tuple(identities.accounts(account)[1:]),
                active_at=from_timestamp(known[account].active_at) if account in known else None,
            )
            for account in accounts
            if not is_owner(account)
        ]

    def _rank(self, account: str, settings: Settings) -> str:
        rank = role_everywhere(account, settings.access, self.rights.book.grants)
        if rank is not Role.BLOCKED and is_let_in_by_name(account, settings.access):
            rank = max(rank, Role.MEMBER)
        return rank.name.lower() if rank.name.lower() in RANKS else "stranger"

    # -- changes

    async def add(self, request: Request) -> Done:
        """Let in somebody who has not asked, by the id of their account."""
        form = await request.form()
        account = str(form.get("account") or "").strip()[:LONGEST_ACCOUNT]
        platform = account.partition(":")[0]
        if platform not in {name.partition("@")[0] for name in self.platforms()}:
            raise OperationError(
                f"no platform of this gateway has an account {account!r}", fix='write it as in "telegram:77"'
            )
        if subject_kind(account, self.ids(platform)) != "person":
            raise OperationError(f"no person there has an id as in {account!r}", fix="/whoami tells each person theirs")
        return await self._give(request, account, _role_of(str(form.get("role") or "member")), account)

    async def role(self, request: Request) -> Done:
        """Another role everywhere, a block, or nothing any more."""
        account, form = request.path_params["account"], await request.form()
        person = await self._known(account)
        return await self._give(request, account, _role_of(str(form.get("role") or "")), person.named)

    async def _give(self, request: Request, account: str, role: GivenRole, who: str) -> Done:
        by, access = f"web:{person_of(request).id}", self.settings().access
        before = self._rank(account, self.settings())
        if account in access.block and role != "blocked":
            raise OperationError(f"the configuration blocks {account}", fix="take it out of block in [access]")
        if account in access.admins and role in ("member", "blocked", "none"):
            raise OperationError(
                f"the configuration makes {account} an admin", fix="take it out of admins in [access] first"
            )
        if account in access.allow and role == "none":
            raise OperationError(f"the configuration lets {account} in", fix="take it out of allow in [access]")
        match role:
            case "blocked":
                await self.changes.block(account, by=by)
                text = f"{who} is blocked everywhere."
            case "none" if before == "blocked":
                await self.changes.unblock(account, by=by)
                text = f"{who} is no longer blocked; what was given before counts again."
            case "none":
                if not await self.changes.take(account):
                    raise OperationError(f"nothing was given to {account}")
                text = f"What was given to {who} is taken back."
            case "member" | "admin":
                await self.changes.let_in(account, role, by=by)
                text = f"{who} is {'an admin of the whole bot' if role == 'admin' else 'a member'} from now on."
        return Done(text=text, subject=account, detail=f"was {before}, is {self._rank(account, self.settings())}")

    async def take_there(self, request: Request) -> Done:
        """Take back a role that was given in one place."""
        account, form = request.path_params["account"], await request.form()
        place = str(form.get("place") or "")
        if not place or not await self.changes.take(account, place):
            raise OperationError(f"no role was given to {account} there")
        return Done(text=f"{account} has no role of their own in {place} any more.", subject=account, detail=place)

    async def dashboard(self, request: Request) -> Done:
        """A named role with rights for the dashboard, given or taken back in the configuration."""
        account, form = request.path_params["account"], await request.form()
        await self._known(account)
        role, gives = str(form.get("role") or ""), form.get("change") != "take"
        await self.dashboard_roles.save(await self.dashboard_roles.change(account, role, gives=gives))
        text = f"{account} {'has' if gives else 'has no longer'} the role {role}. It counts at once."
        return Done(text=text, subject=account, detail=f"{'given' if gives else 'taken'}: {role}")

    async def part(self, request: Request) -> Done:
        """Unlink the account from the others of its person."""
        account = request.path_params["account"]
        if self.rights.identities.configured(account):
            raise OperationError(f"the configuration links {account}", fix="part it in [[people]]")
        if not await self.changes.part(account, by=f"web:{person_of(request).id}"):
            raise OperationError(f"no account is linked with {account}")
        return Done(text=f"{account} is a person by itself again; the others are told.", subject=account)

    async def erase(self, request: Request) -> Done:
        """All that was said by them and to them alone is gone for good."""
        await self._known(request.path_params["account"])
        return await self.data.erase(request)

    async def _known(self, account: str) -> Person:
        return await self.database.read(
            lambda conn: _found({one.account: one for one in self._everybody(conn)}, account)
        )


def _found(everybody: Mapping[str, Person], account: str) -> Person:
    if account not in everybody:
        raise LookupError(f"Nobody is known as {account}.")
    return everybody[account]


def _role_of(text: str) -> GivenRole:
    match text:
        case "member" | "admin" | "blocked" | "none":
            return text
        case _:
            raise OperationError(f"there is no role {text!r}", fix="choose member, admin, blocked or none")


def _words(person: Person) -> str:
    return " ".join((person.name, person.account, *person.roles, *person.linked))
