"""Tests that need the sandbox of the default install: a fresh machine may lack it."""

import shutil

import pytest

sandboxed = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="the sandbox needs bubblewrap (apt-get install bubblewrap)"
)
