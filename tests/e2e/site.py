"""The real web server with the real web chat in it, and somebody who answers: for tests with a browser or a client."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
from starlette.routing import Mount, Route

from adapters.web.adapter import Web
from adapters.web.settings import WebSettings as ChatSettings
from agent.core.clock import SystemClock
from agent.core.events import EventBus
from gateway.channels.adapter import AdapterContext, Fullness, Health, Place, State
from gateway.channels.document import Plain
from gateway.channels.errors import GatewayUnavailable
from gateway.channels.inbound import ButtonClicked, Inbound, MessageReceived, Outcome, Receipt
from gateway.channels.keys import ConversationKey
from gateway.channels.outbound import Button, CommandSpec, Outbound, SentRef
from gateway.config.sections import WebSettings
from gateway.dashboard.frame.live import Changes
from gateway.dashboard.frame.shell import Shell
from gateway.dashboard.now.overview import overview_section
from gateway.dashboard.sections import files
from gateway.delivery.rendering.markdown import parse
from gateway.operations.sign_ins import SignIns
from gateway.storage.operator_actions import OperatorAction
from gateway.telemetry.metrics import Gauges, Metrics
from gateway.telemetry.trouble import Troubles
from gateway.web.health import Reason, not_ready
from gateway.web.overview import Account, ActiveConversation, Budget, Overview, OwnWork, Pairing
from gateway.web.server import Links, WebServer
from tests.fakes.running import running
from tests.fakes.sign_ins import sign_ins_at

COMMANDS = (
    CommandSpec(name="help", description="What you can do here"),
    CommandSpec(name="new", description="Start a new conversation, keep the memory"),
    CommandSpec(name="provider", description="Which model provider answers here", options="[name]"),
    CommandSpec(name="status", description="Model, tokens, queue and uptime"),
    CommandSpec(name="stop", description="Stop the running answer"),
    CommandSpec(name="usage", description="Tokens and money spent"),
)

RICH = """\
Here is what the three measurements say, in short: **the second run is the one to trust.** The first was taken \
while the cache was cold, and the third stopped early.

### What was measured

| Run | Requests | p50 | p99 | Errors | Notes on the run |
| --- | ---: | ---: | ---: | :---: | --- |
| morning | 12,400 | 8.1 ms | 31 ms | 0 | cold cache, first minute left out |
| noon | 48,020 | 6.4 ms | 22 ms | 0 | the one to trust |
| evening | 3,910 | 6.9 ms | 240 ms | 17 | stopped early, the disk was full |

1. Warm the cache before you measure.
2. Keep the disk below 80 %.
   - `df -h` shows it
   - an alert is cheaper than a night
