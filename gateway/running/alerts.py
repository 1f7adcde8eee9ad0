"""What the owner is told in their own chat: deaf accounts, refused logins, dead letters, places that are gone."""

import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

from agent.core.clock import Clock
from agent.core.outbox import Say
from gateway.channels.adapter import Health, State
from gateway.channels.keys import ConversationKey
from gateway.phrases.catalogue import Catalogue
from gateway.router.notices import Notices
from gateway.telemetry.trouble import Troubles

LOOK_EVERY_S = 10.0
DEAF_AFTER_S = 120.0
SAME_AGAIN_S = 3600.0
REMEMBERED = 500

_log = logging.getLogger("tieline.alerts")


class Alerts:
    """Notes at once, tells from its own task. An owner is told where they are known to talk to the bot directly."""

    def __init__(
        self,
        *,
        clock: Clock,
        troubles: Troubles,
        health: Callable[[], Mapping[str, Health]],
        owners: Callable[[], Sequence[str]],
        notices: Notices,
        phrase: Catalogue,
    ) -> None:
        self._clock = clock
        self._troubles = troubles
        self._health = health
        self._owners = owners
        self._notices = notices
        self._phrase = phrase
        self._chats: dict[str, ConversationKey] = {}
        self._told: OrderedDict[str, float] = OrderedDict()
        self._waiting: list[tuple[str, dict[str, object]]] = []
        self._deaf_since: dict[str, float] = {}
        self._sent = 0

    def met(self, person: str, key: ConversationKey) -> None:
        """This person writes to us directly there."""
        self._chats[person] = key

    def tell(self, key: str, values: dict[str, object]) -> None:
        """Say a sentence of the catalogue to the owners; the same one at most once an hour."""
        sentence = self._phrase(key, "en", **values)
        now = self._clock.monotonic()
        if now - self._told.get(sentence, -SAME_AGAIN_S) < SAME_AGAIN_S:
            return
        self._told[sentence] = now
        self._told.move_to_end(sentence)
        if len(self._told) > REMEMBERED:
            self._told.popitem(last=False)
        _log.warning("%s", sentence)
        self._waiting.append((key, values))

    def login_refused(self, channel_type: str, reason: str) -> None:
        fix = "check its token with `tieline doctor`, then restart"
        self._troubles.report("adapter", channel_type, f"cannot sign in: {reason}", fix=fix, blocking=True)
        self.tell("owner_failed", {"channel": channel_type, "detail": reason})

    def undeliverable(self, key: ConversationKey, outbox_id: int, reason: str) -> None:
        self._troubles.note("delivery", str(key), f"message {outbox_id} was refused: {reason}")

    async def run(self) -> None:
        """Look after the accounts and tell what was noted, until cancelled."""
        while True:
            self._look()
            waiting, self._waiting = self._waiting, []
            for key, values in waiting:
                await self._say(key, values)
            await self._clock.sleep(LOOK_EVERY_S)

    def _look(self) -> None:
        now = self._clock.monotonic()
        for name, health in self._health().items():
            if health.hears:
                if self._deaf_since.pop(name, None) is not None:
                    self._troubles.over("adapter", name)
                continue
            since = self._deaf_since.setdefault(name, now)
            if health.state is State.RECONNECTING and now - since >= DEAF_AFTER_S:
                detail = health.detail or "no connection"
                self._troubles.report("adapter", name, detail, fix="it reconnects by itself", blocking=True)
                self.tell("owner_deaf", {"channel": name, "minutes": int(DEAF_AFTER_S // 60), "detail": detail})

    async def _say(self, key: str, values: dict[str, object]) -> None:
        self._sent += 1
        for owner in self._owners():
            chat = self._chats.get(owner) or _private_chat(owner)
            if chat is None:
                continue
            text = "⚠️ " + self._phrase(key, "en", **values)
            dedup = f"alert:{self._clock.now().isoformat()}:{self._sent}:{owner}"
            await self._notices.say(chat, Say(text=text, kind="notice", verbatim=True), dedup=dedup)


def _private_chat(owner: str) -> ConversationKey | None:
    """On Telegram a private chat has the person's own id; elsewhere the person must have written first."""
    platform, _, person = owner.partition(":")
    return ConversationKey("telegram", person) if platform == "telegram" and person.isdecimal() else None
