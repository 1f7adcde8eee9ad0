"""hermes-agent. Its Telegram adapter takes a base URL from the configuration."""

from collections.abc import Callable

from tests.bench.peers.driver import PEERS, Driver, Launch, Packages, Site

CONFIG = """\
model:
  default: gpt-double
  provider: custom
  base_url: {llm}/v1
  api_key: double
  context_length: 200000
auxiliary:
  title_generation:
    enabled: false
telegram:
  extra:
    base_url: {telegram}/bot
    base_file_url: {telegram}/file/bot
"""
ENVIRONMENT = {
    "TELEGRAM_ALLOW_ALL_USERS": "true",
    "GATEWAY_ALLOW_ALL_USERS": "true",
    "TELEGRAM_FALLBACK_IPS": "149.154.167.220",
    "HERMES_TELEGRAM_DISABLE_FALLBACK_IPS": "1",
}
NOTES = (
    "defaults except: title generation off (an extra model call per new conversation), fallback-IP discovery off, "
    "context length 200,000 declared, all users allowed"
)


def preparing(more: str = "") -> Callable[[Site], Launch]:
    """A function that prepares an installation with this at the end of its configuration."""

    def prepare(site: Site) -> Launch:
        home = site.home / ".hermes"
        config = home / "config.yaml"
        if not config.exists():
            home.mkdir()
            config.write_text(CONFIG.format(llm=site.llm, telegram=site.telegram) + more)
        environment = "".join(f"{name}={value}\n" for name, value in ENVIRONMENT.items())
        return Launch(
            argv=[str(PEERS / "hermes/bin/hermes"), "gateway", "run", "--no-supervise"],
            env={
                "HOME": str(site.home),
                "HERMES_HOME": str(home),
                "TELEGRAM_BOT_TOKEN": site.token,
                **ENVIRONMENT,
            },
            cwd=site.home,
            configuration=f"{config.read_text()}\n{environment}",
        )

    return prepare


def driver(name: str, notes: str, more: str = "") -> Driver:
    packages = Packages(PEERS / "hermes/bin/python", "hermes-agent")
    return Driver(name=name, notes=notes, packages=packages, prepare=preparing(more))


DRIVER = driver("hermes", NOTES)
