"""The `[[channels]]` section: light, so that a configuration can be checked without loading the adapter."""

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from gateway.channels.adapter import ChannelSettings


class FolderSettings(ChannelSettings):
    """Rooms in a folder, one for each person."""

    adapter: ClassVar[str] = "tests.examples.folder.adapter:FolderAdapter"

    type: Literal["folder"] = "folder"
    path: Path = Field(description="where the rooms are; relative to the data directory")
    look_every_s: float = Field(default=0.2, gt=0, le=60)
