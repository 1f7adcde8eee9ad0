"""The default install: an empty configuration but for addresses, tokens and flood limits.

What runs the real program in tests, fault sweeps, soaks and benches sets nothing else, so that it shows what people
get. A test whose subject is a setting names that setting.
"""

import tomllib
from collections.abc import Iterator, Mapping, Set
from typing import Any

_ACCOUNT = frozenset(
    {
        "type", "account", "token", "bot_token", "app_token", "signing_secret",
        "mode", "webhook_url", "webhook_secret", "api_base_url", "gateway_url",
        "messages_per_second", "private_messages_per_second", "group_messages_per_minute",
        "stream_interval_ms", "draft_interval_ms",
    }
)  # fmt: skip
_MODEL = frozenset({"name", "type", "model", "base_url", "api_key", "context_window", "default"})
SHIPPED: Mapping[str, Set[str]] = {
    "channels": _ACCOUNT,  # addresses, tokens, and how fast the platform lets an account write
    "llm.providers": _MODEL,
    "access": frozenset({"dm", "groups", "admins", "allow", "allow_from", "allow_groups", "messages_per_minute"}),
    "queue": frozenset({"max_depth"}),
    "web": frozenset({"host", "port"}),
    "database": frozenset({"url"}),
}

# What tests of the whole program may be about beyond that: a section or setting, and why the test needs it.
UNDER_TEST: Mapping[str, str] = {
    "access.platform_admins": "administrators of a group on its platform are those of the bot there",
    "access.require_mention": "a rule needs messages that the platform withholds",
    "agent.goal": "goals go on by themselves only where an operator switches that on",
    "agent.max_message_chars": "one message fills a small window",
    "events": "there is no event for other programs without a section that names one",
    "approvals": "a person is asked about a tool that is otherwise safe, and a question runs out within the test",
    "budget": "a limit needs an amount",
    "logging.file": "nothing is written into a file by default",
    "channels.deaf_after_s": "a connection that says nothing counts as broken after seconds instead of minutes",
    "channels.message_content": "a bot without the intent is kept from reading",
    "channels.ping_every_s": "the same on Slack",
    "channels.probe_idle_s": "the same on Discord",
    "context": "each stage of the context engine is reached with a short conversation",
    "llm.providers.prices": "what a call costs counts against a limit",
    "delivery.verbosity": "the next thing that a platform is sent is the answer, so that it meets the fault",
    "llm.failover": "other providers take over",
    "mcp": "servers of tools are configured",
    "memory": "each stage of the context engine is reached with a short conversation",
    "network.catch_up_max_age": "a message becomes too old within the test",
    "places": "places have rules of their own",
    "queue.merge_ms": "messages sent in one go are counted one by one, or wait together however slowly they come",
    "retention": "what is two days old is old within the test",
    "retry": "failures follow each other within the test",
    "scheduler": "a reminder is late within the test, and a time zone is set",
    "session": "memory shows a leak only where the number of agents in it stays the same",
    "skills": "a small window holds no catalogue of skills",
    "spending": "a limit needs an amount",
    "timeouts": "a silence ends within the test",
    "webhooks": "requests of another service come in",
    "tools.web": "a page on loopback may be fetched",
    "images": "pictures are made by a configured provider",
    "speech": "answers are read out by a configured provider",
    "transcription": "voices are transcribed by a configured provider",
}


# Such a configuration is taken as it is.
WHOLE: Mapping[str, str] = {
    "mistakes": "what is wrong in a configuration is told, so the configuration is wrong",
    "documentation": "what the pages show is in force, as they show it",
    "upgrade": "an installation of an earlier version goes on with the configuration that it had",
}


class NotAsShipped(AssertionError):
    """A configuration sets what the default install does not."""


def keys(section: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """The dotted names of all values; entries of a list of tables share one name."""
    for name, value in section.items():
        dotted = f"{path}.{name}" if path else name
        if isinstance(value, Mapping):
            yield from keys(value, dotted)
        elif isinstance(value, list) and value and all(isinstance(one, Mapping) for one in value):
            for one in value:
                yield from keys(one, dotted)
        else:
            yield dotted


def beyond(config: str) -> set[str]:
    """The settings of this configuration beyond the default install."""
    found = set(keys(tomllib.loads(config)))
    return {name for name in found if name.rpartition(".")[2] not in SHIPPED.get(name.rpartition(".")[0], ())}


def as_shipped(config: str, about: Set[str] = frozenset()) -> str:
    """The configuration as it is. Raises NotAsShipped where it sets anything beyond the install and `about`."""
    if unknown := about - set(UNDER_TEST) - set(WHOLE):
        raise NotAsShipped(f"{sorted(unknown)}: UNDER_TEST does not say why a test needs it")
    if about & set(WHOLE):
        return config
    found = beyond(config)
    if foreign := {name for name in found if not any(_covers(one, name) for one in about)}:
        raise NotAsShipped(f"sets {sorted(foreign)} beyond the default install")
    if unset := {one for one in about if not any(_covers(one, name) for name in found)}:
        raise NotAsShipped(f"is said to be about {sorted(unset)}, which it does not set")
    return config


def _covers(section: str, name: str) -> bool:
    return name == section or name.startswith(f"{section}.")
