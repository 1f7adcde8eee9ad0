"""A file is whole, or it is not there."""

from pathlib import Path

import anyio
import pytest

from gateway.channels.adapter import whole_or_nothing


async def test_a_whole_file_stays(tmp_path: Path) -> None:
    async with whole_or_nothing(tmp_path / "a"):
        (tmp_path / "a").write_bytes(b"whole")
    assert (tmp_path / "a").read_bytes() == b"whole"


async def test_half_a_file_goes(tmp_path: Path) -> None:
    async def write_half() -> None:
        async with whole_or_nothing(tmp_path / "a"):
            (tmp_path / "a").write_bytes(b"half")
            raise ConnectionError

    with pytest.raises(ConnectionError):
        await write_half()
    assert not (tmp_path / "a").exists()


async def test_it_goes_too_when_the_time_is_over(tmp_path: Path) -> None:
    with anyio.move_on_after(0.001):
        async with whole_or_nothing(tmp_path / "a"):
            (tmp_path / "a").write_bytes(b"half")
            await anyio.sleep_forever()
    assert not (tmp_path / "a").exists()


async def test_what_was_never_begun_is_no_trouble(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="too large"):
        async with whole_or_nothing(tmp_path / "a"):
            raise ValueError("too large")
