"""Messages that the model sends: here at once, elsewhere only for admins after an approval."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.core.errors import OutOfScope, ToolError
from agent.core.ids import ConversationId, PersonId
from agent.core.tools import Asker
from agent.tools.sending import SendTools
from tests.fakes.calls import call_in, called

ADMIN = PersonId("telegram:1")
HERE, THERE = ConversationId("telegram:77"), ConversationId("telegram:-1005")


@dataclass
class FakeSending:
    """Keeps what was sent."""

    sent: list[tuple[Any, ...]] = field(default_factory=list)

    async def message(self, to: ConversationId, text: str, key: str) -> None:
        self.sent.append((to, text, key))

    async def file(self, to: ConversationId, data: bytes, name: str, mime_type: str, caption: str, key: str) -> None:
        self.sent.append((to, data, name, mime_type, caption, key))

    async def knows(self, conversation: ConversationId) -> bool:
        return conversation == THERE

    def may_send_elsewhere(self, person: PersonId | None) -> bool:
        return person == ADMIN


async def test_a_file_of_the_workspace_is_sent_here(tmp_path: Path) -> None:
    sending = FakeSending()
    (tmp_path / "a.csv").write_text("1,2")
    said = await called(SendTools(sending).send_file, call_in(tmp_path), path="a.csv", caption="The list.")
    assert said == "/workspace/a.csv is on its way (3 bytes)."
    assert sending.sent == [(HERE, b"1,2", "a.csv", "text/csv", "The list.", "1:c")]
    with pytest.raises(OutOfScope):
        await called(SendTools(sending).send_file, call_in(tmp_path), path="/etc/passwd")


async def test_a_message_here_needs_nobodys_word(tmp_path: Path) -> None:
    tool = SendTools(sending := FakeSending()).send_message
    assert tool.spec.appraise is not None
    for to in ("", HERE):
        assert (await tool.spec.appraise({"text": "hi", "to": to}, call_in(tmp_path))).gate == "allow"
    await called(tool, call_in(tmp_path), text="hi")
    assert sending.sent == [(HERE, "hi", "telegram:77:1:c")]


@pytest.mark.requirement("B-36", "B-93")
async def test_elsewhere_it_is_for_admins_asked_about_and_never_allowed_for_good(tmp_path: Path) -> None:
    tool = SendTools(sending := FakeSending()).send_message
    assert tool.spec.appraise is not None
    admin = call_in(tmp_path, person=ADMIN, asker=Asker(role="admin"))
    asked = await tool.spec.appraise({"text": "hi", "to": THERE}, admin)
    assert (asked.gate, asked.covers, asked.shown) == ("ask", None, "Send to telegram:-1005:\nhi")
    assert await called(tool, admin, text="hi", to=THERE) == "On its way to telegram:-1005."
    assert sending.sent == [(THERE, "hi", "telegram:77:1:c")]
    with pytest.raises(OutOfScope, match="only admins"):
        await tool.spec.appraise({"text": "hi", "to": THERE}, call_in(tmp_path))
    of_a_group = call_in(tmp_path, person=PersonId("telegram:2"), asker=Asker(role="admin"))
    with pytest.raises(OutOfScope, match="admins of the whole bot"):
        await tool.spec.appraise({"text": "hi", "to": THERE}, of_a_group)
    with pytest.raises(ToolError, match="there is no chat"):
        await tool.spec.appraise({"text": "hi", "to": "telegram:404"}, admin)
