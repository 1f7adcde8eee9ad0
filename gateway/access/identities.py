"""Accounts of one person: which belong together, and among which of them ranks and roles hold. No I/O.

The truth is the table `identity` and `[[people]]`; here it is as the process reads it, so that no message asks the
database. Whoever writes a link to the database tells the book.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from agent.core.ids import PersonId
from gateway.access.settings import PersonSettings

MOST_ACCOUNTS = 10  # of one person


class LinkedAccount(Protocol):
    """A row of the table, as far as it matters here: accounts with one `identity`, or the same `rights`, are in one."""

    @property
    def person(self) -> str: ...
    @property
    def identity(self) -> str: ...
    @property
    def rights(self) -> str | None: ...


_Groups = Mapping[str, tuple[PersonId, ...]]  # by account, those that are in one with it, itself among them


class Identities:
    """All accounts that are linked; any other is a person by itself."""

    def __init__(self, together: _Groups = MappingProxyType({}), with_rights: _Groups = MappingProxyType({})) -> None:
        self._together = together
        self._with_rights = with_rights

    @classmethod
    def of(cls, linked: Iterable[LinkedAccount], people: Iterable[PersonSettings] = ()) -> "Identities":
        """The links that people made, and those of the configuration; where they overlap, all is one person."""
        rows = list(linked)
        named = list(people)
        together: list[Sequence[str]] = [person.accounts for person in named]
        with_rights: list[Sequence[str]] = [person.accounts for person in named if person.rights]
        together += _by(rows, lambda row: row.identity)
        with_rights += _by(rows, lambda row: row.rights)
        return cls(_joined(together), _joined(with_rights))

    def accounts(self, person: str) -> tuple[PersonId, ...]:
        """All accounts of whoever has this one, it first."""
        return _with(self._together, person)

    def with_rights_of(self, person: str) -> tuple[PersonId, ...]:
        """The accounts whose ranks and roles this one has as well, itself first."""
        return _with(self._with_rights, person)

    def all_people(self) -> tuple[tuple[PersonId, ...], ...]:
        """Everybody with several accounts."""
        return tuple(dict.fromkeys(self._together.values()))


def _with(groups: _Groups, person: str) -> tuple[PersonId, ...]:
    own = PersonId(person)
    found = groups.get(person)
    return (own,) if found is None else (own, *(one for one in found if one != own))


def _by(rows: Sequence[LinkedAccount], name: Callable[[LinkedAccount], str | None]) -> list[list[str]]:
    """The accounts by that name; those without one are in no group."""
    groups: dict[str, list[str]] = {}
    for row in rows:
        if (of := name(row)) is not None:
            groups.setdefault(of, []).append(row.person)
    return list(groups.values())


def _joined(groups: Iterable[Sequence[str]]) -> _Groups:
    """The groups, with those that share an account made one."""
    found: dict[str, list[PersonId]] = {}
    for group in groups:
        one: list[PersonId] = []
        for account in group:
            others = found.get(account)
            if others is not one:
                one += others or [PersonId(account)]
                found |= dict.fromkeys(one, one)
    return {account: tuple(one) for account, one in found.items() if len(one) > 1}


NOBODY_LINKED = Identities()


class IdentityBook:
    """The links as they are now; `listen` hears of each change."""

    def __init__(self, linked: Iterable[LinkedAccount] = (), people: Sequence[PersonSettings] = ()) -> None:
        self._linked = tuple(linked)
        self._people = tuple(people)
        self._listeners: list[Callable[[Identities], object]] = []
        self.now = Identities.of(self._linked, self._people)

    def listen(self, listener: Callable[[Identities], object]) -> None:
        """Tell it now, and after each change."""
        self._listeners.append(listener)
        listener(self.now)

    def relink(self, linked: Iterable[LinkedAccount]) -> None:
        """The links in the database are these now."""
        self._linked = tuple(linked)
        self._renew()

    def configure(self, people: Sequence[PersonSettings]) -> None:
        """`[[people]]` of the configuration are these now."""
        if tuple(people) != self._people:
            self._people = tuple(people)
            self._renew()

    def accounts(self, person: str) -> tuple[PersonId, ...]:
        """All accounts of whoever has this one, it first."""
        return self.now.accounts(person)

    def configured(self, person: str) -> tuple[str, ...]:
        """The accounts that the configuration names beside this one; () where it names it nowhere."""
        return next((one.accounts for one in self._people if person in one.accounts), ())

    def _renew(self) -> None:
        self.now = Identities.of(self._linked, self._people)
        for listener in self._listeners:
            listener(self.now)
