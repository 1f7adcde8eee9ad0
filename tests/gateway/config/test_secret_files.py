"""Secrets in files: who else may read them, as each documented way of running a gateway brings them here."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway.config.errors import ConfigError
from gateway.config.read import read
from gateway.config.secret_files import Judgement, judged
from gateway.config.settings import Settings

NOBODY = 65534
is_root = pytest.mark.skipif(os.geteuid() != 0, reason="files of somebody else are made by root alone")


def written(path: Path, mode: int, text: str = "s3cret\n", *, owner: int = -1, group: int = -1) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.chown(path, owner, group)
    path.chmod(mode)
    return path


def reading(home: Path, data: Mapping[str, object]) -> Settings:
    return read(data, {}, home=home, source=None)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_a_file_for_its_owner_alone_is_taken(tmp_path: Path, mode: int) -> None:
    assert judged(written(tmp_path / "home" / "token", mode), "x", tmp_path / "home") == Judgement()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o620, 0o777])
@pytest.mark.parametrize("where", ["home/secrets/token", "elsewhere/token"])
def test_a_file_of_ours_that_others_may_read_is_refused_with_the_fix(tmp_path: Path, mode: int, where: str) -> None:
    path = written(tmp_path / where, mode)
    (tmp_path / "home").mkdir(exist_ok=True)
    said = f"others may read {path} (mode {mode:04o}); chmod 600 {path}"
    assert judged(path, "x", tmp_path / "home") == Judgement(refused=said)
    path.chmod(0o600)
    assert judged(path, "x", tmp_path / "home") == Judgement()


@is_root
def test_a_file_of_somebody_else_elsewhere_is_a_warning_at_most(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    theirs = written(tmp_path / "etc" / "token", 0o440, owner=NOBODY)
    assert judged(theirs, "x", home) == Judgement(), "readable by a group, as /etc/tieline may have it"
    theirs.chmod(0o444)
    found = judged(theirs, "x", home)
    assert not found.refused
    assert found.unsafe.startswith(f"everybody on this machine may read {theirs} (mode 0444)")
    ours_by_place = written(home / "secrets" / "token", 0o644, owner=NOBODY)
    assert judged(ours_by_place, "x", home).refused.endswith(f"chown 0 {ours_by_place} && chmod 600 {ours_by_place}")


def test_a_volume_of_kubernetes_may_be_of_its_group(tmp_path: Path) -> None:
    """With fsGroup, as deploy/kubernetes/tieline.yaml has it, each start makes files 0660 and folders set-group-ID."""
    path = written(tmp_path / "secrets" / "token", 0o660, group=os.getegid())
    assert judged(path, "x", tmp_path).refused
    path.parent.chmod(0o2770)
    assert judged(path, "x", tmp_path) == Judgement()
    path.chmod(0o664)
    assert judged(path, "x", tmp_path).refused


def test_credentials_of_systemd_are_taken_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "credentials" / "tieline.service" / "token", 0o440)
    assert judged(path, "x", tmp_path).refused
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(path.parent))
    assert judged(path, "x", tmp_path) == Judgement()
    assert judged(path, " \n", tmp_path).refused == f"{path} is empty; put the secret into it"


@pytest.mark.skipif(not os.access("/run", os.W_OK), reason="/run is root's")
def test_secrets_of_docker_are_taken_as_they_are(tmp_path: Path) -> None:
    folder = Path("/run/secrets")
    if folder.exists():
        pytest.skip("there are secrets here")
    folder.mkdir()
    try:
        path = written(folder / "token", 0o444)
        link = tmp_path / "token"
        link.symlink_to(path)
        assert judged(path, "x", tmp_path) == judged(link, "x", tmp_path) == Judgement()
    finally:
        for left in folder.iterdir():
            left.unlink()
        folder.rmdir()


@pytest.mark.parametrize(
    ("key", "data"),
    [
        ("web.metrics_token", {"web": {"metrics_token": "file:x"}}),
        ("llm.providers[0].api_key", {"llm": {"providers": [{"name": "a", "api_key": "file:x"}]}}),
        ("llm.providers[0].api_keys[1]", {"llm": {"providers": [{"name": "a", "api_keys": ["a", "file:x"]}]}}),
        ("mcp.servers[0].env.KEY", {"mcp": {"servers": [{"name": "a", "command": "a", "env": {"KEY": "file:x"}}]}}),
        ("channels[0].token", {"channels": [{"type": "telegram", "token": "file:x"}]}),
        ("agent.instructions", {"agent": {"instructions": "file:secrets/x"}}),
    ],
)
def test_keys_of_secrets_are_known(tmp_path: Path, key: str, data: Mapping[str, object]) -> None:
    written(tmp_path / "x", 0o644)
    written(tmp_path / "secrets" / "x", 0o644)
    with pytest.raises(ConfigError) as raised:
        reading(tmp_path, data)
    assert any(said.startswith(f"{key}: others may read {tmp_path}") for said in raised.value.mistakes)
    written(tmp_path / "x", 0o600, "")
    written(tmp_path / "secrets" / "x", 0o600, " \n")
    with pytest.raises(ConfigError) as raised:
        reading(tmp_path, data)
    assert any(said.startswith(f"{key}: ") and "is empty" in said for said in raised.value.mistakes)


def test_what_is_no_secret_may_be_read_by_all(tmp_path: Path) -> None:
    written(tmp_path / "place", 0o644, "https://chat.example.org")
    assert reading(tmp_path, {"web": {"public_url": "file:place"}}).web.public_url == "https://chat.example.org"


@is_root
def test_a_warning_stands_among_those_of_the_configuration(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    path = written(tmp_path / "token", 0o644, owner=NOBODY)
    found = reading(home, {"web": {"metrics_token": f"file:{path}"}})
    assert [one.partition(" (")[0] for one in found.warnings] == [
        f"web.metrics_token: everybody on this machine may read {path}"
    ]
