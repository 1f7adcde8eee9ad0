"""A harness or a double that lacks something says what its author has to write."""

from collections.abc import Awaitable, Callable, Sequence

import pytest

from gateway.testing.harness import AdapterHarness, Seen, Undeclared
from gateway.testing.platform_double import PlatformDouble


class Bare(AdapterHarness):
    """Only what every harness has."""

    async def seen(self) -> Sequence[Seen]:
        return []

    async def says(self, text: str) -> str:
        return text


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        pytest.param(lambda bare: bare.presses("1", "yes"), "`presses` has to let a person press", id="buttons"),
        pytest.param(lambda bare: bare.called(), "`called` has to tell", id="calls"),
        pytest.param(lambda bare: bare.happens("edits"), "`happenings` names 'edits'", id="a happening"),
        pytest.param(lambda bare: bare.breaks_next("busy", "send"), "`faults` names 'busy'", id="a fault"),
    ],
)
async def test_what_is_declared_without_a_method_fails_the_suite_by_name(
    asked: Callable[[Bare], Awaitable[object]], words: str
) -> None:
    with pytest.raises(Undeclared, match=words):
        await asked(Bare())


def test_a_double_without_routes_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="routes"):
        PlatformDouble()  # type: ignore[abstract]
