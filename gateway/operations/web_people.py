"""`tieline people` and `sign-ins`: people of the web server and their sign-ins, as plain JSON."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gateway.operations.sign_ins import SignIns, WebPerson
from gateway.web.control import OperationError as Refusal

Json = Any


@dataclass(frozen=True, slots=True)
class WebPeople:
    """The operations; each raises Refusal with the fix."""

    sign_ins: SignIns

    def table(self) -> Mapping[str, Callable[[Mapping[str, Json]], Awaitable[Json]]]:
        """By the names that `tieline` uses."""
        return {
            "people.list": self.list,
            "people.add": self.add,
            "people.disable": self.disable,
            "people.enable": self.enable,
            "people.password": self.password,
            "sign-ins.list": self.list_sign_ins,
            "sign-ins.revoke": self.revoke,
        }

    async def list(self, _: Mapping[str, Json]) -> Json:
        """Everybody, by id, with the number of their open sign-ins."""
        open_ones = [one.person for one in await self.sign_ins.list_all()]
        return [{**_shown(person), "sign_ins": open_ones.count(person.id)} for person in await self.sign_ins.persons()]

    async def add(self, arguments: Mapping[str, Json]) -> Json:
        """A new person, with a password where one is given."""
        id, password = str(arguments.get("id", "")), arguments.get("password")
        if password is not None:
            self.sign_ins.check_length(str(password))
        added = await self.sign_ins.add(id, str(arguments.get("display") or ""))
        if password is not None:
            added = await self.sign_ins.set_password(id, str(password))
        return _shown(added)

    async def disable(self, arguments: Mapping[str, Json]) -> Json:
        return _shown(await self.sign_ins.disable(str(arguments.get("id", ""))))

    async def enable(self, arguments: Mapping[str, Json]) -> Json:
        return _shown(await self.sign_ins.enable(str(arguments.get("id", ""))))

    async def password(self, arguments: Mapping[str, Json]) -> Json:
        return _shown(
            await self.sign_ins.set_password(str(arguments.get("id", "")), str(arguments.get("password", "")))
        )

    async def list_sign_ins(self, _: Mapping[str, Json]) -> Json:
        """Open sign-ins, the last seen first."""
        return [
            {
                "id": one.id,
                "person": one.person,
                "method": one.method,
                "created_at": _minute(one.created_at),
                "seen_at": _minute(one.seen_at),
                "address": one.address,
                "agent": one.agent,
            }
            for one in await self.sign_ins.list_all()
        ]

    async def revoke(self, arguments: Mapping[str, Json]) -> Json:
        """End the one sign-in whose id begins so."""
        prefix = str(arguments.get("id", ""))
        found = [one for one in await self.sign_ins.list_all() if prefix and one.id.startswith(prefix)]
        if len(found) != 1:
            how_many = "no sign-in begins" if not found else f"{len(found)} sign-ins begin"
            raise Refusal(f"{how_many} with {prefix!r}", fix="`tieline sign-ins` shows all")
        await self.sign_ins.revoke(found[0].id)
        return {"person": found[0].person}


def _shown(person: WebPerson) -> dict[str, Json]:
    return {
        "id": person.id,
        "display": person.display,
        "password": "yes" if person.has_password else "-",
        "made_by": "identity provider" if person.by_provider else "operator",
        "created_at": _minute(person.created_at),
        "state": "active" if person.disabled_at is None else "disabled",
    }


def _minute(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds")
