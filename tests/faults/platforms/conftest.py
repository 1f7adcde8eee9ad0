"""Where the tests of platform faults note what they measured."""

import pytest

from tests.faults.platforms.table import Rows


@pytest.fixture
def rows(request: pytest.FixtureRequest) -> Rows:
    return Rows(request.config.rootpath)
