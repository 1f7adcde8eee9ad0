"""The floor and what measures it are frozen."""

from hashlib import sha256
from pathlib import Path

import pytest

PEERS = Path(__file__).parent / "peers"
FROZEN = {
    "starters/floor_bot.py": "ed4416b89add3ff74db87cc2159b4928cad098328aafb49899361a02aa7e4653",
    "drivers/floor.py": "502aadc9115b4184d891a03d07a40d76da5a5756c3b5daefdd16aa1b9288bdfa",
    "process.py": "5d7833d6e69b41823a19b4cc8b0a5ef76ab389e768c438ba13bbb9ae324d3dbb",
    "rig.py": "5bf2ed80df40f274b3da0c836f74aea4bbcf8f3d772c2f1e3272fc933c0c576e",
    "doubles.py": "6d97987ffaeee7a52e69ed28cd21910ef056fad76d998649b639cf3775a2f715",
    "performance.py": "334041680c6b28134f0a343973e3f0311c0d2efc74d7fd8c0765d4523a44e868",
}


@pytest.mark.parametrize("name", FROZEN)
def test_the_floor_and_its_measure_are_as_they_were(name: str) -> None:
    """Budgets are multiples of the floor, so a slower floor would look like a faster gateway.

    Frozen are the bot, what starts it, and the modules that count its CPU: a change of any of them moves every multiple
    in docs/performance.md without a line of the product having changed. Who changes one on purpose does it in a commit
    of its own, sets the hash here, and measures everything again; figures from before cannot be compared with it.
    The doubles in tests/doubles are not frozen: they follow the platforms.
    """
    found = sha256((PEERS / name).read_bytes()).hexdigest()
    assert found == FROZEN[name], f"{name} is frozen; its hash is {found} now"


def test_every_module_that_counts_the_floor_is_frozen() -> None:
    unfrozen = {"__init__.py", "driver.py", "install.py", "robustness.py"}  # start others, or count nothing
    assert {path.name for path in PEERS.glob("*.py")} == unfrozen | {name for name in FROZEN if "/" not in name}
