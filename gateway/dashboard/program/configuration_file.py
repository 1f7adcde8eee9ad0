"""The configuration file as a whole: shown without its secrets, checked, shown as a difference, saved, read anew."""

from collections.abc import Mapping, Sequence

import anyio.to_thread
from starlette.requests import Request

from gateway.config.document import CannotChange, ConfigFile, why_not_writable
from gateway.config.editor import Editor, Proposal
from gateway.config.live import Live
from gateway.dashboard.frame.shell import Done, Page
from gateway.web.control import OperationError

LARGEST = 256 * 1024  # bytes; a form grows to three times as much on its way, and 1 MiB is the most that is taken
MOST_TOLD = 5  # mistakes in one sentence


class FilePages:
    """The page of the file, and its actions."""

    def __init__(self, live: Live, editor: Editor) -> None:
        self._live = live
        self._editor = editor

    async def show(self, request: Request) -> Page:
        """The file as it is, with its mistakes."""
        return await anyio.to_thread.run_sync(self._shown)

    async def save(self, request: Request) -> Done | Page:
        """Try the typed text; at the second step, write it."""
        typed = await request.form()
        text = str(typed.get("text") or "").replace("\r\n", "\n")
        try:
            file = await anyio.to_thread.run_sync(self._editor.file)
            proposal = await anyio.to_thread.run_sync(self._editor.propose_text, file, text)
        except CannotChange as error:
            raise OperationError(str(error)) from error
        nonce = str(typed.get("nonce") or "")
        is_seen = (typed.get("base"), typed.get("proposed")) == (file.digest, proposal.digest)
        if not proposal.is_sound or not proposal.changes_something or typed.get("step") != "save" or not is_seen:
            was_changed = typed.get("base") not in ("", None, file.digest)
            return self._page(file, text, nonce=nonce, proposal=proposal, is_stale=was_changed)
        try:
            waiting = await self._editor.save(proposal)
        except CannotChange as error:
            raise OperationError(str(error), fix="nothing was saved, and your text is still here") from error
        return Done(
            text=f"Saved. {_in_force(waiting)}",
            subject=file.path.name,
            detail=_count(proposal.lines),
            go="/settings/file",
        )

    async def reload(self, request: Request) -> Done:
        """Take up the file as it is now; with a mistake nothing of it."""
        try:
            file = await anyio.to_thread.run_sync(self._editor.file)
            mistakes = await anyio.to_thread.run_sync(self._editor.told, file.text)
        except CannotChange as error:
            raise OperationError(str(error)) from error
        waiting = self._live.reload()
        if mistakes:
            more = f" And {len(mistakes) - MOST_TOLD} more." if len(mistakes) > MOST_TOLD else ""
            told = " ".join(f"{said.rstrip('.')}." for said in mistakes[:MOST_TOLD])
            raise OperationError(f"{file.path.name} is not used. {told}{more}", fix="what was in force stays")
        return Done(text=f"The file is read. {_in_force(waiting)}", subject=file.path.name)

    def _shown(self) -> Page:
        try:
            file = self._editor.file()
            if len(file.text.encode()) > LARGEST:
                raise CannotChange(f"{file.path.name} has more than {LARGEST >> 10} KiB; change it with an editor")
            text = self._editor.masked(file.text).text
        except CannotChange as error:
            empty = ConfigFile(path=self._editor.path, text="", exists=False)
            return self._page(empty, "", broken=f"{error}.", read_only=str(error))
        return self._page(file, text, mistakes=self._editor.told(file.text) if file.exists else ())

    def _page(
        self,
        file: ConfigFile,
        text: str,
        *,
        nonce: str = "",
        broken: str = "",
        read_only: str = "",
        mistakes: Sequence[str] = (),
        proposal: Proposal | None = None,
        is_stale: bool = False,
    ) -> Page:
        """The typed text stays in the browser over answers: a secret that was typed is not sent back."""
        shown = self._editor.masked(text).text if proposal is not None else text
        values: Mapping[str, object] = {
            "title": file.path.name,
            "file": file,
            "text": shown,
            "base": file.digest,
            "nonce": nonce[:12] or file.digest[:12],
            "broken": broken,
            "read_only": read_only or why_not_writable(file.path),
            "mistakes": list(proposal.elsewhere if proposal is not None else mistakes),
            "proposal": proposal if proposal is not None and proposal.is_sound and proposal.lines else None,
            "is_unchanged": proposal is not None and proposal.is_sound and not proposal.lines,
            "is_stale": is_stale,
            "in_file": proposal is None,
        }
        return Page(template="settings_file.html", values=values)


def _in_force(waiting: Sequence[str]) -> str:
    return f"{', '.join(waiting)}: from the next start on." if waiting else "All of it is in force."


def _count(lines: Sequence[str]) -> str:
    added = sum(line.startswith("+") for line in lines)
    return f"{added} lines added, {sum(line.startswith('-') for line in lines)} removed"
