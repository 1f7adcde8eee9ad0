"""`tieline config check | show | schema`."""

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from pydantic import TypeAdapter

from gateway.channels.entry_points import installed, loaded, token_forms
from gateway.cli.options import config_option, settings_from
from gateway.config.settings import Sections, Settings
from gateway.telemetry.redaction import Redactor


@click.group("config")
def command() -> None:
    """Check or show the configuration."""


@command.command()
@config_option
def check(config_path: Path | None, home: Path | None) -> None:
    """Say what is wrong, all at once, or that nothing is."""
    settings = settings_from(config_path, home)
    providers = ", ".join(provider.name for provider in settings.llm.providers)
    channels = ", ".join(channel.channel_type for channel in settings.channels)
    click.echo(f"{settings.source or 'no file, defaults'}: fine")
    # Loaded only here: the other commands of the group need no tools.
    rules = import_module("agent.assembly").rules_without_effect
    without_effect = rules(settings.approvals, [one.name for one in settings.mcp.servers])
    without_effect += import_module("gateway.running.rights").roles_without_effect(
        settings, [one.name for one in settings.mcp.servers]
    )
    for warning in (*settings.warnings, *without_effect, *_agent_missing(settings)):
        click.secho(f"warning: {warning}", fg="yellow")
    there = "" if settings.home.exists() else " (not there yet)"
    click.echo(f"providers: {providers}\nchannels:  {channels}\ndata:      {settings.home}{there}")


def _agent_missing(settings: Settings) -> Iterator[str]:
    """A problem for an `[agent] name` that is not there."""
    folders = import_module("gateway.config.live").Live(settings).agent_folders()
    definitions = import_module("agent.definitions").Definitions(folders, known_tools=frozenset())
    if settings.agent.name not in definitions.names():
        known = ", ".join(definitions.names()) or "none"
        yield f"agent.name: there is no agent {settings.agent.name!r}; known: {known}"


@command.command()
@config_option
def show(config_path: Path | None, home: Path | None) -> None:
    """Print what is in force, as JSON, secrets left out."""
    click.echo(json.dumps(in_force(settings_from(config_path, home)), indent=2, ensure_ascii=False))


@command.command()
def schema() -> None:
    """Print the JSON schema of the file, for editors."""
    whole = Sections.model_json_schema()
    whole["title"] = "Tieline configuration"
    models = loaded(installed()).values()
    kinds = [model.model_json_schema(ref_template="#/$defs/{model}") for model in models]
    for kind in kinds:
        whole.setdefault("$defs", {}).update(kind.pop("$defs", {}))
    whole["properties"]["channels"] = {"type": "array", "items": {"anyOf": kinds}}
    click.echo(json.dumps(whole, indent=2))


def in_force(settings: Settings) -> dict[str, Any]:
    """Every value; pydantic masks the secrets, and passwords inside of addresses are masked here."""
    values = {
        name: TypeAdapter(type(section)).dump_python(section, mode="json")
        for name in Sections.model_fields
        for section in (getattr(settings, name),)
    }
    values["channels"] = [channel.model_dump(mode="json") for channel in settings.channels]
    shown: dict[str, Any] = _without_secrets(values, Redactor(settings.secrets, token_forms(installed())))
    return shown


def _without_secrets(value: Any, redact: Redactor) -> Any:
    match value:
        case dict():
            return {key: _without_secrets(inner, redact) for key, inner in value.items()}
        case list():
            return [_without_secrets(inner, redact) for inner in value]
        case str():
            return redact(value)
        case _:
            return value
