"""People who sign in to the web server, and their sign-ins: accounts, roles, links, passwords, and an end to each."""

from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request

from agent.core.clock import Clock
from gateway.access.settings import DashboardRight
from gateway.channels.adapter import SignedIn
from gateway.channels.keys import UserId
from gateway.dashboard.frame.shell import Audit, Done, Page, Section, action, noted, view
from gateway.dashboard.people.dashboard_roles import DashboardRoles, in_words
from gateway.operations.sign_ins import LEAST_PASSWORD, SignIns
from gateway.web.control import OperationError
from gateway.web.server import Links

NEEDS: DashboardRight = "configure"  # whoever signs in may have any right by a role


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInPages:
    """The page and its actions, for those who may configure.

    `link` makes a one-time link, `redacted` is told its code, so that no log shows it.
    """

    sign_ins: SignIns
    roles: DashboardRoles
    rights: Callable[[UserId], frozenset[DashboardRight]]
    link: Links
    redacted: Callable[[str], None]
    audit: Audit
    clock: Clock

    def section(self) -> Section:
        """The section."""
        return Section(
            title="Sign-ins",
            group="People",
            entries=(
                view("/sign-ins", self.all, needs=NEEDS),
                action("/sign-in/revoke/{id}", self.revoke, name="sign_ins.revoke", needs=NEEDS),
                action("/sign-in/add", self.add, name="sign_ins.add", needs=NEEDS),
                action("/sign-in/link/{person}", self.make_link, name="sign_ins.link", needs=NEEDS),
                action("/sign-in/disable/{person}", self.disable, name="sign_ins.disable", needs=NEEDS),
                action("/sign-in/enable/{person}", self.enable, name="sign_ins.enable", needs=NEEDS),
                action("/sign-in/password/{person}", self.password, name="sign_ins.password", needs=NEEDS),
            ),
        )

    async def all(self, request: Request) -> Page:
        """Open sign-ins, and accounts with what each may do."""
        return await self._page(request)

    async def _page(self, request: Request, *, linked: str = "", link: str = "") -> Page:
        open_now, persons = await self.sign_ins.list_all(), await self.sign_ins.persons()
        rights = {one.id: self.rights(UserId(one.id)) for one in persons}
        values = {
            "sign_ins": open_now,
            "persons": persons,
            "may": {id: in_words(found) for id, found in rights.items() if found},
            "roles": self.roles.offered,
            "own": request.state.session.hash,
            "signed_in": {one.person for one in open_now},
            "least_password": LEAST_PASSWORD,
            "linked": linked,
            "link": link,
        }
        return Page(template="sign_ins.html", values=values)

    async def revoke(self, request: Request) -> Done:
        """End one sign-in."""
        found = {one.id: one for one in await self.sign_ins.list_all()}
        one = found.get(request.path_params["id"])
        if one is None or not await self.sign_ins.revoke(one.id):
            raise OperationError("this sign-in is over already")
        return Done(text=f"The sign-in of {one.display or one.person} is over.", subject=f"web:{one.person}")

    async def add(self, request: Request) -> Done:
        """Make an account, with a role where one was chosen."""
        form = await request.form()
        id, role = str(form.get("id") or "").strip(), str(form.get("role") or "")
        # Tried before the account is made: a role that cannot be given leaves nothing behind.
        proposal = await self.roles.change(f"web:{id}", role, gives=True) if role else None
        made = await self.sign_ins.add(id, str(form.get("display") or ""))
        if proposal is not None:
            await self.roles.save(proposal)
        return Done(
            text=f"{made.display} has an account{f' with the role {role}' if role else ''}. "
            "Make a one-time link for them, or set a password.",
            subject=f"web:{made.id}",
            detail=f"role {role}" if role else "",
        )

    async def make_link(self, request: Request) -> Page:
        """Make a one-time link, which is shown on the answer alone."""
        person = request.path_params["person"]
        known = {one.id: one for one in await self.sign_ins.persons()}
        if person not in known:
            raise LookupError(f"There is no person {person}.")
        try:
            link = await self.link(SignedIn(id=UserId(person), display=known[person].display))
        except ValueError as error:
            raise OperationError(str(error), fix="let them in again first") from error
        self.redacted(link.rpartition("=")[2])
        await self.audit(noted(request, self.clock, "sign_ins.link", f"web:{person}"))
        return await self._page(request, linked=known[person].display, link=link)

    async def disable(self, request: Request) -> Done:
        """Let an account sign in no more."""
        one = await self.sign_ins.disable(request.path_params["person"])
        return Done(text=f"{one.display} may sign in no more, and is signed out.", subject=f"web:{one.id}")

    async def enable(self, request: Request) -> Done:
        """Let an account sign in again."""
        one = await self.sign_ins.enable(request.path_params["person"])
        return Done(text=f"{one.display} may sign in again.", subject=f"web:{one.id}")

    async def password(self, request: Request) -> Done:
        """Give an account a password."""
        form, person = await request.form(), request.path_params["person"]
        if form.get("password") != form.get("again"):
            raise OperationError("the two passwords differ")
        await self.sign_ins.set_password(person, str(form.get("password") or ""))
        return Done(text=f"{person} signs in with the new password from now on.", subject=f"web:{person}")
