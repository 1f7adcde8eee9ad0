"""Version and requirements of tieline-testing: the version of Tieline beside it, and that very Tieline."""

import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

BESIDE = ("pytest>=9,<10", "pytest-asyncio>=1.2,<2", "copier>=9.4,<10")


class OfTheSameTree(MetadataHookInterface):
    """What `dynamic` names in pyproject.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        tree = Path(self.root).parent.parent
        version = tomllib.loads((tree / "pyproject.toml").read_text("utf-8"))["project"]["version"]
        metadata["version"] = version
        metadata["dependencies"] = [f"tieline=={version}", *BESIDE]