3. Compare with the [method](https://example.org/method) of last time.

- [x] noon run stored
- [ ] evening run repeated

```python
def p99(samples: list[float]) -> float:
    \"\"\"The value that 99 of 100 samples stay below.\"\"\"
    ordered = sorted(samples)
    return ordered[int(len(ordered) * 0.99)]  # a long line that does not fit on a phone and so has to scroll sideways
```

> A benchmark that nobody can repeat is an anecdote.

Shall I repeat the evening run?"""


@dataclass
class Brain:
    """Answers what is admitted: "rich" with everything Markdown has, "ask" with buttons, else an echo."""

    web: Web
    heard: list[Inbound] = field(default_factory=list)
    pause_s: float = 0.02
    hold: anyio.Event | None = None  # when set, an answer stops halfway until it is fired
    stopped: anyio.Event = field(default_factory=anyio.Event)
    troubles: int = 0  # so many messages cannot be stored

    def __post_init__(self) -> None:
        self.work, self._queue = anyio.create_memory_object_stream[Inbound](100)

    async def live(self) -> None:
        async with anyio.create_task_group() as group:
            async for inbound in self._queue:
                group.start_soon(self.run, inbound)

    async def run(self, inbound: Inbound) -> None:
        channel = self.web.channel(inbound.key.channel_id)
        match inbound:
            case MessageReceived(text="/stop"):
                self.stopped.set()
            case MessageReceived(text="ask"):
                buttons = (
                    (
                        Button(label="Repeat it now", action="q:1", style="primary"),
                        Button(label="Tomorrow at 6:00", action="q:2"),
                        Button(label="Never mind", action="q:3", style="danger"),
                    ),
                )
                await channel.send(Outbound(document=parse("Shall I **repeat** the evening run?"), buttons=buttons))
            case MessageReceived(text="/retry"):
                await anyio.sleep(self.pause_s)
                await self.answer(channel.key, "Another answer.", answers=inbound.message_id)
            case MessageReceived(text=text):
                assert channel.presence is not None
                await channel.presence.typing()
                send_ephemeral = await channel.send_ephemeral(
                    Outbound(document=(Plain("Reading the measurements…"),), silent=True), None
                )
                await anyio.sleep(self.pause_s)
                answer = RICH if text == "rich" else f"You said: {text}"
                await self.answer(channel.key, answer, reply_to=inbound.message_id, answers=inbound.message_id)
                assert send_ephemeral is not None
                await channel.delete(send_ephemeral)
            case ButtonClicked():
                await channel.edit(SentRef(inbound.message_id), Outbound(document=parse("It runs again. **Noted.**")))

    async def answer(
        self, key: ConversationKey, text: str, reply_to: str | None = None, answers: str | None = None
    ) -> None:
        channel = self.web.channel(key.channel_id)
        words = text.split(" ")
        assert channel.streams is not None
        sent = await channel.streams.open(parse(words[0]), reply_to=reply_to, to=None)
        for count in range(2, len(words), 3):
            await anyio.sleep(self.pause_s / 4)
            await channel.streams.update(sent, parse(" ".join(words[:count])))
            if self.hold is not None and count > len(words) // 2:
                await self.hold.wait()
        await channel.streams.finish(sent, Outbound(document=parse(text), reply_to=reply_to, answers=answers))


class FakeOverview:
    """Two accounts, one of them deaf, one person at the door."""

    def __init__(self, troubles: Troubles) -> None:
        self.troubles = troubles
        self.actions: list[OperatorAction] = []
        self.pairings = [
            Pairing(
                code="K7QX-2M",
                channel_type="telegram",
                person="telegram:77",
                display="Ann Example",
                asked_at=datetime.now(UTC),
            )
        ]
        self.accounts = {
            "web": Health(state=State.CONNECTED, last_event_at=datetime.now(UTC)),
            "telegram": Health(state=State.CONNECTED, last_event_at=datetime.now(UTC)),
            "slack": Health(state=State.RECONNECTING, detail="no hello after 30 s"),
        }

    async def overview(self) -> Overview:
        return Overview(
            version="0.1.0",
            started_at=datetime.now(UTC),
            provider="main (gpt-x)",
            accounts=tuple(Account(channel_type=name, health=health) for name, health in self.accounts.items()),
            awake=(
                ActiveConversation(key=ConversationKey("web", "operator:main"), is_running=True),
                ActiveConversation(key=ConversationKey("telegram", "77"), is_running=False, waiting=2),
            ),
            pairings=tuple(self.pairings),
            troubles=self.troubles.recent(),
            goals=(
                OwnWork(
                    id=12,
                    key=ConversationKey("telegram", "77"),
                    text="tidy up the wiki",
                    state="running",
                    is_live=True,
                    turns=3,
                    most=50,
                    tokens=12_345,
                    cost_usd=0.12,
                    verdict="two pages are missing",
                    changed_at=datetime.now(UTC),
                ),
            ),
            queue_depth=2,
            outbox_open=1,
            unanswered=2,
            undelivered=1,
            turns=1284,
            tokens=3_482_113,
            cost_usd=12.07,
            loop_lag_s=0.003,
            budgets=(
                Budget(who="gateway", period="2026-11", spent="12.07 USD of 100.00 USD", share=0.12),
                Budget(who="person telegram:77", period="2026-11-22", spent="2.00 USD of 2.00 USD", share=1.0),
            ),
        )

    async def usage_csv(self) -> AsyncGenerator[str, None]:
        yield "time,channel\r\n"
        yield "2026-11-22T12:00:00,telegram:77\r\n"

    async def decide_pairing(self, code: str, *, approve: bool) -> str:
        found = next((pairing for pairing in self.pairings if pairing.code == code), None)
        if found is None:
            raise KeyError(code)
        self.pairings.remove(found)
        return f"{found.display} {'may talk now' if approve else 'was refused'}."


@dataclass
class Site:
    """The parts of the site that tests use."""

    server: WebServer
    web: Web
    brain: Brain
    service: FakeOverview
    home: Path
    sign_ins: SignIns
    full: dict[str, Fullness] = field(default_factory=dict)  # by conversation

    @property
    def url(self) -> str:
        return self.server.url


def dashboard(
    service: FakeOverview, reasons: Callable[[], Sequence[Reason]], chat: str, link: Links
) -> Sequence[Mount | Route]:
    """The first page alone; what is done there is kept in `service.actions`."""

    async def audit(done: OperatorAction) -> None:
        service.actions.append(done)

    shell = Shell([overview_section(service, reasons)], audit, SystemClock(), chat)
    return [*shell.routes, Route("/live", Changes(EventBus(lambda error, event: None)).stream), files()]


async def no_places(channel_type: str) -> tuple[Place, ...]:
    return ()


@asynccontextmanager
async def running_site(home: Path, settings: WebSettings | None = None) -> AsyncIterator[Site]:
    """Everything up and mounted; down again at the end."""
    clock = SystemClock()
    server = WebServer(settings or WebSettings(port=0), home=home, clock=clock)
    server.bind()
    full: dict[str, Fullness] = {}
    around = AdapterContext(clock=clock, home=home, known_places=no_places, fullness=lambda key: full.get(str(key)))
    web = Web(ChatSettings(), around)
    await web.publish(COMMANDS)
    brain = Brain(web)
    troubles = Troubles(clock)
    troubles.report("adapter", "slack", "no hello from Slack for 30 s", fix="Check the app token.")
    troubles.note("delivery", "discord:9", "a reminder could not be delivered: the channel was deleted")
    service = FakeOverview(troubles)

    async def gauges() -> Gauges:
        return Gauges(version="0.1.0", adapters={"web": web.health().hears})

    async def admit(inbound: Inbound) -> Receipt:
        if brain.troubles:
            brain.troubles -= 1
            raise GatewayUnavailable("the database is locked")
        brain.heard.append(inbound)
        await brain.work.send(inbound)
        return Receipt(Outcome.ACCEPTED)

    async with sign_ins_at(home, clock) as sign_ins, running(server.run, lambda: web.run(admit), brain.live):
        server.let_in(sign_ins)
        server.mount_adapter(web, ChatSettings.entrance)
        server.mount_dashboard(partial(dashboard, service))
        server.measure(Metrics(), gauges)
        server.watch(lambda: not_ready(service.accounts, troubles.open))
        yield Site(server, web, brain, service, home, sign_ins, full)
        await web.aclose()
