"""astrbot. Telegram's base URL and the model's are both configuration."""

import json
from collections.abc import Callable
from typing import Any

from tests.bench.peers.driver import PEERS, Driver, Launch, Packages, Site

NOTES = (
    "defaults except: its own limit of 30 messages a minute per session raised (it stalls), metrics off, "
    "dashboard on loopback, context window 200,000 declared, private chats allowed by an empty white list"
)


def settings(site: Site, more: dict[str, Any]) -> dict[str, Any]:
    source = {
        "id": "double",
        "provider": "openai",
        "type": "openai_chat_completion",
        "provider_type": "chat_completion",
        "enable": True,
        "key": ["double"],
        "api_base": f"{site.llm}/v1",
        "timeout": 120,
        "proxy": "",
        "custom_headers": {},
    }
    model = {
        "id": "double/gpt-double",
        "enable": True,
        "provider_source_id": "double",
        "model": "gpt-double",
        "modalities": ["text", "tool_use"],
        "custom_extra_body": {},
        "max_context_tokens": 200_000,
    }
    telegram = {
        "id": "telegram",
        "type": "telegram",
        "enable": True,
        "telegram_token": site.token,
        "start_message": "Hello",
        "telegram_api_base_url": f"{site.telegram}/bot",
        "telegram_file_base_url": f"{site.telegram}/file/bot",
        "telegram_command_register": True,
        "telegram_command_auto_refresh": True,
        "telegram_command_register_interval": 300,
    }
    return {
        "config_version": 5,
        "platform": [telegram],
        "provider_sources": [source],
        "provider": [model],
        "disable_metrics": True,
        "platform_settings": {"rate_limit": {"time": 60, "count": 1_000_000, "strategy": "stall"}},
        "provider_settings": {"default_provider_id": model["id"], **more},
        "timezone": "UTC",
        "dashboard": {"enable": True, "host": "127.0.0.1", "port": site.port},
    }


def preparing(more: dict[str, Any]) -> Callable[[Site], Launch]:
    """A function that prepares an installation with these provider settings."""

    def prepare(site: Site) -> Launch:
        data = site.home / "data"
        asked = json.dumps(settings(site, more), indent=1)
        if not data.exists():
            (site.home / ".astrbot").touch()
            for name in ("config", "plugins", "temp"):
                (data / name).mkdir(parents=True)
            (data / "cmd_config.json").write_text(asked, encoding="utf-8-sig")
        return Launch(
            argv=[str(PEERS / "astrbot/bin/astrbot"), "run"],
            env={"HOME": str(site.home), "ASTRBOT_ROOT": str(site.home), "DISABLE_METRICS": "1", "TZ": "UTC"},
            cwd=site.home,
            configuration=asked,  # the program completes the file with all its defaults
        )

    return prepare


def driver(name: str, notes: str, more: dict[str, Any]) -> Driver:
    packages = Packages(PEERS / "astrbot/bin/python", "AstrBot")
    return Driver(name=name, notes=notes, packages=packages, prepare=preparing(more))


DRIVER = driver("astrbot", NOTES, {})
