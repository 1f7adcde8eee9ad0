"""The library is loaded without the megabytes that only Telegram Passport and a command line need (DESIGN §11)."""

import subprocess
import sys

OPENED = """
import sys
from pathlib import Path
from adapters.telegram.loading import telegram_adapter
from adapters.telegram.settings import TelegramSettings
from agent.core.clock import SystemClock
from gateway.channels.adapter import Surroundings
async def no_places(channel_type):
    return []
surroundings = Surroundings(clock=SystemClock(), home=Path("."), known_places=no_places)
telegram_adapter(TelegramSettings(type="telegram", token="123456:TEST-token"), surroundings)
"""

APART = """
import threading
from adapters.telegram.loading import without
def load(failed):
    try:
        import colorsys
    except ModuleNotFoundError:
        failed.append(True)
with without("colorsys"):
    here, there = [], []
    load(here)
    thread = threading.Thread(target=load, args=[there])
    thread.start()
    thread.join()
afterwards = []
load(afterwards)
print(here, there, afterwards)
"""


def test_opening_an_account_loads_no_cryptography_and_no_command_line() -> None:
    script = (
        OPENED + "print([name for name in ('cryptography.hazmat.bindings', 'rich', 'pygments') if name in sys.modules])"
    )
    assert printed(script) == "[]"
    later = OPENED + "import cryptography.hazmat.backends, httpx._main; print('telegram' in sys.modules)"
    assert printed(later) == "True", "whoever needs them has them"


def test_what_is_left_out_is_left_out_for_one_thread_alone() -> None:
    assert printed(APART) == "[True] [] []"


def printed(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=110, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
