"""`tieline init`: a few questions, checked answers, a configuration. Secrets go into files of their own, mode 0600."""

import os
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio
import click
import tomlkit

from agent.compaction.settings import CompressionSettings
from gateway.cli.checking import diagnose_channel
from gateway.cli.options import fail
from gateway.config.mistakes import ConfigError
from gateway.config.settings import home_directory, read

PROVIDERS = {
    "anthropic": ("Anthropic", "ANTHROPIC_API_KEY"),
    "openai": ("OpenAI", "OPENAI_API_KEY"),
    "compatible": ("another service with the OpenAI protocol (Ollama, vLLM, OpenRouter, …)", "LLM_API_KEY"),
    "demo": ("none yet: the built-in demo answers", ""),
}
PLATFORMS: dict[str, tuple[tuple[str, str, bool], ...]] = {
    "telegram": (("token", "Token from @BotFather", True),),
    "discord": (("token", "Bot token (Developer Portal → Bot → Reset Token)", True),),
    "slack": (
        ("bot_token", "Bot User OAuth Token (xoxb-…)", True),
        ("app_token", "App-Level Token for Socket Mode (xapp-…), empty for HTTP", False),
        ("signing_secret", "Signing Secret", False),
    ),
}

STRATEGIES = {
    "reactive": "the oldest",
    "task_aware": "what has least to do with the last question",
    "mig": "what tells nothing new",
    "subgoal": "what belongs to no subgoal, or to a completed one; a model is asked about them now and then",
    "subgoal_mig": "the same, and of that what tells nothing new",
}


@dataclass(slots=True)
class Answers:
    """What was said so far. `secrets` maps file names below `secrets/` to what goes in."""

    home: Path
    sections: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)


@click.command("init")
@click.option("--home", type=click.Path(path_type=Path), help="Data directory; else TIELINE_HOME, else ~/.tieline.")
@click.option("--check/--no-check", default=True, help="Try the tokens against the platforms.")
def command(home: Path | None, check: bool) -> None:
    """Write a configuration, step by step."""
    folder = (home or home_directory(os.environ)).absolute()
    target = folder / "gateway.toml"
    if target.exists() and not click.confirm(f"{target} exists. Replace it (the old one is kept as .bak)?"):
        return
    answers = Answers(folder)
    _ask_provider(answers)
    for platform in PLATFORMS:
        _ask_platform(answers, platform, check=check)
    _ask_access(answers)
    _ask_strategy(answers)
    _validate(answers)
    _write(answers, target)
    click.echo(f"\nWritten: {target}")
    click.echo("Next:  tieline doctor   (is everything in order?)\n       tieline run")


def _ask_provider(answers: Answers) -> None:
    click.secho("Which model answers?", bold=True)
    for name, (title, _) in PROVIDERS.items():
        click.echo(f"  {name:<11} {title}")
    kind = click.prompt("Provider", type=click.Choice(list(PROVIDERS)), default="anthropic", show_choices=False)
    if kind == "demo":
        answers.sections["llm"] = {"providers": [{"name": "demo", "type": "demo"}]}
        return
    provider: dict[str, Any] = {"name": "main", "type": "openai" if kind == "compatible" else kind}
    provider["model"] = click.prompt("Model", default=_usual_model(kind) or None)
    if kind == "compatible":
        provider["base_url"] = click.prompt("Address", default="http://127.0.0.1:11434/v1")
    variable = PROVIDERS[kind][1]
    if os.environ.get(variable) and click.confirm(f"Use {variable} from the environment?", default=True):
        provider["api_key"] = f"env:{variable}"
    elif key := click.prompt("API key (empty for none)", default="", hide_input=True, show_default=False):
        provider["api_key"] = _secret(answers, "llm-main", key)
    answers.sections["llm"] = {"providers": [provider]}


def _usual_model(kind: str) -> str:
    settings = import_module("agent.providers.settings")
    return str({"anthropic": settings.ANTHROPIC_MODEL, "openai": settings.OPENAI_MODEL}.get(kind, ""))


def _ask_platform(answers: Answers, platform: str, *, check: bool) -> None:
    click.echo()
    if not click.confirm(click.style(f"Connect {platform.capitalize()}?", bold=True), default=False):
        return
    while True:
        channel: dict[str, Any] = {"type": platform}
        secrets: dict[str, str] = {}
        for key, question, needed in PLATFORMS[platform]:
            value = click.prompt(question, default=None if needed else "", hide_input=True, show_default=False)
            if value.strip():
                secrets[f"{platform}-{key}"] = value.strip()
                channel[key] = f"file:secrets/{platform}-{key}"
        plain = {key: secrets.get(f"{platform}-{key}", "") for key in channel if key != "type"}
        problems = anyio.run(diagnose_channel, {**channel, **plain}, answers.home) if check else []
        for line in problems:
            click.secho(f"  {line}", fg="yellow")
        if not problems or not click.confirm("Enter it again?", default=True):
            break
    answers.secrets.update(secrets)
    answers.sections.setdefault("channels", []).append(channel)


def _ask_access(answers: Answers) -> None:
    click.secho("\nWho may write to the bot directly?", bold=True)
    click.echo(
        "  pairing    strangers get a code that you approve\n  allowlist  only whom you list\n  open       everybody"
    )
    policy = click.prompt(
        "Policy", type=click.Choice(["pairing", "allowlist", "open"]), default="pairing", show_choices=False
    )
    admins = click.prompt("Admins, such as telegram:77, separated by blanks (may be empty)", default="")
    answers.sections["access"] = {"dm": policy, "admins": admins.replace(",", " ").split()}


def _ask_strategy(answers: Answers) -> None:
    click.secho("\nWhich results of tools leave a full window first?", bold=True)
    for number, (name, meaning) in enumerate(STRATEGIES.items(), start=1):
        click.echo(f"  {number} {name:<12} {meaning}")
    usual = CompressionSettings().pruning_strategy
    chosen = click.prompt("Strategy", type=click.Choice(list(STRATEGIES)), default=usual, show_choices=False)
    if chosen != usual:
        answers.sections["memory"] = {"compression": {"pruning_strategy": chosen}}


def _secret(answers: Answers, name: str, value: str) -> str:
    answers.secrets[name] = value.strip()
    return f"file:secrets/{name}"


def _validate(answers: Answers) -> None:
    """The same check as at start, with the secrets in place of their references."""

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: filled(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [filled(inner) for inner in value]
        if isinstance(value, str) and value.startswith("file:secrets/"):
            return answers.secrets[value.removeprefix("file:secrets/")]
        return value

    try:
        read(filled(answers.sections), os.environ, home=answers.home, source=None)
    except ConfigError as error:
        fail("\n".join(f"not written: {mistake}" for mistake in error.mistakes))


def _write(answers: Answers, target: Path) -> None:
    document = tomlkit.document()
    document.add(tomlkit.comment("Written by `tieline init`. Every setting: config/gateway.toml in the source."))
    for name in ("access", "llm", "memory", "channels"):
        if name in answers.sections:
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
        _write_private(target, tomlkit.dumps(document))
    except OSError as error:
        fail(f"cannot write below {answers.home}: {error.strerror}; set TIELINE_HOME to a directory that you own")


def _write_private(path: Path, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(text)
