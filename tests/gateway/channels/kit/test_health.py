"""An account's health, made of the reports of its parts."""

from agent.core.clock import Clock
from gateway.channels.adapter import Health, State
from gateway.channels.kit.health import HealthMonitor
from tests.fakes.clock import FakeClock


def monitor(clock: Clock, deaf_after_s: float | None = None) -> HealthMonitor:
    return HealthMonitor(clock, "Folders", deaf_after_s=deaf_after_s)


def test_it_is_starting_until_something_answers() -> None:
    assert monitor(FakeClock()).health() == Health(state=State.STARTING)


def test_silence_makes_a_connected_account_deaf_and_any_sign_of_life_ends_that() -> None:
    clock = FakeClock()
    health = monitor(clock, 20.0)
    health.connected()
    connected_at = clock.now()
    clock.advance(20.0)
    assert health.health().hears
    clock.advance(1.0)
    deaf = health.health()
    assert (deaf.state, deaf.detail) == (State.RECONNECTING, "Folders has not answered for 21 s")
    assert deaf.last_event_at == connected_at
    health.heard()
    assert health.health() == Health(state=State.CONNECTED, last_event_at=clock.now())


def test_who_watches_its_connection_itself_is_never_deaf() -> None:
    clock = FakeClock()
    health = monitor(clock)
    health.connected("two sockets are open")
    clock.advance(100_000.0)
    assert (health.health().state, health.health().detail) == (State.CONNECTED, "two sockets are open")


def test_trouble_stays_until_the_platform_answers_as_it_should() -> None:
    clock = FakeClock()
    health = monitor(clock, 20.0)
    health.trouble("no route")
    health.heard()  # something came, but not what was hoped for
    assert (health.health().state, health.health().detail) == (State.RECONNECTING, "no route")
    clock.advance(60.0)
    assert health.health().detail == "no route"
    health.connected()
    assert health.health() == Health(state=State.CONNECTED, last_event_at=clock.now())


def test_a_refused_login_is_told_as_it_was_said() -> None:
    health = monitor(FakeClock())
    health.failed("the token was refused")
    assert (health.state, health.health().detail, health.health().hears) == (
        State.FAILED,
        "the token was refused",
        False,
    )
