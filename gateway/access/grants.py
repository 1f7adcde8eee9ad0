"""Grants given while running: read once at start, kept in memory, so that no message asks the database."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from gateway.access.identities import NOBODY_LINKED, Identities
from gateway.access.policy import Grants, Role
from gateway.storage.grants import Grant

ROLES: Mapping[str, Role] = MappingProxyType(
    {"owner": Role.OWNER, "admin": Role.ADMIN, "member": Role.MEMBER, "blocked": Role.BLOCKED}
)


class AccessBook:
    """The grants as policy reads them. Whoever writes a grant to the database tells the book."""

    def __init__(self, grants: Iterable[Grant] = ()) -> None:
        self._grants: dict[tuple[str, str], Grant] = {(grant.subject, grant.place): grant for grant in grants}
        self._identities = NOBODY_LINKED
        self.grants = self._view()
        self.changes = 0  # how often somebody here has changed them

    def note(self, grant: Grant) -> None:
        self.changes += 1
        self._grants[grant.subject, grant.place] = grant
        self.grants = self._view()

    def forget(self, subject: str, place: str = "") -> None:
        self.changes += 1
        self._grants.pop((subject, place), None)
        self.grants = self._view()

    def replace(self, grants: Iterable[Grant]) -> None:
        self._grants = {(grant.subject, grant.place): grant for grant in grants}
        self.grants = self._view()

    def link(self, identities: Identities) -> None:
        """From now on these accounts are one person."""
        self._identities = identities
        self.grants = self._view()

    def as_of(self, moment: int) -> Grants:
        """The grants as they stood at `moment` (UTC microseconds); a block also holds for earlier messages."""
        then = (grant for grant in self._grants.values() if grant.at <= moment or grant.role == "blocked")
        return _view(then, self._identities)

    @property
    def owners(self) -> tuple[str, ...]:
        """The people who were given a role above member everywhere."""
        return tuple(name for name, role in self.grants.everywhere.items() if role >= Role.ADMIN)

    def holds(self, subject: str) -> bool:
        """Is it let in (or blocked) everywhere?"""
        return (subject, "") in self._grants

    def _view(self) -> Grants:
        return _view(self._grants.values(), self._identities)


def _view(grants: Iterable[Grant], identities: Identities) -> Grants:
    given = list(grants)
    people = [grant for grant in given if grant.kind == "person"]
    return Grants(
        everywhere={grant.subject: ROLES[grant.role] for grant in people if not grant.place},
        in_place={(grant.subject, grant.place): ROLES[grant.role] for grant in people if grant.place},
        places=frozenset(grant.subject for grant in given if grant.kind == "place"),
        identities=identities,
    )
