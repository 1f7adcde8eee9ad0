"""Parts of a home that all readers find in the same way: secrets, models, people, jobs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from pydantic import SecretStr

from agent.core.untrusted_text import one_line
from gateway.importers import names
from gateway.importers.home import Home
from gateway.importers.moved import Account, Job, Model, Note, Secret, shown
from gateway.importers.notes import notes_in
from gateway.importers.services import SERVICES, model_of, section_name, service_of
from gateway.phrases.catalogue import UsageError
from gateway.scheduler.schedule import LONGEST_NAME, LONGEST_TEXT
from gateway.scheduler.triggers.cron import parse_cron
from gateway.scheduler.triggers.rules import Every, Once, Rule
from gateway.scheduler.triggers.zones import is_zone

LONGEST_ID = 72  # characters of a job's id, and some for its number
LONGEST_SECRET = 4_096
FURTHEST = datetime(9000, 1, 1, tzinfo=UTC)
HISTORY = "they and their history are not moved: Tieline begins with its own"


def table(value: object) -> Mapping[str, Any]:
    """The value where it is a table, else an empty one."""
    return value if isinstance(value, dict) else {}


def tables(value: object) -> Sequence[Mapping[str, Any]]:
    """A list of tables; what is none counts as an empty one."""
    return [table(one) for one in value] if isinstance(value, list) else []


def texts(value: object) -> Sequence[str]:
    """A list of names, which some programs write as one text with commas between; numbers are names as well."""
    if isinstance(value, str):
        value = value.split(",")
    found = value if isinstance(value, list) else [value] if isinstance(value, int) else []
    return [str(one).strip() for one in found if isinstance(one, (str, int)) and str(one).strip()]


def text(value: object) -> str:
    """The value where it is a text, else ""."""
    return value.strip() if isinstance(value, str) else ""


def whole_number(value: object) -> int | None:
    """The value where it is a number, else None."""
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e18 else None


@dataclass(slots=True)
class Secrets:
    """Secrets of a home: `variables` are those of its own .env, `environ` those of this process."""

    home: Home
    variables: Mapping[str, str]
    environ: Mapping[str, str]

    def of(self, value: object, what: str) -> Secret | None:
        """The secret that the value holds or names; None where there is none, which is noted if there should be."""
        if isinstance(value, dict) and value.get("source") == "env":
            return self.named(text(value.get("id")), what)
        if isinstance(value, dict) and value:
            self.home.leave(what, f"its secret is kept elsewhere ({shown(value.get('source', 'unknown'))})")
            return None
        written = text(value)
        if written.startswith("${") and written.endswith("}"):
            return self.named(written[2:-1], what)
        if not written:
            return None
        is_reference = written.startswith(("env:", "file:"))  # which the configuration here would follow
        if len(written) > LONGEST_SECRET or not written.isprintable() or " " in written or is_reference:
            self.home.leave(what, "its secret is no token: it has blanks, names a file, or is too long")
            return None
        return Secret(value=SecretStr(written))

    def named(self, variable: str, what: str) -> Secret | None:
        """The secret in a variable."""
        if found := self.variables.get(variable, "").strip():
            return self.of(found, what) if not found.startswith("${") else None
        if variable.isidentifier() and self.environ.get(variable):
            return Secret(variable=variable)
        if variable:
            self.home.leave(what, f"its secret is in the variable {shown(variable)}, which is not set here")
        return None

    def key_of(self, service: str, *values: object) -> Secret | None:
        """The key of a model service: the first of the values that is one, else the variable that it usually has."""
        for value in values:
            if (found := self.of(value, f"key of {shown(service)}")) is not None:
                return found
        known = SERVICES.get(service.lower())
        if known is None or not known.variable:
            return None
        is_there = self.variables.get(known.variable) or self.environ.get(known.variable)
        return self.named(known.variable, f"key of {shown(service)}") if is_there else None


@dataclass(slots=True)
class Models:
    """Sections for the models of a home, in the order in which they are added; one of each."""

    home: Home
    found: list[Model] = field(default_factory=list)

    def add(self, service_name: str, model: str, *, base_url: str = "", type: str = "", key: Secret | None) -> None:
        """One more. A service that is not known and has no address is noted."""
        what = f"model {shown(f'{service_name}/{model}')}"
        service = service_of(service_name, base_url)
        if type == "anthropic" and service is not None and service.base_url:
            self.home.leave(what, f"{shown(service_name)} speaks Anthropic's protocol at an address of its own")
            return
        if not model or service is None:
            why = f"no service called {shown(service_name)} is known here; add it to [[llm.providers]] by its address"
            self.home.leave(what, why if model else "it names no model")
            return
        taken = frozenset(one.name for one in self.found)
        made = model_of(section_name(service_name, taken), service_name, service, model, key)
        if any((one.type, one.base_url, one.model) == (made.type, made.base_url, made.model) for one in self.found):
            return
        self.found.append(made)


def notes(home: Home, words: str, source: str, *, when: str = "", is_form: bool = False) -> Sequence[Note]:
    """The facts in a file of notes; the words that are none are noted with their beginnings."""
    rest: list[str] = []
    found = notes_in(words, source, when=when, is_form=is_form, rest=rest)
    if rest:
        few = "; ".join(f"“{one_line(passage, 40)}”" for passage in rest[:3])
        more = f" and {len(rest) - 3} more" if len(rest) > 3 else ""
        home.leave(source, f"hidden, superseded, or like a form to fill in, so no note: {few}{more}")
    return found


# People and groups


def people(home: Home, platform: str, written: Iterable[str]) -> Sequence[str]:
    """The people of an allow list; what is no id, and "*", is noted."""
    found = []
    for one in written:
        if one == "*":
            home.leave(f"{platform}: everybody may write (*)", 'set [access] dm = "open" yourself if that is meant')
        elif person := names.person(platform, one):
            found.append(person)
        else:
            home.leave(f"{platform}: {shown(one)} may write", "it is no id of a person; names can be taken by others")
    return found


def groups(home: Home, platform: str, written: Iterable[str]) -> Sequence[str]:
    """The groups of an allow list; what is no id, and "*", is noted."""
    found = []
    for one in written:
        if one == "*":
            home.leave(f"{platform}: all groups (*)", 'set [access] groups = "open" yourself if that is meant')
        elif group := names.group(platform, one):
            found.append(group)
        else:
            home.leave(f"{platform}: group {shown(one)}", "it is no id of a group")
    return found


DIRECT = {"allowlist": "allowlist", "disabled": "closed", "pairing": "pairing"}  # policies, and `[access] dm`


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountAccess:
    """The people and groups that one account answers; with `people_open` or `groups_open` all of them."""

    platform: str
    account: str = "default"
    policy: str = "pairing"
    people: Sequence[str] = ()
    groups: Sequence[str] = ()
    people_open: bool = False
    groups_open: bool = False

    @property
    def name(self) -> str:
        """The account, as in the report."""
        return self.platform if self.account == "default" else f"{self.platform} {shown(self.account)}"


def common(home: Home, accesses: Sequence[AccountAccess]) -> tuple[Sequence[str], Sequence[str]]:
    """The people and groups that each account of their platform answers: `[access]` has one list for all of them.

    Others are noted: they would come to accounts that have not answered them.
    """
    people: list[str] = []
    groups: list[str] = []
    for access in accesses:
        beside = [other for other in accesses if other.platform == access.platform]
        for person in access.people:
            closed = [one for one in beside if not (person in one.people or one.people_open)]
            _one_list(home, person, "allow", closed, people)
        for group in access.groups:
            closed = [one for one in beside if not (group in one.groups or one.groups_open)]
            _one_list(home, group, "allow_groups", closed, groups)
    return list(dict.fromkeys(people)), list(dict.fromkeys(groups))


def _one_list(home: Home, name: str, key: str, closed: Sequence[AccountAccess], found: list[str]) -> None:
    if not closed:
        found.append(name)
        return
    accounts = ", ".join(access.name for access in closed)
    home.leave(f"[access] {key}: {name}", f"the account {accounts} does not answer there, and the list holds for all")


def policy(home: Home, accesses: Sequence[AccountAccess]) -> str:
    """The policy for direct messages of all accounts, where they have the same and it is no open door; else ""."""
    found = {DIRECT.get(access.policy, "") for access in accesses}
    for access in accesses:
        if access.policy not in DIRECT:
            home.leave(
                f"{access.name}: direct messages are {shown(access.policy)}", "the door stays as [access] dm has it"
            )
    if len(found) > 1:
        listed = ", ".join(f"{access.name} {shown(access.policy)}" for access in accesses)
        home.leave(f"direct messages: {listed}", "[access] dm holds for all platforms; it stays as it is")
        return ""
    return next(iter(found), "")


def leave_access(home: Home, what: str, access: AccountAccess) -> None:
    """Note the people and groups of an account that stays behind."""
    if whom := [*access.people, *access.groups]:
        home.leave(f"{what}: {', '.join(whom)}", "whom it answers stays with it")


def account(platform: str, name: str, secrets: Mapping[str, Secret | None], needed: str) -> Account | None:
    """The account, where it has the secret that it needs."""
    held = {key: secret for key, secret in secrets.items() if secret is not None}
    return Account(type=platform, name=name, secrets=held) if needed in held else None


# Jobs


def rule_of_cron(line: str) -> Rule:
    """Raises UsageError."""
    return parse_cron(line)


def rule_of_interval(seconds: float, now: datetime) -> Rule | None:
    """The rule of each so many seconds from now; None where there is no such interval."""
    return Every(seconds=int(seconds), anchor=now) if 1 <= seconds <= 366 * 24 * 3600 else None


def rule_of_moment(moment: datetime, now: datetime) -> Rule | None:
    """The rule of one moment; None where it is past."""
    return Once(at=moment.astimezone(UTC)) if now < moment < FURTHEST else None


def moment_of_ms(value: object) -> datetime | None:
    """A moment in milliseconds since 1970."""
    number = whole_number(value)
    if number is None or not 0 <= number < 2**47:
        return None
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number)


def moment_of_text(value: object) -> datetime | None:
    """A moment in ISO 8601 with its offset."""
    try:
        moment = datetime.fromisoformat(text(value))
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


@dataclass(slots=True)
class Jobs:
    """The jobs of a home that can be expressed; the others are noted."""

    home: Home
    now: datetime
    found: list[Job] = field(default_factory=list)

    def add(
        self,
        *,
        id: object,
        name: object,
        words: object,
        to: str,
        cron: str = "",
        seconds: float | None = None,
        moment: datetime | None = None,
        zone: str = "",
        is_paused: bool = False,
        remarks: Sequence[str] = (),
    ) -> None:
        """One more, by one of `cron`, `seconds` and `moment`."""
        title = text(name) or text(words)[:40] or str(id)
        what, message = f"schedule {shown(title)}", text(words)
        if not message:
            self.home.leave(what, "it has no words to begin with")
        elif len(message) > LONGEST_TEXT:
            self.home.leave(what, f"its text has {len(message)} characters; a schedule here has {LONGEST_TEXT} at most")
        elif zone and not is_zone(zone):
            self.home.leave(what, f"{shown(zone)} is no time zone")
        elif (rule := self._rule(what, cron, seconds, moment)) is not None:
            said = self._said(cron, seconds, moment)
            job = Job(
                id=self._id(id, message, said), name=title[:LONGEST_NAME], text=message, rule=rule, said=said, to=to,
                zone=zone, is_paused=is_paused, remarks=tuple(remarks),
            )  # fmt: skip
            self.found.append(job)

    def _id(self, id: object, *more: str) -> str:
        """The id of a job, the same at each import: a second job with it has another one, as has one without any."""
        own = next(iter(texts([id])), "") or sha256("\n".join(more).encode()).hexdigest()[:16]
        if len(own) > LONGEST_ID:
            own = sha256(own.encode()).hexdigest()
        taken, number, found = {job.id for job in self.found}, 2, own
        while found in taken:
            found, number = f"{own}#{number}", number + 1
        return found

    def _rule(self, what: str, cron: str, seconds: float | None, moment: datetime | None) -> Rule | None:
        rule: Rule | None = None
        if cron:
            try:
                rule = rule_of_cron(cron)
            except UsageError:
                self.home.leave(what, f"its cron line {shown(cron)} cannot be kept here")
                return None
        elif seconds is not None:
            rule = rule_of_interval(seconds, self.now)
        elif moment is not None:
            rule = rule_of_moment(moment, self.now)
        if rule is None:
            self.home.leave(what, "its moment is past" if moment is not None else "its times cannot be read")
        return rule

    @staticmethod
    def _said(cron: str, seconds: float | None, moment: datetime | None) -> str:
        if cron:
            return cron
        if seconds is None:
            return f"{moment:%Y-%m-%dT%H:%MZ}"
        for unit, length in (("h", 3600), ("min", 60)):
            if seconds % length == 0:
                return f"every {seconds // length:.0f} {unit}"
        return f"every {seconds:.0f} s"
