"""Which model answers, and as whom: /provider /model /persona (SPEC §6.1, §19.2)."""

import logging

from sqlalchemy import Connection

from agent.core.errors import AgentInvalid, AgentMissing
from agent.core.ids import ConversationId
from agent.providers.registry import UnknownProvider
from agent.providers.slot import Choice, Chooser
from agent.storage.moments import to_us
from gateway.access.policy import Role
from gateway.commands.command import Call, Command, Reply, choices
from gateway.storage import preferences, settings_rows
from gateway.storage.preferences import Preference

PERSONA_SETTING = "persona"
MOST_BUTTONS = 8

_log = logging.getLogger("tieline.commands")


async def provider(call: Call) -> Reply:
    """Lists the providers, or switches this chat to one; `reset` goes back to the default and keeps the history."""
    phrase, language = call.house.phrase, call.incoming.language
    name = call.words[0] if call.words else "status"
    if name.lower() == "status":
        return await _list(call)
    if name.lower() == "reset":
        choice = call.agent.reset_provider()
        await _forget(call, choice)
        model = call.house.providers().get(choice.provider).model
        return Reply(text=phrase("provider_reset", language, name=choice.provider, model=model))
    registry = call.house.providers()
    try:
        wanted = registry.get(name)
        status = await call.agent.status()
        if status.choice == Choice(provider=wanted.name, source=status.choice.source):
            return Reply(text=phrase("provider_already", language, name=wanted.name))
        choice = call.agent.switch_provider(wanted.name, _chooser(call))
    except UnknownProvider:
        known = ", ".join(registry.names)
        return Reply(text=phrase("provider_unknown", language, name=name, known=known))
    await _save(call, choice)
    return Reply(text=phrase("provider_set", language, name=wanted.name, model=wanted.model))


async def model(call: Call) -> Reply:
    """Shows or chooses the model of the present provider; `reset` goes back to the configured one."""
    phrase, language = call.house.phrase, call.incoming.language
    status = await call.agent.status()
    if not call.words:
        return Reply(text=phrase("model_current", language, provider=status.provider, model=status.model))
    if call.words[0].lower() == "reset":
        configured = call.house.providers().get(status.provider).model
        if status.choice.model is not None:
            await _save(call, call.agent.use_model(configured, _chooser(call)))
        return Reply(text=phrase("model_reset", language, model=configured))
    choice = call.agent.use_model(call.words[0], _chooser(call))
    await _save(call, choice)
    return Reply(text=phrase("model_set", language, provider=choice.provider, model=call.words[0]))


async def persona(call: Call) -> Reply:
    """Lists the agents (AGENT.md), or lets one of them answer in this chat."""
    phrase, language, conversation = call.house.phrase, call.incoming.language, ConversationId(str(call.key))
    names = call.agent.personas()
    if not call.words:
        current = (await call.agent.status()).persona
        lines = [f"- {'▸' if name == current else '–'} {name}" for name in names]
        buttons = choices("persona", (name for name in names if name != current), most=MOST_BUTTONS)
        title = phrase("persona_title", language, current=current)
        return Reply(text="\n".join([title, "", *lines]), buttons=buttons)
    name = call.words[0]
    try:
        definition = call.agent.switch_persona(name)
    except AgentMissing:
        return Reply(text=phrase("persona_unknown", language, name=name, known=", ".join(names)))
    except AgentInvalid as error:
        _log.warning("persona not switched: %s", error, extra={"conversation": conversation})
        return Reply(text=phrase("persona_broken", language, name=name))
    at = to_us(call.house.clock.now())
    await call.house.database.write(
        lambda conn: settings_rows.put(conn, conversation, PERSONA_SETTING, definition.name, at=at)
    )
    return Reply(text=phrase("persona_set", language, name=definition.name))


async def _list(call: Call) -> Reply:
    phrase, language, registry = call.house.phrase, call.incoming.language, call.house.providers()
    status = await call.agent.status()
    lines = [
        phrase(
            "provider_line",
            language,
            mark="▸" if name == status.provider else "–",
            name=name,
            model=registry.get(name).model,
            window=f"{registry.get(name).context_window:,}",
        )
        for name in registry.names
    ]
    source = phrase(f"source_{status.choice.source}", language)
    title = phrase("provider_title", language, current=status.provider, source=source)
    buttons = choices("provider", (name for name in registry.names if name != status.provider), most=MOST_BUTTONS)
    return Reply(text="\n".join([title, "", *lines]), buttons=buttons)


def _chooser(call: Call) -> Chooser:
    return "admin" if call.in_group and call.role >= Role.ADMIN else "user"


async def _save(call: Call, choice: Choice) -> None:
    """Kept for the next start (Z-65), unless the operator wants no persistence (Z-68)."""
    if not call.house.persistence():
        return
    kept = Preference(
        channel_type=call.key.channel_type,
        channel_id=call.key.channel_id,
        provider=choice.provider,
        model=choice.model,
        source="admin" if choice.source == "admin" else "user",
        updated_at=to_us(call.house.clock.now()),
    )
    await call.house.database.write(lambda conn: preferences.save(conn, kept))


async def _forget(call: Call, default: Choice) -> None:
    """Nothing is chosen here any more; where that would let the choice of the place around count, the default is."""
    key, around = call.key, call.key.around

    def work(conn: Connection) -> bool:
        preferences.forget(conn, key.channel_type, key.channel_id)
        return around is not None and preferences.load(conn, around.channel_type, around.channel_id) is not None

    if await call.house.database.write(work):
        await _save(call, default)


PROVIDER = Command(name="provider", run=provider, group="model", usage="[name | reset]", admin_in_groups=True)
MODEL = Command(name="model", run=model, group="model", usage="[id | reset]", admin_in_groups=True)
PERSONA = Command(name="persona", run=persona, group="model", usage="[name]", admin_in_groups=True)
