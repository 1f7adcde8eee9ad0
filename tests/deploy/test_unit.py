"""The unit is started by a real systemd, which is process 1 of a container that holds the image's program.

So is each option that the unit leaves out for the sandbox: a table of docs/deploying.md says what these do.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deploy.files import DEPLOY, Unit
from tests.deploy.podman import Podman, missing
from tests.deploy.test_deploy import MOST_EXPOSED
from tests.program.doubles import free_port

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1_800),
    pytest.mark.skipif(bool(missing()), reason=missing() or "nothing is missing"),
]

# Units that would change the machine itself, or wait for what a container does not have.
MASKED = """
    systemd-sysctl.service systemd-udevd.service systemd-udev-trigger.service systemd-binfmt.service
    systemd-modules-load.service systemd-remount-fs.service systemd-random-seed.service
    systemd-tmpfiles-setup-dev.service systemd-tmpfiles-setup-dev-early.service proc-sys-fs-binfmt_misc.automount
    dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount
    sys-kernel-config.mount systemd-networkd-wait-online.service systemd-logind.service console-getty.service
    getty.target apt-daily.timer apt-daily-upgrade.timer
"""
IMAGE = f"""
FROM localhost/tieline
USER 0:0
RUN apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd-sysv dbus
RUN usermod --home /var/lib/tieline tieline && systemctl mask {" ".join(MASKED.split())}
"""
NAME = "tieline-systemd"
HOME = f"/var/lib/{Unit().service('StateDirectory')}"
UNIT = DEPLOY / "systemd" / "tieline.service"


class Systemd:
    """A machine of its own, as far as systemd sees it."""

    def __init__(self, podman: Podman) -> None:
        self._podman = podman

    def run(self, *words: str, check: bool = True) -> str:
        return self._podman.call("exec", "--user", "0:0", NAME, *words, check=check, timeout=120)

    def write(self, path: str, text: str) -> None:
        self.run("python3", "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])", path, text)

    def show(self, key: str) -> str:
        return self.run("systemctl", "show", "--value", "--property", key, "tieline").strip()

    def waits(self, key: str, value: str, *, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while self.show(key) != value:
            assert time.monotonic() < end, f"{key} is {self.show(key)}, not {value}:\n{self.log('tieline')}"
            time.sleep(0.2)

    def has_begun(self, *, seconds: float = 60.0) -> None:
        end = time.monotonic() + seconds
        while (said := self.run("systemctl", "is-system-running", check=False).strip()) not in ("running", "degraded"):
            assert time.monotonic() < end, said
            time.sleep(0.2)

    def log(self, unit: str) -> str:
        return self.run("journalctl", "--boot", "--no-pager", "--output", "cat", "--unit", unit)

    def logged(self, words: str, *, seconds: float = 60.0) -> str:
        """The log once it holds these words."""
        end = time.monotonic() + seconds
        while words not in (log := self.log("tieline")):
            assert time.monotonic() < end, f"no {words!r} in:\n{log}"
            time.sleep(0.2)
        return log


@pytest.fixture(scope="module")
def systemd(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Systemd]:
    folder: Path = tmp_path_factory.mktemp("systemd")
    (folder / "Dockerfile").write_text(IMAGE)
    podman.call("build", "--isolation", "chroot", "--network", "host", "--pull=never", "-t", NAME, str(folder))
    podman.call("rm", "--force", NAME, check=False)
    podman.call(
        "run", "--detach", "--name", NAME, "--privileged", "--network", "host", "--cgroups", "disabled",
        "--ulimit", "nofile=1024:4096", "--ulimit", "nproc=4096:4096", "--systemd=false", "--tmpfs", "/run",
        "--tmpfs", "/tmp", "-v", "/sys/fs/cgroup:/sys/fs/cgroup:rw", "--env", "container=podman",
        "--entrypoint", "/lib/systemd/systemd", NAME,
    )  # fmt: skip
    try:
        made = Systemd(podman)
        made.has_begun()
        made.write("/etc/tieline.env", f"TIELINE__WEB__PORT={free_port()}\n")
        made.write("/etc/systemd/system/tieline.service", UNIT.read_text())
        made.run("systemctl", "daemon-reload")
        yield made
    finally:
        podman.call("rm", "--force", "--time", "1", NAME, check=False)


def test_the_unit_runs_the_program_with_its_sandbox_and_gives_up_on_a_mistake(systemd: Systemd) -> None:
    systemd.run("systemctl", "start", "tieline")
    log = systemd.logged("Stop with Ctrl-C")
    assert "there is no shell tool" not in log
    exposure = systemd.run("systemd-analyze", "security", "--no-pager", "tieline").splitlines()[-1]
    assert float(exposure.partition("tieline.service: ")[2].split()[0]) <= MOST_EXPOSED
    print(f"\n{exposure}")
    systemd.run("systemctl", "stop", "tieline")
    assert (systemd.show("Result"), systemd.show("ExecMainStatus")) == ("success", "0")

    systemd.write(f"{HOME}/gateway.toml", "[nonsense]\nkey = 1\n")
    systemd.run("systemctl", "start", "tieline", check=False)
    systemd.waits("ExecMainStatus", "78")
    systemd.waits("ActiveState", "failed")
    assert systemd.show("NRestarts") == "0"
    systemd.run("rm", f"{HOME}/gateway.toml")


def doctor_with(systemd: Systemd, name: str, *options: str) -> str:
    """The words of `tieline doctor` on the shell, called in the unit with these options added."""
    lines = [
        line for line in UNIT.read_text().partition("[Install]")[0].splitlines() if line.partition("=")[0] not in _OURS
    ]
    probe = ["Type=oneshot", "ExecStart=/opt/tieline/bin/tieline doctor --offline", *options]
    systemd.write(f"/run/systemd/system/{name}.service", "\n".join([*lines, *probe, ""]))
    systemd.run("systemctl", "daemon-reload")
    systemd.run("systemctl", "start", name)
    systemd.run("journalctl", "--sync")
    return next((line for line in systemd.log(name).splitlines() if "shell: " in line), "")


_OURS = ("Type", "ExecStart", "Restart")


def test_doctor_in_the_unit_finds_the_sandbox_at_work(systemd: Systemd) -> None:
    assert doctor_with(systemd, "as-shipped") == "✓ shell: commands run in bubblewrap"


@pytest.mark.parametrize(
    ("option", "says"),
    [
        pytest.param("ProtectKernelTunables=yes", "Can't mount proc"),
        pytest.param("ProtectKernelLogs=yes", "Can't mount proc"),
        pytest.param("ProcSubset=pid", "Can't read /proc/sys/kernel"),
        pytest.param("ProtectHostname=yes", "Can't set hostname"),
        pytest.param("RestrictSUIDSGID=yes", "Function not implemented"),
        pytest.param("RestrictNamespaces=yes", "No permissions to create a new namespace"),
        pytest.param("SystemCallFilter=~@mount", "Operation not permitted"),
        pytest.param("RestrictAddressFamilies=~AF_NETLINK", "NETLINK_ROUTE"),
    ],
)
def test_each_option_that_is_left_out_ends_the_sandbox(systemd: Systemd, option: str, says: str) -> None:
    name = option.partition("=")[0].lower()
    said = doctor_with(systemd, name, option)
    assert said.startswith("! shell: bubblewrap does not work here (bwrap: "), said
    assert says in said
