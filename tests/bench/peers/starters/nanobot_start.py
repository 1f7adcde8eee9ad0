"""Start nanobot with python-telegram-bot pointed at the double; nothing else is changed.

Runs in nanobot's own environment: what it imports is not installed in ours, so it is imported by name.
"""

import importlib
import os
from typing import Any


def main() -> None:
    run = importlib.import_module("nanobot.cli.entry").main
    builder: Any = importlib.import_module("telegram.ext").ApplicationBuilder
    original = builder.__init__
    base = os.environ["BENCH_TELEGRAM"]

    def on_the_double(self: Any) -> None:
        original(self)
        self.base_url(f"{base}/bot").base_file_url(f"{base}/file/bot")

    builder.__init__ = on_the_double
    run()


if __name__ == "__main__":
    main()
