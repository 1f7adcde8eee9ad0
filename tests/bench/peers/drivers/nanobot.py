"""nanobot-ai. Telegram's base URL is not configurable: a wrapper gives python-telegram-bot another default."""

import json

from tests.bench.peers.driver import PEERS, STARTERS, Driver, Launch, Packages, Site

PYTHON = PEERS / "nanobot/bin/python"


def prepare(site: Site) -> Launch:
    config = site.home / ".nanobot" / "config.json"
    if not config.exists():
        defaults = {
            "workspace": str(site.home / "workspace"),
            "model": "gpt-double",
            "provider": "custom",
            "timezone": "UTC",
            "dream": {"enabled": False},
        }
        settings = {
            "agents": {"defaults": defaults},
            "providers": {"custom": {"apiKey": "double", "apiBase": f"{site.llm}/v1"}},
            "gateway": {"heartbeat": {"enabled": False}},
            "channels": {"telegram": {"enabled": True, "token": site.token, "allowFrom": ["*"]}},
        }
        config.parent.mkdir(parents=True)
        config.write_text(json.dumps(settings, indent=1))
    script = str(STARTERS / "nanobot_start.py")
    return Launch(
        argv=[str(PYTHON), script, "gateway", "--foreground", "--config", str(config)],
        env={"HOME": str(site.home), "BENCH_TELEGRAM": site.telegram},
        cwd=site.home,
        configuration=config.read_text(),
    )


DRIVER = Driver(
    name="nanobot",
    notes="defaults except: heartbeat and Dream off, provider `custom`, allowFrom `*`, "
    "python-telegram-bot's default base URL replaced by a wrapper",
    packages=Packages(PYTHON, "nanobot-ai"),
    prepare=prepare,
)
