"""One image for all slow tests of a process: to build it takes minutes."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.files import ROOT, Dockerfile
from tests.deploy.podman import Podman

KEPT = "TIELINE_TEST_IMAGES"


@pytest.fixture(scope="session")
def podman() -> Iterator[Podman]:
    """A store that holds the image `tieline`, built from this tree on a base of Debian's packages."""
    kept = os.environ.get(KEPT)
    folder = kept or tempfile.mkdtemp(prefix="tieline-image-", dir="/var/tmp")  # /tmp may be of memory
    made = Podman(Path(folder), is_kept=kept is not None)
    made.folder.mkdir(exist_ok=True)
    try:
        took = made.make_base(Dockerfile.read().arguments["BASE"])
        print(f"\nbase: {took:.0f} s")
        print(f"image: {made.build('tieline', ROOT):.0f} s, {made.size('tieline') / 1e6:.0f} MB")
        yield made
    finally:
        made.end()
