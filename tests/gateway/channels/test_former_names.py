"""Adapters of other people, written for the version before, still import what they know."""

from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("module", "former", "now"),
    [
        ("gateway.channels.adapter", "Surroundings", "AdapterContext"),
        ("gateway.channels.inbound", "Said", "MessageReceived"),
        ("gateway.channels.inbound", "Pressed", "ButtonClicked"),
        ("gateway.channels.errors", "HouseTrouble", "GatewayUnavailable"),
    ],
)
def test_a_former_name_is_there_and_names_the_new_one(module: str, former: str, now: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{former} is called {now} now"):
        found = getattr(import_module(module), former)
    assert found is getattr(import_module(module), now)


def test_another_name_is_none() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = import_module("gateway.channels.inbound").Nothing
