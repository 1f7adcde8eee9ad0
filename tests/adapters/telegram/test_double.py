"""The double itself keeps its word, driven by the library as its own users drive it."""

import pytest

from tests.doubles.checks import check_telegram


@pytest.mark.slow  # the double alone
@pytest.mark.filterwarnings("ignore")
async def test_the_double_behaves_as_the_service_documents() -> None:
    await check_telegram.main()
