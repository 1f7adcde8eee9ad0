"""People who sign in to the web server, and their sign-ins: accounts, passwords, and an end to each."""

from starlette.requests import Request

from gateway.access.settings import DashboardRight
from gateway.dashboard.frame.shell import Done, Page, Section, action, view
from gateway.operations.sign_ins import SignIns
from gateway.web.control import OperationError

NEEDS: DashboardRight = "configure"  # whoever signs in may have any right by a role


def sign_in_section(sign_ins: SignIns) -> Section:
    """The section, for those who may configure."""

    async def page(request: Request) -> Page:
        open_now = await sign_ins.list_all()
        values = {
            "sign_ins": open_now,
            "persons": await sign_ins.persons(),
            "own": request.state.session.hash,
            "signed_in": {one.person for one in open_now},
        }
        return Page(template="sign_ins.html", values=values)

    async def revoke(request: Request) -> Done:
        found = {one.id: one for one in await sign_ins.list_all()}
        one = found.get(request.path_params["id"])
        if one is None or not await sign_ins.revoke(one.id):
            raise OperationError("this sign-in is over already")
        return Done(text=f"The sign-in of {one.display or one.person} is over.", subject=f"web:{one.person}")

    async def add(request: Request) -> Done:
        form = await request.form()
        made = await sign_ins.add(str(form.get("id") or "").strip(), str(form.get("display") or ""))
        return Done(
            text=f"{made.display} has an account. Give them a password here, or a link: tieline people link {made.id}.",
            subject=f"web:{made.id}",
        )

    async def disable(request: Request) -> Done:
        one = await sign_ins.disable(request.path_params["person"])
        return Done(text=f"{one.display} may sign in no more, and is signed out.", subject=f"web:{one.id}")

    async def enable(request: Request) -> Done:
        one = await sign_ins.enable(request.path_params["person"])
        return Done(text=f"{one.display} may sign in again.", subject=f"web:{one.id}")

    async def password(request: Request) -> Done:
        form, person = await request.form(), request.path_params["person"]
        if form.get("password") != form.get("again"):
            raise OperationError("the two passwords differ")
        await sign_ins.set_password(person, str(form.get("password") or ""))
        return Done(text=f"{person} signs in with the new password from now on.", subject=f"web:{person}")

    return Section(
        title="Sign-ins",
        group="People",
        entries=(
            view("/sign-ins", page, needs=NEEDS),
            action("/sign-in/revoke/{id}", revoke, name="sign_ins.revoke", needs=NEEDS),
            action("/sign-in/add", add, name="sign_ins.add", needs=NEEDS),
            action("/sign-in/disable/{person}", disable, name="sign_ins.disable", needs=NEEDS),
            action("/sign-in/enable/{person}", enable, name="sign_ins.enable", needs=NEEDS),
            action("/sign-in/password/{person}", password, name="sign_ins.password", needs=NEEDS),
        ),
    )
