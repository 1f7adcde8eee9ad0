"""The image of deploy/Dockerfile, built and run by Podman: without an engine, and without a registry of images.

The base is made of Debian's packages. Containers are run as the service of deploy/compose.yaml says, but for the
network: they share that of the machine, so that the doubles are reached, and listen on loopback.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.deploy.files import Compose, Dockerfile

DEPLOY = Path(__file__).parents[2] / "deploy"
NEEDED = ("podman", "crun", "mmdebstrap", "unshare")
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
# As Debian's own slim images leave it out.
SLIM = [f"/usr/share/{folder}/*" for folder in ("doc", "info", "linda", "lintian", "locale", "man")]
WITHOUT_ENGINE = """
umount -R /sys/fs/cgroup 2>/dev/null; mount -t cgroup2 none /sys/fs/cgroup; exec "$@"
"""


def missing() -> str:
    """The tools and rights that this machine lacks to build and run an image; empty when it has all."""
    if os.geteuid() != 0:
        return "images are built and run as root here"
    absent = [name for name in NEEDED if shutil.which(name) is None]
    return f"needs {', '.join(absent)} (apt-get install podman crun mmdebstrap)" if absent else ""


@dataclass(frozen=True, slots=True)
class Podman:
    """A store of images and containers in a folder of its own; one that is kept saves the next run its fetching."""

    folder: Path
    is_kept: bool = False

    def words(self, *args: str) -> list[str]:
        """The command; in a namespace with cgroups of version 2 where the machine has those of version 1."""
        stores = ["--root", str(self.folder / "images"), "--runroot", str(self.folder / "running")]
        command = ["podman", *stores, "--runtime", "crun", *args]
        if Path("/sys/fs/cgroup/cgroup.controllers").exists():
            return command
        return ["unshare", "--mount", "sh", "-c", WITHOUT_ENGINE, "sh", *command]

    def call(self, *args: str, timeout: float = 1_200.0, check: bool = True) -> str:
        """Run it; gives both of its streams. Raises AssertionError when it fails, unless `check` is off."""
        ran = subprocess.run(
            self.words(*args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout, check=False
        )
        said = "\n".join(line for line in ran.stdout.splitlines() if "systemd connection" not in line)
        assert not check or ran.returncode == 0, f"podman {' '.join(args[:3])}: {ran.returncode}\n{said[-4_000:]}"
        return said

    def make_base(self, name: str) -> float:
        """Make the base image of this name (`debian:SUITE-slim`) of Debian's packages. Gives the seconds it took."""
        began, archive = time.monotonic(), self.folder / "base.tar"
        if (
            self.call("image", "exists", f"docker.io/library/{name}", check=False) == ""
            and archive.with_suffix("").exists()
        ):
            return 0.0
        suite = name.partition(":")[2].removesuffix("-slim")
        options = [f"--dpkgopt=path-exclude={pattern}" for pattern in SLIM]
        made = subprocess.run(
            ["mmdebstrap", "--quiet", "--variant=minbase", *options, suite, str(archive)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert made.returncode == 0, made.stdout[-4_000:]
        self.call("import", str(archive), f"docker.io/library/{name}")
        archive.unlink()
        archive.with_suffix("").touch()
        return time.monotonic() - began

    def build(self, tag: str, source: Path, **arguments: str) -> float:
        """Build deploy/Dockerfile of a source tree. Gives the seconds it took."""
        began = time.monotonic()
        mounts: list[str] = []
        if AUTHORITIES.exists():  # a proxy with an authority of its own may stand before the package indexes
            settings = self.folder / "pip.conf"
            settings.write_text("[global]\ncert = /etc/authorities.crt\n")
            mounts = ["-v", f"{AUTHORITIES}:/etc/authorities.crt:ro", "-v", f"{settings}:/etc/pip.conf:ro"]
        given = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
        self.call(
            "build", "--isolation", "chroot", "--network", "host", "--format", "docker", "--pull=never", *mounts,
            *given, "-t", tag, "-f", str(source / "deploy" / "Dockerfile"), str(source),
        )  # fmt: skip
        return time.monotonic() - began

    def size(self, tag: str) -> int:
        """Bytes of the image, unpacked."""
        return int(json.loads(self.call("image", "inspect", tag))[0]["Size"])

    def end(self) -> None:
        """Remove all containers, and the images unless they are kept."""
        self.call("rm", "--all", "--force", "--time", "5", check=False)
        if not self.is_kept:
            self.call("rmi", "--all", "--force", check=False)
            shutil.rmtree(self.folder, ignore_errors=True)


def as_composed(compose: Compose, *, home: Path, port: int, without: Sequence[str] = ()) -> list[str]:
    """Options of `podman run` for the service; `without` names security options that are left out."""
    service = compose.services["tieline"]
    options = ["--network", "host", "--cgroups", "disabled", "-v", f"{home}:{Dockerfile.read().volume}"]
    options += [
        "--ulimit",
        "nofile=1024:4096",
        "--ulimit",
        "nproc=4096:4096",
    ]  # more than the machine allows is refused
    if service.get("read_only"):
        options += ["--read-only", "--read-only-tmpfs=false"]
    options += [word for one in service.get("tmpfs", ()) for word in ("--tmpfs", one)]
    options += [word for one in service.get("cap_drop", ()) for word in ("--cap-drop", one)]
    for option in service.get("security_opt", ()):
        if option not in without:
            options += ["--security-opt", _for_podman(option)]
    environment = {**compose.environment("tieline"), "TIELINE__WEB__HOST": "127.0.0.1", "TIELINE__WEB__PORT": str(port)}
    return [*options, *(word for name, value in environment.items() for word in ("--env", f"{name}={value}"))]


def _for_podman(option: str) -> str:
    """A security option of Docker in the words of Podman."""
    known: Mapping[str, str] = {
        "no-new-privileges:true": "no-new-privileges",
        "systempaths=unconfined": "unmask=ALL",
        "seccomp=seccomp.json": f"seccomp={DEPLOY / 'seccomp.json'}",
    }
    return known.get(option, option)
