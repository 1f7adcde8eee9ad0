"""Names of people and channels, and people's user groups: looked up, remembered, never waited for long."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import anyio

from adapters.slack.account import Address
from adapters.slack.api import SlackApi
from agent.core.bounded_map import BoundedMap
from gateway.channels.adapter import AdapterContext
from gateway.channels.errors import ChannelError
from gateway.channels.inbound import ButtonClicked, ChatType, Edited, Inbound, MessageReceived, Sender
from gateway.channels.kit.lookups import Beside, Lookups

log = logging.getLogger("tieline.slack")

KEEP_S = 3600.0
KEEP_PERSON_S = 300.0  # an admin of the workspace may be none a moment later
KEEP_FAILURE_S = 300.0
MOST = 4096
PATIENCE_S = 0.8  # Slack wants its acknowledgement within 3 s
GROUPS_PATIENCE_S = 0.4  # behind that one
_ALL = "user groups"


@dataclass(frozen=True, slots=True)
class Person:
    """The answer of `users.info`. All empty for somebody who could not be looked up.

    `is_admin` counts in `teams` alone: of somebody of another company (Slack Connect) it may tell what they are there.
    """

    display: str = ""
    language: str | None = None
    zone: str | None = None
    is_admin: bool = False
    teams: frozenset[str] = frozenset()
    is_bot: bool = False


class Directory:
    """People and channels of one workspace."""

    def __init__(self, api: SlackApi, adapter_context: AdapterContext, *, patience_s: float = PATIENCE_S) -> None:
        self._api = api
        self._patience_s = patience_s
        self._clock = adapter_context.clock
        self._people: BoundedMap[str, tuple[float, Person]] = BoundedMap(MOST)
        self._titles: BoundedMap[str, tuple[float, str]] = BoundedMap(MOST)

    async def introduce(self, inbound: Inbound, team: str) -> Inbound:
        """The same with names, language, zone and admin flag filled in, as far as Slack tells in time.

        `team` is the bot's own workspace: nobody is an admin who is one elsewhere.
        """
        if not isinstance(inbound, MessageReceived | Edited | ButtonClicked):
            return inbound
        sender, title = inbound.sender, inbound.chat_title
        with anyio.move_on_after(self._patience_s):
            if sender.id.startswith(("U", "W")):
                sender = _known(sender, await self._person(sender.id), team)
            if not title and inbound.chat_type is not ChatType.DIRECT:
                title = await self._title(Address.parse(inbound.key.channel_id).channel)
            if isinstance(inbound, MessageReceived):
                inbound = await self._quoting(inbound)
        return replace(inbound, sender=sender, chat_title=title)

    async def _quoting(self, said: MessageReceived) -> MessageReceived:
        """The same with the name of whoever is quoted."""
        quoted = said.quoted
        if quoted is None or quoted.sender is None or not quoted.sender.id.startswith(("U", "W")) or quoted.is_own:
            return said
        person = await self._person(quoted.sender.id)
        display = person.display or quoted.sender.display
        return replace(said, quoted=replace(quoted, sender=replace(quoted.sender, display=display)))

    async def _person(self, user: str) -> Person:
        known = self._people.get(user)
        if known is not None and known[0] > self._clock.monotonic():
            return known[1]
        person, keep_s = Person(), KEEP_FAILURE_S
        try:
            answer = await self._api.call(
                "users.info", {"user": user, "include_locale": True}, frame=True, patient=False
            )
            person, keep_s = _described(answer.get("user", {})), KEEP_PERSON_S
        except ChannelError as error:
            log.info("a person could not be looked up", extra={"user": user, "why": str(error)})
        self._people[user] = self._clock.monotonic() + keep_s, person
        return person

    async def _title(self, channel: str) -> str:
        known = self._titles.get(channel)
        if known is not None and known[0] > self._clock.monotonic():
            return known[1]
        title, keep_s = "", KEEP_FAILURE_S
        try:
            answer = await self._api.call("conversations.info", {"channel": channel}, frame=True, patient=False)
            title, keep_s = str((answer.get("channel") or {}).get("name") or ""), KEEP_S
        except ChannelError as error:
            log.info("a channel could not be looked up", extra={"channel": channel, "why": str(error)})
        self._titles[channel] = self._clock.monotonic() + keep_s, title
        return title


class UserGroups:
    """The user groups of each person, asked for as one list; nothing is asked without the scope.

    `beside` is that of the account's queues.
    """

    def __init__(
        self, api: SlackApi, adapter_context: AdapterContext, beside: Beside, *, patience_s: float = GROUPS_PATIENCE_S
    ) -> None:
        self._api = api
        self._lookups = Lookups(self._ask, adapter_context.clock, log, beside=beside, patience_s=patience_s)

    async def introduce(self, inbound: Inbound) -> Inbound:
        """The same with the sender's groups, as far as Slack tells in time."""
        if not isinstance(inbound, MessageReceived | Edited | ButtonClicked) or not self._may_be_told:
            return inbound
        found = (await self._lookups.get(_ALL) or {}).get(inbound.sender.id)
        return inbound if not found else replace(inbound, sender=replace(inbound.sender, platform_roles=found))

    def forget(self) -> None:
        """Slack told of a change."""
        self._lookups.forget(_ALL)

    @property
    def _may_be_told(self) -> bool:
        return self._api.granted is None or "usergroups:read" in self._api.granted

    async def _ask(self, _: str) -> Mapping[str, frozenset[str]]:
        """Raises the errors of a channel, and ValueError."""
        answer = await self._api.call("usergroups.list", {"include_users": "true"}, frame=True, patient=False)
        return groups_of(answer.get("usergroups"))


def groups_of(rows: object) -> Mapping[str, frozenset[str]]:
    """The ids of user groups, by the people in them. Raises ValueError for an answer of another form."""
    found: dict[str, set[str]] = {}
    try:
        for row in cast(Any, rows):
            for user in row["users"] if not row.get("date_delete") else ():
                found.setdefault(str(user), set()).add(str(row["id"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a list of user groups ({type(error).__name__})") from error
    return {user: frozenset(groups) for user, groups in found.items()}


def _known(sender: Sender, person: Person, team: str) -> Sender:
    return replace(
        sender,
        display=person.display or sender.display,
        language=person.language or sender.language,
        zone=person.zone or sender.zone,
        is_chat_admin=person.is_admin and team in person.teams,
        is_bot=sender.is_bot or person.is_bot,
    )


def _described(user: dict[str, object]) -> Person:
    profile = user.get("profile")
    names = profile if isinstance(profile, dict) else {}
    display = names.get("display_name") or names.get("real_name") or user.get("real_name") or user.get("name") or ""
    locale = user.get("locale")
    enterprise = user.get("enterprise_user")  # of an organisation with several workspaces
    others = enterprise.get("teams") if isinstance(enterprise, dict) else None
    teams = (user.get("team_id"), *(others if isinstance(others, list) else ()))
    return Person(
        display=str(display),
        language=str(locale) if locale else None,
        zone=str(user["tz"]) if user.get("tz") else None,
        is_admin=bool(user.get("is_admin") or user.get("is_owner")) and not user.get("is_stranger"),
        teams=frozenset(str(one) for one in teams if one),
        is_bot=bool(user.get("is_bot")),
    )
