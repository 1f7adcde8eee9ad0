"""The table in which tests of platform faults note their measurements."""

import pytest

from tests.faults.platforms.table import Rows


@pytest.fixture
def rows(request: pytest.FixtureRequest) -> Rows:
    return Rows(request.config.rootpath)
