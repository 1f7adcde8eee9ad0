"""The questions of `tieline doctor` to Discord: the token, the intents, the way to the gateway, the servers."""

import aiohttp
import anyio
import discord
from discord.http import Route

from adapters.discord.rest import INTENTS_FIX, LOGIN_FIX, AccountHTTP, Trouble, open_http
from adapters.discord.settings import DiscordSettings
from gateway.channels.adapter import Diagnosis, Withheld

CONTENT_FLAGS = 1 << 18 | 1 << 19  # the Message Content intent is on (the second for bots in few servers)
WITHIN_S = 15.0
FEW_SESSIONS = 50
CONTENT_FIX = (
    "switch on Message Content Intent at https://discord.com/developers/applications → Bot → Privileged Gateway"
    " Intents, then set message_content = true"
)
REACH_FIX = "check the connection to the internet, the firewall and the `proxy` setting"


async def diagnose(settings: DiscordSettings, proxy: str | None) -> list[Diagnosis]:
    """One line a subject; needs no running adapter."""
    http = open_http(settings, proxy)
    try:
        with anyio.fail_after(WITHIN_S):
            user = await http.static_login(settings.token.get_secret_value())
            found = [_ok("token", f"signed in as {user['username']}")]
            found += [await look(http, settings) for look in (_intents, _gateway, _servers)]
        return found
    except discord.LoginFailure:
        return [Diagnosis(subject="token", level="error", finding="Discord refused it", fix=LOGIN_FIX)]
    except Trouble as error:
        return [_trouble("Discord", error, "no answer")]
    finally:
        with anyio.CancelScope(shield=True):
            await http.close()


async def _intents(http: AccountHTTP, settings: DiscordSettings) -> Diagnosis:
    application = await http.application_info()
    if application.get("interactions_endpoint_url"):
        return Diagnosis(
            subject="interactions",
            level="error",
            finding="slash commands and buttons go to an address, not to this gateway",
            fix="clear Interactions Endpoint URL at https://discord.com/developers/applications → General Information",
        )
    if withheld := withheld_by(settings):
        return withheld[0].diagnosis("intents")
    if not int(application.get("flags") or 0) & CONTENT_FLAGS:
        return Diagnosis(subject="intents", level="error", finding="Message Content is off", fix=INTENTS_FIX)
    return _ok("intents", "Message Content is on")


def withheld_by(settings: DiscordSettings) -> tuple[Withheld, ...]:
    """Messages that Discord keeps from the bot. Roles it never does: they come with each message, without an intent.

    With `message_content` an intent that is off in the portal is no such thing: Discord refuses the login.
    """
    if settings.message_content:
        return ()
    finding = "message_content is off: in servers only mentions, replies to it and commands can be read"
    return (Withheld(affects=("unaddressed messages",), finding=finding, fix=CONTENT_FIX),)


async def _gateway(http: AccountHTTP, settings: DiscordSettings) -> Diagnosis:
    try:
        _, url, limits = await http.get_bot_gateway()
        socket = await http.ws_connect(f"{url.rstrip('/')}/?v=10&encoding=json")
        hello = await socket.receive(timeout=WITHIN_S)
        await socket.close(code=1000)
    except Trouble as error:
        return _trouble("gateway", error, "cannot be reached")
    if hello.type is not aiohttp.WSMsgType.TEXT:
        finding = "closed the connection at once"
        return Diagnosis(subject="gateway", level="error", finding=finding, fix=REACH_FIX)
    left, total = limits["remaining"], limits["total"]
    if left < FEW_SESSIONS:
        finding = f"only {left} of {total} new sessions are left today"
        fix = "look for what makes the process restart; the number is full again within a day"
        return Diagnosis(subject="gateway", level="warning", finding=finding, fix=fix)
    return _ok("gateway", f"reached; {left} of {total} new sessions left today")


async def _servers(http: AccountHTTP, settings: DiscordSettings) -> Diagnosis:
    guilds = await http.request(Route("GET", "/users/@me/guilds"))
    here = {int(guild["id"]) for guild in guilds}
    missing = [guild_id for guild_id in settings.guild_ids if guild_id not in here]
    if missing:
        finding = f"guild_ids names servers the bot is not in: {', '.join(map(str, missing))}"
        return Diagnosis(
            subject="servers", level="error", finding=finding, fix="invite the bot there, or take them out"
        )
    if not guilds:
        return Diagnosis(
            subject="servers",
            level="warning",
            finding="the bot is in no server",
            fix="invite it with the link of OAuth2 → URL Generator (scopes bot and applications.commands)",
        )
    return _ok("servers", f"the bot is in {len(guilds)}")


def _trouble(subject: str, error: BaseException, unreached: str) -> Diagnosis:
    """A refusal is an answer: then the way to Discord is no matter, but who answers there is."""
    if isinstance(error, discord.GatewayNotFound) and error.__cause__ is not None:
        error = error.__cause__  # discord.py puts it in place of any refusal
    what, status = type(error).__name__, getattr(error, "status", None)
    if status is None or status >= 500:
        return Diagnosis(subject=subject, level="error", finding=f"{unreached} ({what})", fix=REACH_FIX)
    finding = f"answered {status} ({what}): this is not what Discord's API says"
    fix = "look whether a proxy or a firewall answers in its place ([network] proxy), and at api_base_url"
    return Diagnosis(subject=subject, level="error", finding=finding, fix=fix)


def _ok(subject: str, finding: str) -> Diagnosis:
    return Diagnosis(subject=subject, level="ok", finding=finding)
