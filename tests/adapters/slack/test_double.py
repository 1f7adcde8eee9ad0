"""The double itself keeps its word, driven by slack-bolt and slack-sdk as their own users drive it."""

import pytest

from tests.doubles.checks import check_slack


@pytest.mark.slow  # the double alone
@pytest.mark.filterwarnings("ignore")
async def test_the_double_behaves_as_slack_documents() -> None:
    await check_slack.main()
