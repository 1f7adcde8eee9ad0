"""`tieline init`: a few questions, checked answers, a configuration. Secrets go into files of their own, mode 0600."""

import os
import re
import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import click
import tomlkit

from agent.compaction.settings import CompressionSettings
from agent.core.phrases import home_as_typed, program_as_typed
from gateway.channels.adapter import Asked, ChannelSettings
from gateway.channels.entry_points import PlatformBroken, installed, settings_class
from gateway.cli.options import fail, home_option
from gateway.cli.questions import choose, secret, tell
from gateway.config.errors import ConfigError
from gateway.config.read import home_directory, read
from gateway.config.settings import Settings
from gateway.running.accounts.checks import diagnose_channel

PROVIDERS = {
    "anthropic": "Claude, by Anthropic; needs an API key",
    "openai": "GPT, by OpenAI; needs an API key",
    "compatible": "another service with the OpenAI protocol (Ollama, vLLM, OpenRouter, …)",
    "demo": "none yet: the built-in demo answers",
    "litellm": "a service with a protocol of its own (Bedrock, Vertex AI, …), through litellm",
}
_HOST = re.compile(r"(localhost|\d+\.\d+\.\d+\.\d+)(:\d+)?(/|$)")  # of an address without http://
VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "openai": "OPENAI_API_KEY",
    "compatible": "LLM_API_KEY",
    "litellm": "LLM_API_KEY",
}
POLICIES = {
    "pairing": "strangers get a code that you approve",
    "allowlist": "only whom you list",
    "open": "everybody",
}
STRATEGIES = {
    "reactive": "the oldest",
    "task_aware": "what has least to do with the task at hand",
    "mig": "what tells nothing new",
    "subgoal": "what belongs to a finished step, or to none; a model is asked about the steps now and then",
    "subgoal_mig": "the same, and of that what tells nothing new",
}

KEPT = "  It is kept as it was entered; `tieline doctor` tries it again."


@dataclass(slots=True)
class Answers:
    """Answers so far. `secrets` maps file names below `secrets/` to what goes in."""

    home: Path
    sections: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)


@click.command("init")
@home_option
@click.option("--advanced", is_flag=True, help="Also ask what long conversations let go of first.")
@click.option("--check/--no-check", default=True, help="Try the model, and the tokens against the platforms.")
def command(home: Path | None, check: bool, advanced: bool) -> None:
    """Write a configuration, step by step."""
    folder = (home or home_directory(os.environ)).absolute()
    target = folder / "gateway.toml"
    answers = Answers(folder)
    _must_be_writable(folder)  # before anything is typed
    if mistakes := _mistakes(answers):
        fail("\n".join(f"the environment is wrong: {mistake}" for mistake in mistakes))
    try:
        if target.exists() and not click.confirm(f"{target} exists. Replace it (the old one is kept as .bak)?"):
            return
        _ask_provider(answers, check=check)
        for platform, asked in _platforms().items():
            _ask_platform(answers, platform, asked, check=check)
        _ask_access(answers)
        if advanced:
            _ask_strategy(answers)
    except click.Abort:
        if sys.stdin.isatty():
            fail("\nnothing is written")
        fail("\ninit asks questions: start it in a terminal; nothing is written")
    _write(answers, target)
    click.echo(f"\nWritten: {target}")
    program, where = program_as_typed(), home_as_typed(folder)
    click.echo(f"Next:  {program} doctor{where}   (is everything in order?)\n       {program} run{where}")


def _ask_provider(answers: Answers, *, check: bool) -> None:
    """Until it answers, or is wanted as it is; what was typed is offered again."""
    click.secho("Which model answers?", bold=True)
    kind, provider, key = "anthropic", dict[str, Any](), ""
    while True:
        before, kind = kind, choose("Provider", PROVIDERS, kind)
        if kind == "demo":
            answers.sections["llm"] = {"providers": [{"name": "demo", "type": "demo"}]}
            return
        if kind == "litellm" and (missing := import_module("agent.providers.settings").missing_extra(kind)):
            tell([f"{missing}; it takes 192 MB. Then start this again, or choose another one"])
            kind = before
            continue
        if kind != before:
            provider, key = {}, ""
        usual = provider.get("model") or _usual_model(kind)
        provider = {**provider, "name": "main", "type": "openai" if kind == "compatible" else kind}
        provider["model"] = click.prompt("Model", default=usual or None, value_proc=_model_name)
        if kind == "compatible":
            provider["base_url"] = click.prompt(
                "Address", default=provider.get("base_url", "http://127.0.0.1:11434/v1")
            )
        variable = VARIABLES[kind]
        if os.environ.get(variable) and click.confirm(f"Use {variable} from the environment?", default=True):
            provider["api_key"] = f"env:{variable}"
        else:
            optional = kind in ("compatible", "litellm")  # Bedrock and Vertex AI have variables of their own
            key = secret(
                "API key (empty for none)" if optional and not key else "API key", needed=not optional, before=key
            )
            provider |= {"api_key": _secret(answers, "llm-main", key)} if key else {}
        answers.sections["llm"] = {"providers": [provider]}
        if mistakes := _mistakes(answers):
            tell(mistakes)
            continue
        if not check or _answers(answers):
            return
        if not click.confirm("Enter it again?", default=True):
            click.echo(KEPT)
            return


def _model_name(typed: str) -> str:
    """The typed name, unless it is an address. Raises BadParameter, so that the question is asked again."""
    if "://" in typed or _HOST.match(typed.strip()):
        raise click.BadParameter(
            f"{typed.strip()} is an address, not the name of a model; the address is asked for next where the provider "
            'is "compatible"'
        )
    return typed.strip()


