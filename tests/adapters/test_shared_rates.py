"""Limits that adapters keep to together with other processes: what they ask for, and what they tell."""

from dataclasses import replace
from pathlib import Path

import pytest

from adapters.slack.api import SlackApi
from adapters.telegram.limits import MAX_WAIT_S, Limiter, Rates
from gateway.channels.errors import ChannelBusy
from tests.adapters.slack.world import workspace
from tests.fakes.clock import FakeClock, HastyClock
from tests.fakes.shared_rates import PlayedRates

GROUP, ANN = -1005, 77


@pytest.mark.requirement("G-170")
async def test_slack_asks_for_channel_or_method_and_tells_of_a_429(tmp_path: Path) -> None:
    rates = PlayedRates()
    async with workspace() as world:
        given = replace(world.adapter_context(tmp_path), shared_rates=lambda channel_type: rates)
        async with SlackApi(world.settings(), given) as api:
            sent = await api.call("chat.postMessage", {"channel": "D0ANN", "text": "hello"}, repeatable=False)
            world.fault("chat.update", "rate_limit", retry_after=7)
            body = {"channel": "D0ANN", "ts": sent["ts"], "text": "hello"}
            with pytest.raises(ChannelBusy):
                await api.call("chat.update", body, frame=True)
            assert rates.asked == [("chat.postMessage D0ANN", False), ("chat.update ", True)]
            assert rates.closed == [("chat.update ", 7.0)]
            rates.waits = [60.0]
            with pytest.raises(ChannelBusy) as raised:
                await api.call("chat.postMessage", {"channel": "D0ANN", "text": "again"}, repeatable=False)
            assert raised.value.after_s == 60.0
            assert len(world.calls("chat.postMessage")) == 1


@pytest.mark.requirement("G-170")
async def test_telegram_asks_for_all_chats_and_for_a_group_with_topics() -> None:
    rates = PlayedRates(waits=[1.0])
    limiter = Limiter(Rates(), HastyClock(40.0), rates)
    await limiter.turn(ANN, final=True)
    await limiter.turn(GROUP, final=False, in_topic=True)
    await limiter.aside(ANN)
    again = [("overall", False), ("overall", False)]
    assert rates.asked == [*again, ("chat -1005", True), ("overall", True), ("overall", True)]
    await limiter.refused(GROUP, 5.0)
    await limiter.refused(ANN, 5.0)  # nobody else sends to her
    assert rates.closed == [("chat -1005", 5.0)]


async def test_telegram_gives_back_what_would_wait_long_for_others() -> None:
    rates = PlayedRates(waits=[MAX_WAIT_S + 1, 0.2, 0.2])
    limiter = Limiter(Rates(), FakeClock(), rates)
    with pytest.raises(ChannelBusy):
        await limiter.turn(ANN, final=True)
    with pytest.raises(ChannelBusy):
        await limiter.turn(ANN, final=False)
    with pytest.raises(ChannelBusy):
        await limiter.aside(ANN)
