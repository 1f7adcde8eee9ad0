"""Every call of a model: failover around circuits around retries around the meter."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

import anyio
import anyio.lowlevel
import pytest

from agent.core.errors import (
    AgentError,
    ContextTooLong,
    NoProviders,
    ProviderBarred,
    ProviderBusy,
    ProviderRefused,
    ProviderUnpriced,
    Refused,
    RequestInvalid,
)
from agent.core.ids import ConversationId, CostAttribution
from agent.providers.provider import Done, Provider, Request, SystemPrompt, TextDelta, Usage
from agent.providers.retry_policy import RetryPolicy
from agent.providers.routing import Answered, Attempt, Call, Models, ModelTooSlow, SharedCircuits
from agent.providers.usage import Reservation, Spent
from agent.turn.tokens import Estimator
from tests.fakes.clock import FakeClock
from tests.fakes.provider import Script, ScriptedProvider, cut, fails, says
from tests.fakes.waiting import until

BUSY = ProviderBusy("500")
BAD_KEY = ProviderRefused("401", any_request=True)


@dataclass
class Watch:
    """Notes the way of a call."""

    seen: list[str] = field(default_factory=list)
    text: str = ""
    took: list[Spent] = field(default_factory=list)

    def begins(self, provider: Provider) -> None:
        self.seen.append(f"begins {provider.name}")

    def answers(self, provider: Provider) -> None:
        self.seen.append(f"answers {provider.name}")

    def delta(self, text: str) -> None:
        self.text += text

    def void(self) -> None:
        self.seen.append("void")
        self.text = ""

    def passes(self, provider: Provider, error: AgentError) -> None:
        self.seen.append(f"passes {provider.name}")

    def waits(self, provider: Provider, error: AgentError, failures: int, delay_s: float) -> None:
        self.seen.append(f"waits {delay_s:.1f}")

    def spent(self, spent: Spent) -> None:
        self.took.append(spent)


class Counter:
    """A meter that counts what is out."""

    def __init__(self, refuse: str = "", bars: str = "", unpriced: str = "") -> None:
        self.refuse = refuse
        self.bars = bars
        self.unpriced = unpriced
        self.open = 0
        self.settled: list[Spent] = []

    async def reserve(
        self, attribution: CostAttribution, provider: Provider, request: Request, input_tokens: int
    ) -> Reservation:
        if provider.name == self.refuse:
            raise Refused("nothing is left")
        if provider.name in self.bars:
            raise ProviderBarred(f"nothing is left of {provider.name}")
        if provider.name in self.unpriced:
            raise ProviderUnpriced(f"nobody knows what {provider.name} costs")
        self.open += 1
        return self

    def settle(self, spent: Spent) -> None:
        self.open -= 1
        self.settled.append(spent)


class House:
    """A chain of providers and those who watch it."""

    def __init__(
        self,
        *providers: ScriptedProvider,
        meter: Counter | None = None,
        shared: SharedCircuits | None = None,
        **policy: int,
    ) -> None:
        self.clock = FakeClock()
        self.providers: Sequence[ScriptedProvider] = providers
        self.meter = meter or Counter()
        self.health: list[tuple[str, bool]] = []
        self.models = Models(
            self.clock,
            meter=self.meter,
            policy=lambda: RetryPolicy(jitter=0.0, **policy),
            on_health=lambda provider, trouble: self.health.append((provider.name, trouble is None)),
            shared=shared,
        )
        self.watch = Watch()

    async def ask(self, *, silence_s: float = 5.0, stream_s: float = 10.0) -> Answered:
        """One call; nobody waits for the clock."""
        self.watch = Watch()
        call = Call(
            route=lambda: self.providers,
            prepare=lambda provider: Attempt(Request(system=SystemPrompt("s"), messages=()), 10),
            attribution=CostAttribution(purpose="turn", conversation=ConversationId("telegram:77")),
            counting=Estimator(),
            silence_s=silence_s,
            stream_s=stream_s,
            seed="run",
        )
        answered: Answered | None = None
        with unwrapped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._hurry)
                answered = await self.models.ask(call, self.watch)
                tasks.cancel_scope.cancel()
        assert answered is not None
        return answered

    async def _hurry(self) -> None:
        while True:
            if self.clock.sleepers:
                self.clock.advance(0.1)
            await anyio.lowlevel.checkpoint()

    @property
    def asked(self) -> list[int]:
        return [len(provider.requests) for provider in self.providers]


@contextmanager
def unwrapped() -> Iterator[None]:
    try:
        yield
    except BaseExceptionGroup as group:
        raise group.exceptions[0] from None


def provider(name: str, *scripts: Script, otherwise: Script | None = None) -> ScriptedProvider:
    return ScriptedProvider(name=name, scripts=list(scripts), otherwise=otherwise or says(f"I am {name}"))


@pytest.mark.requirement("B-32", "B-86", "B-87", "W-41", "R-42")
async def test_one_provider_is_retried_by_the_policy_and_then_its_own_error_is_raised() -> None:
    services = House(provider("a", otherwise=fails(BUSY)))
    with pytest.raises(ProviderBusy, match="500"):
        await services.ask()
    waits = [seen for seen in services.watch.seen if seen.startswith("waits")]
    assert waits == ["waits 1.0", "waits 2.0", "waits 4.0"]
    assert services.asked == [4]


async def test_a_cut_stream_is_void_and_comes_again() -> None:
    services = House(provider("a", cut("Half"), says("Whole")))
    answered = await services.ask()
    assert (services.watch.text, answered.reply.text) == ("Whole", "Whole")
    assert services.watch.seen == ["begins a", "answers a", "void", "waits 0.5", "begins a", "answers a"]


async def test_a_text_that_is_not_followed_by_another_stays() -> None:
    services = House(provider("a", otherwise=cut("Half")))
    with pytest.raises(ProviderBusy):
        await services.ask()
    assert services.watch.text == "Half"


@pytest.mark.requirement("Z-33")
@pytest.mark.parametrize("error", [ProviderRefused("400"), ContextTooLong("too long")], ids=["request", "window"])
async def test_what_is_wrong_with_the_request_is_nobody_elses_work(error: AgentError) -> None:
    services = House(provider("a", fails(error)), provider("b"))
    with pytest.raises(type(error)):
        await services.ask()
    assert services.asked == [1, 0]


async def test_a_refused_key_is_passed_on_at_once_and_told() -> None:
    services = House(provider("a", otherwise=fails(BAD_KEY)), provider("b"))
    assert (await services.ask()).reply.text == "I am b"
    assert services.asked == [1, 1]
    assert services.health == [("a", False)]
    await services.ask()
    assert services.asked == [1, 2], "it is passed over"


async def test_every_one_of_the_chain_is_tried_and_then_nobody_is_left() -> None:
    services = House(*(provider(name, otherwise=fails(BUSY)) for name in "abc"), max_retries=1)
    with pytest.raises(NoProviders):
        await services.ask()
    assert services.asked == [2, 2, 2]


async def test_open_circuits_do_not_silence_the_bot() -> None:
    services = House(*(provider(name, otherwise=fails(BUSY)) for name in "ab"))
    with pytest.raises(NoProviders):
        await services.ask()
    asked = services.asked
    with pytest.raises(NoProviders):
        await services.ask()
    assert services.asked == [before + 1 for before in asked], "each once, without retries"
    services.providers[1].otherwise = says("back")
    assert (await services.ask()).reply.text == "back", "although its time was not over"


async def test_it_goes_back_to_the_first_as_soon_as_that_answers() -> None:
    first = provider("a", otherwise=fails(BUSY))
    services = House(first, provider("b"))
    await services.ask()
    assert services.health == [("a", False)]
    for _ in range(5):
        assert (await services.ask()).provider.name == "b"
    assert len(first.requests) == 4, "while it is open nobody asks it"
    services.clock.advance(30)
    assert (await services.ask()).provider.name == "b", "the probe failed"
    assert len(first.requests) == 5, "once, without retries"
    first.otherwise = says("well again")
    assert (await services.ask()).provider.name == "b", "open for another while"
    services.clock.advance(30)
    assert (await services.ask()).reply.text == "well again"
    assert services.health == [("a", False), ("a", True)]


async def test_a_long_wait_that_is_asked_for_is_not_waited_where_another_can_answer() -> None:
    limited = fails(ProviderBusy("429", after_s=20, limited=True))
    services = House(provider("a", limited), provider("b"))
    assert (await services.ask()).provider.name == "b"
    assert services.health == [], "a rate limit is no trouble"
    alone = House(provider("a", limited))
    assert (await alone.ask()).provider.name == "a"
    assert "waits 20.0" in alone.watch.seen


@pytest.mark.requirement("Z-20")
async def test_another_choice_counts_at_the_next_attempt() -> None:
    first, second = provider("a", otherwise=fails(BUSY)), provider("b")
    services = House(first)

    async def switch() -> None:
        await until(lambda: bool(first.requests))
        services.providers = (second,)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(switch)
        assert (await services.ask()).provider.name == "b"
    assert len(first.requests) == 1


@pytest.mark.requirement("R-18", "B-33")
async def test_silence_is_a_failure_and_endless_talk_an_end() -> None:
    services = House(provider("a", Script(chunks=(TextDelta("hm"),), stalls=True), says("now")))
    assert (await services.ask(silence_s=0.3)).reply.text == "now"
    endless = House(provider("a", otherwise=Script(chunks=(TextDelta("and "),), stalls=True)))
    with pytest.raises(ModelTooSlow):
        await endless.ask(silence_s=30, stream_s=1.5)
    assert endless.watch.text == "and "
    assert endless.asked == [1]


async def test_loading_a_library_is_not_the_models_silence() -> None:
    class Slow(ScriptedProvider):
        async def warm_up(self) -> None:
            await anyio.sleep(0.8)  # longer than the model may be silent
            self.is_warm = True

    services = House(Slow(name="a", otherwise=says("here")))
    assert (await services.ask(silence_s=0.5)).reply.text == "here"
    assert services.asked == [1]


async def test_every_attempt_is_metered_and_settled_whatever_becomes_of_it() -> None:
    reported = Usage(prompt=7, output=3)
    services = House(
        provider("a", fails(BUSY), cut("some words"), otherwise=says("done", usage=reported)),
        meter=Counter(),
    )
    await services.ask()
    refused, cut_off, done = services.meter.settled
    assert services.meter.open == 0
    assert (refused.usage, refused.estimated) == (Usage(), False)
    assert cut_off.estimated
    assert cut_off.usage.output > 0
    assert (done.usage, done.estimated) == (reported, False)
    assert services.watch.took == [cut_off, done]


async def test_a_stop_settles_too() -> None:
    services = House(provider("a", otherwise=Script(chunks=(TextDelta("and "),), stalls=True)))
    async with anyio.create_task_group() as group:
        group.start_soon(services.ask)
        await until(lambda: services.watch.text == "and ")
        group.cancel_scope.cancel()
    assert services.meter.open == 0
    assert services.meter.settled[0].estimated


async def test_what_the_meter_refuses_is_not_asked_of_another() -> None:
    services = House(provider("a"), provider("b"), meter=Counter(refuse="a"))
    with pytest.raises(Refused):
        await services.ask()
    assert services.asked == [0, 0]


async def test_a_provider_that_may_spend_nothing_more_is_passed_over_and_asked_again_when_it_may() -> None:
    meter = Counter(bars="ab")
    services = House(provider("a"), provider("b"), provider("c"), meter=meter)
    assert (await services.ask()).provider.name == "c"
    assert services.watch.seen == ["void", "passes a", "void", "passes b", "begins c", "answers c"]
    assert services.asked == [0, 0, 1]
    assert services.health == [], "nothing is wrong with them"
    meter.bars = ""
    assert (await services.ask()).provider.name == "a"


async def test_what_is_spent_is_told_rather_than_that_nobody_answers() -> None:
    """Of a budget somebody can allow more; a provider that is down only comes back."""
    services = House(provider("a"), provider("b", otherwise=fails(BUSY)), meter=Counter(bars="a"))
    with pytest.raises(ProviderBarred, match="nothing is left of a"):
        await services.ask()
    assert services.asked == [0, 4]


async def test_a_stand_in_without_a_price_leaves_it_to_the_next() -> None:
    services = House(provider("a", otherwise=fails(BUSY)), provider("b"), provider("c"), meter=Counter(unpriced="b"))
    assert (await services.ask()).provider.name == "c"
    assert services.asked == [4, 0, 1]


@pytest.mark.parametrize(
    ("broken", "bars", "unpriced", "error", "words"),
    [
        pytest.param("", "", "a", ProviderUnpriced, "what a costs", id="the only one, without a price"),
        pytest.param("b", "", "a", ProviderUnpriced, "what a costs", id="the chosen one, without a price"),
        pytest.param("a", "", "b", NoProviders, "500.*what b costs", id="a stand-in is no reason of its own"),
        pytest.param("", "b", "a", ProviderBarred, "nothing is left of b", id="a budget goes before a price"),
    ],
)
async def test_what_is_told_where_a_price_is_missing(
    broken: str, bars: str, unpriced: str, error: type[AgentError], words: str
) -> None:
    names = sorted({"a", *broken, *bars, *unpriced})
    chain = [provider(name, otherwise=fails(BUSY) if name in broken else says("ok")) for name in names]
    with pytest.raises(error, match=words):
        await House(*chain, meter=Counter(bars=bars, unpriced=unpriced)).ask()


async def test_what_only_a_stand_in_finds_wrong_with_the_request_is_not_told_as_its_fault() -> None:
    """Its history must not suffer for it: the chosen one has taken it so far."""
    odd = fails(RequestInvalid("400"))
    services = House(provider("a", otherwise=fails(BUSY)), provider("b", otherwise=odd), provider("c"))
    assert (await services.ask()).provider.name == "c"
    assert services.asked == [4, 1, 1]
    assert services.health == [("a", False)], "nothing is wrong with b"
    alone = House(provider("a", otherwise=fails(BUSY)), provider("b", otherwise=odd))
    for _ in range(2):
        with pytest.raises(NoProviders, match="400"):
            await alone.ask()


@pytest.mark.requirement("W-42")
async def test_a_stream_that_ends_without_saying_so_is_a_failed_attempt() -> None:
    class Careless(ScriptedProvider):
        async def stream(self, request: Request):  # type: ignore[no-untyped-def]
            self.requests.append(request)
            yield TextDelta("half")
            if len(self.requests) > 1:
                yield Done("end_turn")

    services = House(Careless(name="a"))
    assert (await services.ask()).reply.text == "half"
    assert services.asked == [2]


async def test_a_chain_of_three_of_which_two_fail_in_turn_answers_two_hundred_times() -> None:
    chain = [provider(name) for name in "abc"]
    services = House(*chain)
    answered = []
    for number in range(200):
        down = {"a": 20 <= number < 90, "b": 60 <= number < 140, "c": False}
        for one in chain:
            one.otherwise = fails(BUSY) if down[one.name] else says(f"I am {one.name}")
        answered.append((await services.ask()).provider.name)
        services.clock.advance(5)
    assert answered[:20] == ["a"] * 20
    assert set(answered[60:90]) == {"c"}
    assert answered[-100:] == ["a"] * 100, "after its recovery the first is back"
    changes = sum(one != other for one, other in pairwise(answered))
    assert changes == 3, "a, b, c, a"
