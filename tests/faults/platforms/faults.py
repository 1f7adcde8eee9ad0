"""Faults of each account, as the doubles cause them."""

from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from tests.faults.platforms.scene import Fault, Scene
from tests.program.doubles import SLACK_APP_TOKEN, TELEGRAM_TOKEN

Step = Callable[[Scene], Awaitable[None]]

OUTAGE_S = 2.0
CUT_S = 1.0  # Telegram gets one repeat after two seconds; a second cut would put the answer aside
SEND = {"telegram": "sendMessage", "discord": "create_message", "slack": "chat.postMessage"}


def fails(platform: str, **fault: Any) -> Step:
    """Calls of the bot meet this."""

    async def begin(scene: Scene) -> None:
        await scene.place(platform).double.post("faults", fault)

    return begin


def says(platform: str, what: str, **body: Any) -> Step:
    """One word to the double's control door."""

    async def begin(scene: Scene) -> None:
        await scene.place(platform).double.post(what, body)

    return begin


def everywhere(platform: str) -> list[Fault]:
    """Faults that every platform has for every call of the bot."""
    polls = platform == "telegram"  # the others hear over a socket, which these do not touch
    send = SEND[platform]
    over: dict[str, Any] = {"lasts": OUTAGE_S, "red": polls}
    return [
        Fault(
            platform=platform,
            name="429 to every call, retry after 1 s",
            begin=fails(platform, method="*", kind="rate_limit", retry_after=1, for_s=OUTAGE_S),
            **over,
        ),
        Fault(
            platform=platform,
            name="502 to every call",
            begin=fails(platform, method="*", kind="server_error", status=502, for_s=OUTAGE_S),
            **over,
        ),
        Fault(
            platform=platform,
            name="every connection cut before it does anything",
            begin=fails(platform, method="*", kind="drop", for_s=CUT_S),
            repeats=1 if polls else 0,  # a cut before and a cut after look the same
            **{**over, "lasts": CUT_S},
        ),
        Fault(
            platform=platform,
            name="sent, and the answer to that cut off",
            begin=fails(platform, method=send, kind="drop_after"),
            repeats=1 if polls else 0,
        ),
        Fault(
            platform=platform,
            name="every answer a second late",
            begin=fails(platform, method="*", kind="slow", delay=1, for_s=OUTAGE_S),
            lasts=OUTAGE_S,
        ),
        Fault(
            platform=platform,
            name="sending refused with 429, 503, 500 in turn",
            begin=_in_turn(platform, send),
        ),
    ]


def _in_turn(platform: str, method: str) -> Step:
    async def begin(scene: Scene) -> None:
        kinds: list[dict[str, Any]] = [{"kind": "rate_limit", "retry_after": 1}]
        kinds += [{"kind": "server_error", "status": status} for status in (503, 500)]
        await scene.place(platform).double.post("faults", [{"method": method, **kind} for kind in kinds])

    return begin


# -- Telegram


async def another_webhook(scene: Scene) -> None:
    """Set a webhook with our token: from then on polling is refused."""
    await telegram(scene, "setWebhook", url="http://127.0.0.1:9/elsewhere")


async def another_poller(scene: Scene) -> None:
    """A second process polls with our token."""
    for _ in range(4):
        await telegram(scene, "getUpdates", timeout=1)


async def telegram(scene: Scene, method: str, **parameters: Any) -> None:
    """A call with our token from somewhere else."""
    url = f"http://127.0.0.1:{scene.doubles.telegram.port}/bot{TELEGRAM_TOKEN}/{method}"
    async with aiohttp.ClientSession() as client, client.post(url, json=parameters) as answer:
        await answer.read()


async def twice(scene: Scene) -> None:
    """The next update comes twice (the receipt of the first delivery was lost)."""
    await fails("telegram", method="getUpdates", kind="drop_after", after=1)(scene)


TELEGRAM = [
    *everywhere("telegram"),
    Fault(platform="telegram", name="a batch delivered again from its first update", begin=twice, messages=3, red=None),
    Fault(platform="telegram", name="a webhook set by somebody else (409)", begin=another_webhook, red=True),
]
SECOND_POLLER = Fault(
    platform="telegram", name="a second poller for 4 s (409)", begin=another_poller, red=True, messages=0, after=1
)


async def no_webhook(scene: Scene) -> None:
    await telegram(scene, "deleteWebhook")


