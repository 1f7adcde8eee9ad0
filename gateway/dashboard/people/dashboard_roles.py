"""Named roles that have rights for the dashboard: their words, and people who get them or give them back.

Who has such a role stands in the configuration's file, under `people` of its [[roles]] entry.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import anyio.to_thread

from gateway.access.settings import DashboardRight
from gateway.config.document import CannotChange, entries_at
from gateway.config.editor import Edit, Editor, Proposal
from gateway.config.settings import Settings
from gateway.web.control import OperationError

MAY: Mapping[DashboardRight, str] = {
    "view": "look at all pages but what people wrote",
    "operate": "decide, retry, pause and the like",
    "transcripts": "read what people wrote",
    "configure": "change accounts, people, roles and settings",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedRole:
    """A role of the configuration, what it may do in one sentence, and the accounts that have it by name."""

    name: str
    may: str
    people: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DashboardRoles:
    """The roles of now, and changes of the file."""

    settings: Callable[[], Settings]
    editor: Editor

    @property
    def offered(self) -> Sequence[OfferedRole]:
        """The roles with any right for the dashboard, as the configuration has them in a row."""
        return [
            OfferedRole(name=role.name, may=in_words(role.rights), people=role.people)
            for role in self.settings().roles
            if role.rights
        ]

    async def change(self, account: str, role: str, *, gives: bool) -> Proposal:
        """The file with that account in the role or out of it, not yet written. Raises OperationError."""
        if role not in {one.name for one in self.offered}:
            raise OperationError(f"no role {role!r} gives rights for the dashboard", fix="choose one of those offered")
        return await anyio.to_thread.run_sync(self._proposed, account, role, gives)

    async def save(self, proposal: Proposal) -> None:
        """Write what was proposed; it counts at once. Raises OperationError: nothing was written."""
        try:
            await self.editor.save(proposal)
        except CannotChange as error:
            raise OperationError(str(error), fix="no role was changed") from error

    def _proposed(self, account: str, role: str, gives: bool) -> Proposal:
        form = self.editor.forms["roles"]
        if variable := self.editor.variable(form.path):
            raise OperationError(f"the environment variable {variable} sets the roles", fix="change it there")
        try:
            file = self.editor.file()
            entries = entries_at(file.text, form.path)
            index = next((place for place, entry in enumerate(entries) if entry.get("name") == role), None)
            if index is None:
                raise OperationError(f"{file.path.name} has no role {role!r}", fix="load the page again")
            found = entries[index].get("people")
            people = [one for one in found if one != account] if isinstance(found, list) else []
            fields = {"name": role, "people": [*people, account] if gives else people}
            proposal = self.editor.propose(file, Edit(form=form, index=index, fields=fields))
        except (CannotChange, ValueError) as error:
            raise OperationError(str(error), fix="no role was changed") from error
        if not proposal.is_sound:
            raise OperationError("; ".join((*proposal.mistakes.values(), *proposal.elsewhere)))
        return proposal


def in_words(rights: frozenset[DashboardRight]) -> str:
    """The sentence of these rights: "may look at …, and change …"."""
    said = [MAY[one] for one in get_args(DashboardRight) if one in rights]
    return "may " + "; ".join(said)