def _answers(answers: Answers) -> bool:
    """Does the model answer? Says why not."""
    (provider,) = _settings(answers).llm.providers
    click.echo("  Trying it…")
    found = anyio.run(import_module("gateway.doctor.providers").tried, provider, answers.home)
    if found.level == "ok":
        click.echo(f"  ✓ {found.finding}")
        return True
    tell([f"{found.finding}; {found.fix}"])
    return False


def _usual_model(kind: str) -> str:
    settings = import_module("agent.providers.settings")
    return str({"anthropic": settings.ANTHROPIC_MODEL, "openai": settings.OPENAI_MODEL}.get(kind, ""))


def _platforms() -> dict[str, tuple[Asked, ...]]:
    """The installed ones that can be connected by typing secrets, and these."""
    entries = installed()
    found: dict[str, type[ChannelSettings]] = {}
    for name in entries:
        try:
            found[name] = settings_class(name, entries)
        except PlatformBroken as error:
            tell([str(error)])
    ordered = sorted(found.items(), key=lambda item: (item[1].init_rank, item[0]))
    return {name: settings.init_asks for name, settings in ordered if settings.init_asks}


def _ask_platform(answers: Answers, platform: str, asked: tuple[Asked, ...], *, check: bool) -> None:
    """Until its tokens work, or are wanted as they are; what could not be read at the next start is left out."""
    click.echo()
    if not click.confirm(click.style(f"Connect {platform.capitalize()}?", bold=True), default=False):
        return
    typed: dict[str, str] = {}
    channels = answers.sections.get("channels", [])
    while True:
        for key, question, needed in asked:
            typed[key] = secret(question, needed=needed, before=typed.get(key, ""))
        given = {key: value for key, value in typed.items() if value}
        channel = {key: _secret(answers, f"{platform}-{key}", value) for key, value in given.items()}
        answers.sections["channels"] = [*channels, {"type": platform, **channel}]
        mistakes = _mistakes(answers)
        refused = (
            anyio.run(diagnose_channel, {"type": platform, **given}, answers.home) if check and not mistakes else []
        )
        tell([*mistakes, *refused])
        if not mistakes and not refused:
            return
        if not click.confirm("Enter it again?", default=True):
            break
    if not mistakes:
        click.echo(KEPT)
    else:
        click.echo(f"  {platform.capitalize()} is left out.")
        answers.sections["channels"] = channels
        for key in typed:
            answers.secrets.pop(f"{platform}-{key}", None)


def _ask_access(answers: Answers) -> None:
    policy = "pairing"
    while True:
        click.secho("\nWho may write to the bot directly?", bold=True)
        policy = choose("Policy", POLICIES, policy)
        question = "Who may administer it, such as telegram:77, separated by blanks (may be empty)"
        # A mistyped one is not offered again: Enter means nobody, as the question says.
        admins = click.prompt(question, default="", show_default=False)
        answers.sections["access"] = {"dm": policy, "admins": admins.replace(",", " ").split()}
        mistakes = _mistakes(answers)
        if not mistakes:
            return
        tell(mistakes)


def _ask_strategy(answers: Answers) -> None:
    click.secho("\nIn a long conversation, which results of tools may the model lose sight of first?", bold=True)
    click.echo("  Enter is right for a start; docs/context-settings.md compares them.")
    usual = CompressionSettings().pruning_strategy
    chosen = choose("Strategy", STRATEGIES, usual)
    if chosen != usual:
        answers.sections["memory"] = {"compression": {"pruning_strategy": chosen}}


def _secret(answers: Answers, name: str, value: str) -> str:
    answers.secrets[name] = value
    return f"file:secrets/{name}"


def _mistakes(answers: Answers) -> tuple[str, ...]:
    """Mistakes that it would have at the next start."""
    try:
        _settings(answers)
    except ConfigError as error:
        return error.mistakes
    return ()


def _settings(answers: Answers) -> Settings:
    """The settings as they are at the start, with the secrets in place of their references. Raises ConfigError."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner) for inner in value]
        if isinstance(value, str) and value.startswith("file:secrets/"):
            return answers.secrets[value.removeprefix("file:secrets/")]
        return value

    return read(filled(answers.sections), os.environ, home=answers.home, source=None)


def _must_be_writable(home: Path) -> None:
    there = next((folder for folder in (home, *home.parents) if folder.exists()), Path("/"))
    if not there.is_dir() or not os.access(there, os.W_OK):
        fail(f"cannot write below {home}; set TIELINE_HOME to a directory that you own")


def _write(answers: Answers, target: Path) -> None:
    document = tomlkit.document()
    document.add(tomlkit.comment("Written by `tieline init`. Every setting: config/gateway.toml in the source."))
    for name in ("access", "llm", "memory", "channels"):
        if answers.sections.get(name):
            document.add(name, tomlkit.item(answers.sections[name]))
    try:
        answers.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder = answers.home / "secrets"
        folder.mkdir(exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        for name, value in answers.secrets.items():
            _write_private(folder / name, value + "\n")
        if target.exists():
            target.replace(target.with_suffix(".toml.bak"))
        _write_private(target, tomlkit.dumps(document).rstrip("\n") + "\n")
    except OSError as error:
        fail(f"cannot write below {answers.home}: {error.strerror}; set TIELINE_HOME to a directory that you own")


def _write_private(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