STOLEN_WEBHOOK = Fault(platform="telegram", name="our webhook removed by somebody else", begin=no_webhook, red=None)


# -- Discord


def gateway(action: str, **more: Any) -> Step:
    return says("discord", "gateway", action=action, **more)


async def gateway_down(scene: Scene) -> None:
    """No connection is to be had, and the session is gone: what is written meanwhile comes with no event."""
    await says("discord", "settings", gateway_down=True)(scene)
    await gateway("invalidate")(scene)
    await gateway("abort")(scene)


def discord_settings(**values: Any) -> Step:
    return says("discord", "settings", **values)


DISCORD = [
    *everywhere("discord"),
    Fault(platform="discord", name="reconnect asked for (op 7), resumed", begin=gateway("reconnect"), red=None),
    Fault(platform="discord", name="session invalid, may be resumed", begin=gateway("invalidate_resumable"), red=None),
    Fault(platform="discord", name="session invalid, a new one", begin=gateway("invalidate"), red=None),
    Fault(platform="discord", name="connection reset, resumed", begin=gateway("abort"), red=None),
    Fault(platform="discord", name="closed with 4000", begin=gateway("close", code=4000), red=None),
    Fault(
        platform="discord",
        name="zombie: no heartbeat is acknowledged",
        begin=discord_settings(ack_heartbeats=False),
        end=discord_settings(ack_heartbeats=True),
        lasts=9.0,
        red=None,
        after=1,
    ),
    Fault(
        platform="discord",
        name="deaf: heartbeats but no events",
        begin=gateway("deafen"),
        red=None,
        messages=3,
    ),
    Fault(
        platform="discord",
        name="gateway down and session lost for 3 s",
        begin=gateway_down,
        end=discord_settings(gateway_down=False),
        lasts=3.0,
        red=True,
        messages=3,
        after=1,
    ),
]


# -- Slack


def goodbye(reason: str) -> Step:
    return says("slack", "disconnect", reason=reason)


async def sockets_down(scene: Scene) -> None:
    """No socket is to be had: what is written meanwhile is delivered late by Slack, and read by us before that."""
    await fails("slack", method="apps.connections.open", kind="server_error", status=503, for_s=3.0)(scene)
    await goodbye("abort")(scene)


async def half_open(scene: Scene) -> None:
    """The socket stays, but nothing comes or goes."""
    for socket in list(scene.doubles.slack.double.sockets):
        transport = scene.doubles.slack.double.transport_of(socket)
        transport.pause_reading()
        scene.kept.setdefault("paused", []).append(transport)


async def closed_for_good(scene: Scene) -> None:
    for transport in scene.kept.pop("paused", []):
        transport.abort()


async def ghost(scene: Scene) -> None:
    """A socket of a process that is no more takes its share of the events and acknowledges none."""
    client = aiohttp.ClientSession()
    base = f"http://127.0.0.1:{scene.doubles.slack.port}/api"
    headers = {"Authorization": f"Bearer {SLACK_APP_TOKEN}"}
    async with client.post(f"{base}/apps.connections.open", headers=headers) as answer:
        url = (await answer.json())["url"]
    socket = await client.ws_connect(url)
    scene.kept["ghost"] = (client, socket)


async def ghost_gone(scene: Scene) -> None:
    client, socket = scene.kept.pop("ghost")
    await socket.close()
    await client.close()


SLACK = [
    *everywhere("slack"),
    Fault(platform="slack", name="a new connection asked for", begin=goodbye("refresh_requested"), red=None),
    Fault(platform="slack", name="a warning before the end", begin=goodbye("warning"), red=None),
    Fault(platform="slack", name="connection reset", begin=goodbye("abort"), red=None),
    Fault(
        platform="slack",
        name="no socket to be had for 3 s",
        begin=sockets_down,
        lasts=3.0,
        red=True,
        messages=3,
        after=1,
    ),
    Fault(
        platform="slack",
        name="half-open: nothing comes, nothing is closed",
        begin=half_open,
        end=closed_for_good,
        lasts=8.0,
        red=None,
        messages=2,
    ),
    Fault(
        platform="slack",
        name="a ghost connection takes its share for 5 s",
        begin=ghost,
        end=ghost_gone,
        lasts=5.0,
        messages=2,
        red=None,
        ordered=False,  # what the ghost got comes again seconds later
    ),
]
