"""The contract suite over the folder."""

import re
import shutil
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from gateway.channels.keys import UserId
from gateway.testing.channel_contract import ChannelContract, plain
from gateway.testing.harness import Act, AdapterHarness, Fault, Seen
from tests.examples.folder.adapter import FolderAdapter
from tests.examples.folder.settings import FolderSettings


class FolderHarness(AdapterHarness):
    """Anna, at her own folder."""

    faults: frozenset[Fault] = frozenset({"gone"})
    person = UserId("anna")

    def __init__(self, home: Path) -> None:
        super().__init__()
        self.folder = home / "rooms" / "anna"
        self.folder.mkdir(parents=True)
        self.adapter = FolderAdapter(FolderSettings(path=Path("rooms"), look_every_s=0.01), self.context(home))
        self.channel = self.adapter.channel("anna")
        self._count = 0

    async def seen(self) -> Sequence[Seen]:
        """As a person reads Markdown: without its asterisks."""
        return [
            Seen(id=file.name, text=re.sub(r"\*\*([^*\n]+)\*\*", r"\1", file.read_text()))
            for file in sorted(self.folder.glob("*.md"))
        ]

    async def says(self, text: str) -> str:
        self._count += 1
        file = self.folder / f"{self._count}.txt"
        new = file.with_suffix(".new")
        new.write_text(text)
        written_ns = new.stat().st_mtime_ns
        new.rename(file)
        return f"{written_ns}-{file.name}"

    async def breaks_next(self, fault: Fault, act: Act) -> None:
        shutil.rmtree(self.folder)


class TestFolder(ChannelContract):
    @pytest.fixture
    async def harness(self, tmp_path: Path) -> AsyncIterator[FolderHarness]:
        harness = FolderHarness(tmp_path)
        async with harness.running():
            yield harness

    async def test_a_repeat_with_the_same_key_is_the_same_message(self, harness: FolderHarness) -> None:
        first = await harness.channel.send(plain("once", key="k-7-0"))
        assert await harness.channel.send(plain("once", key="k-7-0")) == first
        assert len(await harness.seen()) == 1
