"""The signed-in accounts of platforms: their state, and changes of them without a restart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import anyio
from starlette.requests import Request

from gateway.channels.adapter import Diagnosis, Health, State
from gateway.channels.entry_points import installed, loaded
from gateway.config.document import CannotChange, entries_at
from gateway.config.editor import Editor, label_of
from gateway.dashboard.frame.shell import Done, Page, Section, action, view
from gateway.running.accounts.changes import AccountChanges
from gateway.telemetry.trouble import Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRow:
    """One account. `entry` is its place in the file; None where the file does not name it.

    `withheld` is what its platform keeps from it, with the same judgement as in its check.
    """

    name: str
    health: Health
    since: datetime | None
    is_platform: bool
    entry: int | None
    trouble: Trouble | None
    withheld: Sequence[Diagnosis]


def accounts_section(changes: AccountChanges, editor: Editor) -> Section:
    """The section."""
    accounts, troubles = changes.accounts, changes.basics.troubles

    def entries() -> Mapping[str, int]:
        """Where the file names each account; none of a file that cannot be read."""
        try:
            found = entries_at(editor.file().text, ("channels",))
        except (CannotChange, ValueError):
            return {}
        return {label_of(editor.accounts, entry): index for index, entry in enumerate(found)}

    async def rows() -> Sequence[AccountRow]:
        placed = await anyio.to_thread.run_sync(entries)
        entrances = {one.channel_type: one.entrance for one in accounts.settings}
        open_troubles = {one.subject: one for one in troubles.open if one.kind in ("adapter", "delivery")}
        return [
            AccountRow(
                name=name,
                health=health,
                since=accounts.since(name),
                is_platform=entrances.get(name) == "platform",
                entry=placed.get(name),
                trouble=open_troubles.get(name),
                withheld=changes.withheld(name, health),
            )
            for name, health in accounts.health().items()
        ]

    async def page(request: Request) -> Page:
        values = {"accounts": await rows(), "kinds": _kinds(), "variable": editor.variable(("channels",))}
        return Page(template="accounts.html", values=values, live=True)

    async def check(request: Request) -> Page:
        name = request.path_params["name"]
        found = await changes.check(name)
        return Page(
            template="account_check.html", values={"account": name, "found": found, "title": f"Check of {name}"}
        )

    async def reconnect(request: Request) -> Done:
        name = request.path_params["name"]
        if accounts.health().get(name, Health(state=State.FAILED)).state is State.PAUSED:
            raise LookupError(f"{name} is paused; resume it.")
        await changes.reconnect(name)
        return Done(text=f"{name} is opened anew.", subject=name)

    async def pause(request: Request) -> Done:
        name = request.path_params["name"]
        await changes.pause(name)
        text = f"{name} is paused: it takes nothing in, and what is due waits until it is resumed."
        return Done(text=text, subject=name)

    async def resume(request: Request) -> Done:
        name = request.path_params["name"]
        await changes.resume(name)
        return Done(text=f"{name} is open again.", subject=name)

    return Section(
        title="Accounts",
        group="Program",
        entries=(
            view("/accounts", page),
            view("/accounts/check/{name:path}", check),
            action("/accounts/reconnect/{name:path}", reconnect, name="accounts.reconnect", needs="configure"),
            action("/accounts/pause/{name:path}", pause, name="accounts.pause", needs="configure"),
            action("/accounts/resume/{name:path}", resume, name="accounts.resume", needs="configure"),
        ),
    )


def _kinds() -> Sequence[str]:
    """The platforms of which an account can be added, those that are asked for first in front."""
    ordered = sorted(loaded(installed()).items(), key=lambda item: (item[1].init_rank, item[0]))
    return [name for name, model in ordered if model.entrance == "platform"]
