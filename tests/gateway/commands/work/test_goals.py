"""The button that goes on with a paused goal."""

from datetime import UTC, datetime

import pytest

from agent.core.ids import ConversationId
from agent.goals.goal import Auto, Goal, Limits, Owner, Used, raised, spent_limit
from gateway.commands.command import PRESS
from gateway.commands.work.goals import go_on_button
from gateway.phrases.catalogue import read_catalogue

AT = datetime(2026, 1, 1, tzinfo=UTC)
PHRASE = read_catalogue()
BY_ITSELF = Auto(most=5, state="aborted")


def paused(limits: Limits, used: Used, auto: Auto | None = None) -> Goal:
    return Goal(
        id=3,
        conversation=ConversationId("telegram:77"),
        owner=Owner(),
        text="tidy up",
        status="paused",
        limits=limits,
        used=used,
        auto=auto,
        created_at=AT,
        updated_at=AT,
    )


@pytest.mark.parametrize(
    ("limits", "used", "auto", "label", "command"),
    [
        pytest.param(Limits(), Used(turns=9), None, "▶ Go on", "/goal resume 3", id="without limits"),
        pytest.param(Limits(turns=9), Used(turns=8), BY_ITSELF, "▶ Go on", "/goal resume 3 --auto", id="below one"),
        pytest.param(
            Limits(turns=1), Used(turns=1), None, "▶ Go on (limit: 2 turns)", "/goal resume 3 --turns 2", id="turns"
        ),
        pytest.param(
            Limits(turns=2, usd=0.5),
            Used(turns=2, usd=0.1),
            None,
            "▶ Go on (limit: 4 turns)",
            "/goal resume 3 --turns 4",
            id="of two the one that is reached",
        ),
        pytest.param(
            Limits(tokens=1000, usd=0.1),
            Used(tokens=2500, usd=0.1 + 0.1 + 0.1),
            BY_ITSELF,
            "▶ Go on (limit: 3,000 tokens · 0.4 USD)",
            "/goal resume 3 --auto --tokens 3000 --usd 0.4",
            id="both, and passed",
        ),
        pytest.param(
            Limits(turns=2),
            Used(turns=2),
            BY_ITSELF,
            "▶ Go on (limit: 4 turns)",
            "/goal resume 3 --turns 4",
            id="with --auto --turns would be other turns",
        ),
    ],
)
def test_it_goes_on(limits: Limits, used: Used, auto: Auto | None, label: str, command: str) -> None:
    (((button,),)) = go_on_button(paused(limits, used, auto), PHRASE, "en")
    assert (button.label, button.action) == (label, f"{PRESS}{command}")
    more = raised(limits, used)
    after = Limits(turns=more.turns or limits.turns, tokens=more.tokens or limits.tokens, usd=more.usd or limits.usd)
    assert spent_limit(after, used) is None


def test_where_no_limit_helps_there_is_none() -> None:
    assert go_on_button(paused(Limits(usd=1.0), Used(unpriced=1)), PHRASE, "en") == ()
