"""Alerts to the owners in their own chats and beyond: deaf accounts, refused logins, silent models, dead letters."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from agent.core.bounded_map import BoundedMap
from agent.core.clock import Clock
from agent.core.errors import AgentError, ProviderRefused, QuotaUsedUp
from agent.core.ids import ConversationId
from agent.core.outbox import Buttons, OutgoingMessage
from agent.providers.provider import Provider
from agent.providers.registry import LazyProvider
from agent.providers.registry import Registry as Providers
from agent.providers.routing import Models
from agent.storage.database import Database
from agent.storage.errors import StorageTrouble
from agent.storage.timestamps import to_timestamp
from gateway.access.policy import is_owner, subject_kind
from gateway.channels.adapter import Health, Ids, State
from gateway.channels.keys import ConversationKey
from gateway.delivery.ephemeral.pairing_alerts import alert_key
from gateway.phrases.catalogue import Catalogue, spelled
from gateway.receivers.receivers import Receivers
from gateway.router.ports import Notices
from gateway.scheduler.process_scheduler import PeriodicWakeEvent, ProcessScheduler
from gateway.storage import settings_rows
from gateway.telemetry.trouble import Trouble, Troubles
from gateway.web.health import Reason

LOOK_EVERY_S = 10.0
DEAF_AFTER_S = 120.0
SAME_AGAIN_S = 3600.0
REMEMBERED = 500
WARNING, GOOD_NEWS = "⚠️", "✅"
OWNER_SETTING = "owner"  # of the direct chat in which an owner was met last
OUTAGE_SETTING = "outage"  # of what fails ("model:main"): which sentence the owners were told

_log = logging.getLogger("tieline.alerts")


_Sentence = tuple[str, dict[str, object]]  # a key of the catalogue and its values


def _no_buttons(language: str) -> Buttons:
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    """A sentence that waits to be said. `told`: the conversation that knows it already.

    `subject` is that of an outage. One that is not for the `chats` goes to the receivers beyond them alone.
    """

    key: str
    values: dict[str, object]
    buttons: Callable[[str], Buttons] = _no_buttons
    told: str = ""
    subject: str = ""
    chats: bool = True


_Says = tuple[tuple[ConversationKey, OutgoingMessage, str], ...]  # place, message, its name in the outbox


@dataclass(frozen=True, slots=True)
class _Chat:
    """Where an owner talks to the bot directly, and in which language."""

    key: ConversationKey
    language: str = "en"


class Alerts:
    """Notes at once, tells from its own task. An owner is told where they talk to the bot directly."""

    def __init__(
        self,
        *,
        database: Database,
        clock: Clock,
        scheduler: ProcessScheduler,
        troubles: Troubles,
        health: Callable[[], Mapping[str, Health]],
        owners: Callable[[], Sequence[str]],
        ids: Callable[[str], Ids],
        notices: Notices,
        phrase: Catalogue,
        receivers: Receivers | None = None,
    ) -> None:
        """`receivers` get the same sentences beyond the chats."""
        self._receivers = receivers
        self._database = database
        self._clock = clock
        self._troubles = troubles
        self._health = health
        self._owners = owners
        self._ids = ids
        self._notices = notices
        self._phrase = phrase
        self._chats: dict[str, _Chat] = {}
        self._unsaved: dict[str, ConversationKey | None] = {}  # whose chat is new, with the one before
        self._told: BoundedMap[str, float] = BoundedMap(REMEMBERED)
        self._waiting: list[_Waiting] = []
        self._outages: dict[str, _Sentence] = {}  # what fails now, by subject
        self._over: dict[str, _Sentence | None] = {}  # what does not any more
        self._told_outages: dict[str, str] = {}
        self._is_remembered = False
        self._deaf_since: dict[str, float] = {}
        self._told_deaf: set[str] = set()
        self._sent = 0
        self._scheduler = scheduler
        self._wake_event: PeriodicWakeEvent | None = None  # while it runs

    def met(self, person: str, key: ConversationKey, language: str) -> None:
        """This person writes to us directly there. Kept for the next start."""
        known = self._chats.get(person)
        chat = _Chat(key, language)
        if chat != known:
            self._chats[person] = chat
            self._unsaved.setdefault(person, known.key if known else None)
            self._wake()

    def tell(
        self,
        key: str,
        values: dict[str, object],
        buttons: Callable[[str], Buttons] = _no_buttons,
        *,
        told: str = "",
    ) -> None:
        """Say a sentence of the catalogue to the owners, with buttons in their language; the same one once an hour.

        The conversation `told` has just been told in its own words.
        """
        self._take(_Waiting(key=key, values=values, buttons=buttons, told=told))

    def tell_receivers(self, key: str, values: dict[str, object]) -> None:
        """Say it beyond the chats alone."""
        self._take(_Waiting(key=key, values=values, chats=False))

    def _take(self, waiting: _Waiting) -> None:
        sentence = self._phrase(waiting.key, "en", **waiting.values)
        if self._is_recent(sentence):
            return
        self._note(sentence)
        self._waiting.append(waiting)
        self._wake()

    def _is_recent(self, sentence: str) -> bool:
        return self._clock.monotonic() - self._told.get(sentence, -SAME_AGAIN_S) < SAME_AGAIN_S

    def _note(self, sentence: str) -> None:
        self._told[sentence] = self._clock.monotonic()
        _log.warning("%s", spelled(sentence))

    def test(self, by: str) -> tuple[str, ...]:
        """Say a test to the owners, as any alert goes, however often; gives who is told, and where."""
        self._waiting.append(_Waiting(key="owner_test", values={"by": by}))
        self._wake()
        return tuple(f"{owner} ({chat.key})" for owner, chat in self._recipients().items())

    def outage(self, subject: str, key: str, values: dict[str, object]) -> None:
        """Something fails until `outage_over`: the owners are told once, also over restarts."""
        self._over.pop(subject, None)
        self._outages[subject] = (key, values)
        self._wake()

    def outage_over(self, subject: str, key: str | None, values: dict[str, object]) -> None:
        """It works again: told to owners who were told that it did not. No `key`: nobody needs to hear it."""
        was_open = self._outages.pop(subject, None) is not None
        if self._is_remembered and not was_open and subject not in self._told_outages:
            return
        self._over[subject] = (key, values) if key is not None else None
        self._wake()

    def login_refused(self, channel_type: str, reason: str) -> None:
        fix = "see `tieline doctor`; a change of its [[channels]] entry counts at once, all else after a restart"
        self._troubles.report("adapter", channel_type, f"cannot sign in: {reason}", fix=fix, blocking=True)
        self.outage(_account(channel_type), "owner_failed", {"channel": channel_type, "detail": reason})

    def login_refused_at_sending(self, channel_type: str) -> None:
        self.outage(_sending(channel_type), "owner_mute", {"channel": channel_type})

    def sends_again(self, channel_type: str) -> None:
        self.outage_over(_sending(channel_type), "owner_mute_back", {"channel": channel_type})

    def undeliverable(self, key: ConversationKey, outbox_id: int, reason: str) -> None:
        self._troubles.note("delivery", str(key), f"message {outbox_id} was refused: {reason}")
        self.tell("owner_undeliverable", {"chat": str(key), "detail": reason})

    def gone(self, key: ConversationKey, reason: str) -> None:
        """A place is closed to us. Not an owner's own chat: one who never wrote to us has not removed us."""
        if key in {chat.key for chat in self._recipients().values()}:
            _log.warning("%s cannot be told anything: %s", key, reason)
        else:
            self.tell("owner_gone", {"chat": str(key)})

    async def run(self) -> None:
        """Look after the accounts now and then, tell what is noted at once, until cancelled.

        What the disk refuses is tried again.
        """
        with self._scheduler.wake_event("alerts", every_s=LOOK_EVERY_S) as self._wake_event:
            while True:
                self._look()
                try:
                    if not self._is_remembered:
                        await self._remember()
                        self._is_remembered = True
                    await self.save()
                    await self._tell_outages()
                    await self._tell_waiting()
                except StorageTrouble as error:
                    _log.warning("the owners cannot be told now: %s", error)
                await self._wake_event.wait()

    def _wake(self) -> None:
        if self._wake_event is not None:
            self._wake_event.set()

    def account_closed(self, channel_type: str) -> None:
        """It was closed by us: what was wrong with it does not hold any more."""
        self._deaf_since.pop(channel_type, None)
        self._told_deaf.discard(channel_type)
        self._troubles.over("adapter", channel_type)
        self._troubles.over("delivery", channel_type)
        for subject in (_account(channel_type), _sending(channel_type)):
            self.outage_over(subject, None, {})

    def _look(self) -> None:
        now, accounts = self._clock.monotonic(), self._health()
        for subject in self._told_outages:
            name = subject.removeprefix(ACCOUNT)
            if name != subject and name not in accounts and subject not in self._over:  # taken out of the file
                self.outage_over(subject, None, {})
        for name, health in accounts.items():
            if health.hears or health.state is State.PAUSED:
                if self._deaf_since.pop(name, None) is not None:
                    self._told_deaf.discard(name)
                    self._troubles.over("adapter", name)
                subject = _account(name)
                if subject in self._outages or (subject in self._told_outages and subject not in self._over):
                    self.outage_over(subject, "owner_account_back" if health.hears else None, {"channel": name})
                continue
            since = self._deaf_since.setdefault(name, now)
            # A refused login was told when it was refused.
            if health.state is not State.FAILED and now - since >= DEAF_AFTER_S:
                self._deaf(name, health.detail or "no connection")

    def _deaf(self, name: str, detail: str) -> None:
        self._troubles.report("adapter", name, detail, fix="it reconnects by itself", blocking=True)
        if name not in self._told_deaf:
            self._told_deaf.add(name)
            values: dict[str, object] = {"channel": name, "minutes": int(DEAF_AFTER_S // 60), "detail": detail}
            self.outage(_account(name), "owner_deaf", values)

    async def _remember(self) -> None:
        """Take up where owners were met before the start, unless they have been met since."""
        stored = await self._database.read(lambda conn: settings_rows.everywhere(conn, OWNER_SETTING))
        for conversation, value in stored.items():
            person, _, language = value.partition(" ")
            self._chats.setdefault(person, _Chat(ConversationKey.parse(conversation), language or "en"))

        told = await self._database.read(lambda conn: settings_rows.everywhere(conn, OUTAGE_SETTING))
        self._told_outages = {str(subject): sentence for subject, sentence in told.items()}

    async def _tell_outages(self) -> None:
        """Bring what is told in line with what is so. An outage that returns within the hour waits for it.

        What was told and the messages are one transaction: nothing is lost, and nothing is said twice.
        """
        changed, sentences = dict[str, str | None](), list[str]()
        says = list[_Waiting]()
        for subject, (key, values) in self._outages.items():
            sentence = self._phrase(key, "en", **values)
            if self._told_outages.get(subject) != key and not self._is_recent(sentence):
                changed[subject] = key
                sentences.append(sentence)
                says.append(_Waiting(key=key, values=values, subject=subject))
        over = dict(self._over)
        for subject, said in over.items():
            if subject in self._told_outages:
                changed[subject] = None
                if said is not None:
                    says.append(_Waiting(key=said[0], values=said[1], subject=subject))
        if changed:
            await self._say(says, changed)
        for sentence in sentences:
            self._note(sentence)
        for subject, told in changed.items():
            if told is None:
                del self._told_outages[subject]
            else:
                self._told_outages[subject] = told
        for subject, said in over.items():
            if subject in self._over and self._over[subject] is said:
                del self._over[subject]

    async def save(self) -> None:
        """Keep where owners were met, for the next start."""
        if not self._unsaved:
            return
        unsaved, self._unsaved = self._unsaved, {}
        news = [(person, before, self._chats[person]) for person, before in unsaved.items()]
        at = to_timestamp(self._clock.now())

        def work(conn: Connection) -> None:
            for person, before, chat in news:
                if before is not None and before != chat.key:
                    settings_rows.clear(conn, ConversationId(str(before)), OWNER_SETTING)
                value = f"{person} {chat.language}"
                settings_rows.put(conn, ConversationId(str(chat.key)), OWNER_SETTING, value, at=at)

        try:
            await self._database.write(work)
        except StorageTrouble:
            self._unsaved |= unsaved
            raise

    async def _tell_waiting(self) -> None:
        while self._waiting:
            await self._say([self._waiting[0]], {})
            del self._waiting[0]

    async def _say(self, waiting: Sequence[_Waiting], changed: Mapping[str, str | None]) -> None:
        """Tell everybody or nobody, and keep which outages were told: nobody hears it twice because another could not
        be told.
        """
        says = [says for one in waiting if one.chats for says in self._says(one)]
        at = to_timestamp(self._clock.now())

        def work(conn: Connection) -> None:
            for place, say, name in says:
                self._notices.add(conn, place, say, dedup=name)
            if self._receivers is not None:
                for one in waiting:
                    self._receivers.add(conn, one.key, one.values, subject=one.subject)
            for subject, key in changed.items():
                if key is None:
                    settings_rows.clear(conn, ConversationId(subject), OUTAGE_SETTING)
                else:
                    settings_rows.put(conn, ConversationId(subject), OUTAGE_SETTING, key, at=at)

        if says or changed or (waiting and self._receivers is not None):
            await self._database.write(work)
        for place, _, _ in says:
            self._notices.committed(place)
        if waiting and self._receivers is not None:
            self._receivers.committed()

    def _says(self, waiting: _Waiting) -> _Says:
        """Its messages to the owners, each with its name in the outbox."""
        self._sent += 1
        key, values = waiting.key, waiting.values
        moment = f"{self._clock.now().isoformat()}:{self._sent}"
        found = []
        for owner, chat in self._recipients().items():
            if str(chat.key) == waiting.told:
                continue
            text = f"{GOOD_NEWS if key.endswith('_back') else WARNING} {self._phrase(key, chat.language, **values)}"
            say = OutgoingMessage(text=text, kind="notice", verbatim=True, buttons=waiting.buttons(chat.language))
            # By this an alert is found again when what it asks is decided.
            name = alert_key(str(values["person"]), chat.language) if key == "owner_pairing" else "alert:"
            found.append((chat.key, say, f"{name}{moment}:{owner}"))
        return tuple(found)

    def _recipients(self) -> Mapping[str, _Chat]:
        """The owners that can be reached, and whoever sits at the machine itself."""
        found = {owner: self._chats.get(owner) or self._private_chat(owner) for owner in self._owners()}
        found |= {person: chat for person, chat in self._chats.items() if is_owner(person)}
        return {owner: chat for owner, chat in found.items() if chat is not None}

    def _private_chat(self, owner: str) -> _Chat | None:
        """Where a private chat has the person's own id; elsewhere the person must have written first."""
        platform, _, person = owner.partition(":")
        ids = self._ids(platform)
        if not ids.names_private_chat or subject_kind(owner, ids) != "person":
            return None
        accounts = (name for name in self._health() if name.partition("@")[0] == platform)
        account = next(accounts, None)
        return _Chat(ConversationKey(account, person)) if account is not None else None


ACCOUNT = "account:"


def _account(channel_type: str) -> str:
    """The subject of an account that does not hear."""
    return f"{ACCOUNT}{channel_type}"


def _sending(channel_type: str) -> str:
    """The subject of an account that cannot send."""
    return f"sending:{channel_type}"


# Health of models: troubles for the operator's pages, reasons for `/readyz`, and a word to the owners.

REFUSED_FIX = "correct the key, the model or the address set in [[llm.providers]]; `tieline doctor` tries it"
QUOTA_FIX = "add credit or raise the limit of the account at the provider; it is asked again by itself"
BUSY_FIX = "look at the status page of the provider or at its server; it is asked again by itself"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHealth:
    """Hears from `Models` what fails and what answers."""

    troubles: Troubles
    alerts: Alerts
    providers: Providers

    def failed(self, provider: Provider, error: AgentError | None) -> None:
        """It is passed over because of `error`; None: it answers again."""
        if error is None:
            self.answered(provider)
            return
        # Without the id of the request, which differs each time: the same outage is told once.
        name, detail = (
            provider.name,
            str(error).removeprefix(f"{provider.name}: ").partition(" [request ")[0].rstrip("."),
        )
        if not self._is_configured(provider):
            self.troubles.note("provider", f"{name}/{provider.model}", detail, fix="choose another model with /model")
            return
        kind, fix = _kind_of(error)
        self.troubles.report("provider", name, detail, fix=fix)
        route = self.providers.route(self.providers.get(name))
        others = [other.name for other in route if self._trouble_of(other) is None]
        if others:
            values: dict[str, object] = {"provider": name, "detail": detail, "others": ", ".join(others)}
            self.alerts.outage(f"model:{name}", f"{kind}_others", values)
        elif could := self._could_stand_in(route):
            values = {"provider": name, "detail": detail, "could": could}
            self.alerts.outage(f"model:{name}", f"{kind}_could", values)
        else:
            self.alerts.outage(f"model:{name}", kind, {"provider": name, "detail": detail})

    def answered(self, provider: Provider) -> None:
        """It answers, for the first time or again."""
        if self._is_configured(provider):
            self.troubles.over("provider", provider.name)
            self.alerts.outage_over(f"model:{provider.name}", "owner_model_back", {"provider": provider.name})

    def reloaded(self, before: Sequence[LazyProvider], models: Models) -> None:
        """The configuration has changed: nobody knows yet how those do that were `before` and are no more."""
        known = self.providers
        for old in before:
            if old.name not in known or known.get(old.name) is not old:
                models.forget(old.name)
                self.troubles.over("provider", old.name)
            if old.name not in known:
                self.alerts.outage_over(f"model:{old.name}", None, {})

    def reasons(self) -> tuple[Reason, ...]:
        """Why nobody gets an answer, one for each model; nothing while the default or one in its place may answer."""
        route = self.providers.route(self.providers.default)
        found = [(provider.name, self._trouble_of(provider)) for provider in route]
        if not all(trouble for _, trouble in found):
            return ()
        return tuple(
            Reason(f"model {name}", f"does not answer: {trouble.text}", trouble.fix)
            for name, trouble in found
            if trouble is not None
        )

    def _could_stand_in(self, route: Sequence[Provider]) -> str:
        """The first provider beside the route that is in no trouble; the built-in demo is none. "": there is none."""
        known, asked = self.providers, {one.name for one in route}
        beside = (known.get(name) for name in known.names if name not in asked)
        return next((one.name for one in beside if one.settings.type != "demo" and not self._trouble_of(one)), "")

    def _is_configured(self, provider: Provider) -> bool:
        known = self.providers
        return provider.name in known and known.get(provider.name).model == provider.model

    def _trouble_of(self, provider: Provider) -> Trouble | None:
        return next((one for one in self.troubles.open if (one.kind, one.subject) == ("provider", provider.name)), None)


def _kind_of(error: AgentError) -> tuple[str, str]:
    """The message for the owners, as a key of the catalogue, and the fix on the operator's pages."""
    if isinstance(error, QuotaUsedUp):
        return "owner_model_quota", QUOTA_FIX
    if isinstance(error, ProviderRefused):
        return "owner_model_refused", REFUSED_FIX
    return "owner_model_busy", BUSY_FIX
