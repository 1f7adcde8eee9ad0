"""Builds a release of the commit that is checked out, tries it, and tells what remains: `make release`.

The files come from the commit, not from the work tree. Nothing is tagged, uploaded or published. With --rehearse it
goes on although something is not ready yet; with --offline nothing is fetched: all must be in uv's cache.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from tools import sbom

ROOT = Path(__file__).parent.parent
SUMS = "SHA256SUMS"
LOCK = "requirements/run.lock"
TESTING = "packages/tieline-testing"  # for authors of adapters, in a version with this one
LEFT = """\
What remains, by hand:
  git tag --sign v{version} && git push --tags
  upload all of {folder}/ to the page of the release, with the section of CHANGELOG.md
  build the image of the tag: docker build -f deploy/Dockerfile -t tieline:{version} .
  begin a new section "## Unreleased" in CHANGELOG.md
  keep a database of this version for the tests of upgrades: python -m tests.upgrade.make (CONTRIBUTING.md)"""


class ReleaseError(Exception):
    """The release cannot be made; the text says why."""


def head_of(changelog: str) -> str:
    """The title of the newest section: a version, "Unreleased", or "" where there is none."""
    found = re.search(r"^## (\S+)", changelog, re.MULTILINE)
    return found[1] if found else ""


def unready(root: Path) -> Iterator[str]:
    """Reasons why the commit is none that may be released."""
    if run("git", "status", "--porcelain", cwd=root).strip():
        yield "the work tree holds changes that are not committed; they are not in the release"
    version = version_in(root)
    head = head_of((root / "CHANGELOG.md").read_text())
    if head != version:
        yield f"CHANGELOG.md begins with {head or 'no section'!r}, and pyproject.toml has version {version}"
    if run("git", "tag", "--list", f"v{version}", cwd=root).strip():
        yield f"there is a tag v{version} already"


def version_in(root: Path) -> str:
    """The version of the project."""
    return str(tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"])


def run(*command: str | Path, cwd: Path | None = None, environ: Mapping[str, str] | None = None) -> str:
    """The output of a command. Raises ReleaseError with what it said."""
    words = [str(part) for part in command]
    ran = subprocess.run(  # noqa: S603 - commands of this file
        words, cwd=cwd, env={**os.environ, **(environ or {})}, capture_output=True, check=False, text=True
    )
    if ran.returncode != 0:
        raise ReleaseError(f"`{' '.join(words)}` failed:\n{ran.stdout}{ran.stderr}".rstrip())
    return ran.stdout


def exported(root: Path, into: Path) -> Path:
    """The files of the commit that is checked out."""
    archive = into.with_suffix(".tar")
    run("git", "archive", "--output", archive, "HEAD", cwd=root)
    with tarfile.open(archive) as files:
        files.extractall(into, filter="data")
    return into


def built(source: Path, into: Path, moment: str, network: Mapping[str, str]) -> tuple[Path, Path, Path]:
    """Wheel and sdist, and the wheel of tieline-testing. The same commit gives the same bytes: files get its moment."""
    # Hatchling is asked for by pyproject.toml; uv takes it from its cache, where it is.
    environ = {**network, "SOURCE_DATE_EPOCH": moment}
    run(uv(), "build", "--quiet", "--out-dir", into, source, environ=environ)
    run(uv(), "build", "--quiet", "--wheel", "--out-dir", into, source / TESTING, environ=environ)
    (into / ".gitignore").unlink(missing_ok=True)  # uv's own
    (wheel,), (sdist,) = into.glob("tieline-*.whl"), into.glob("*.tar.gz")
    (testing,) = into.glob("tieline_testing-*.whl")
    return wheel, sdist, testing


def tried(wheel: Path, lock: Path, version: str, folder: Path, network: Mapping[str, str]) -> Path:
    """An environment with the locked packages and the wheel, in which the program answers; gives its site-packages."""
    environment, home = folder / "environment", folder / "home"
    python = environment / "bin" / "python"
    run(uv(), "venv", "--quiet", "--python", sys.executable, environment, environ=network)
    install = (uv(), "pip", "install", "--quiet", "--python", python)
    run(*install, "--require-hashes", "-r", lock, environ=network)
    run(*install, "--no-deps", wheel, environ=network)
    tieline = environment / "bin" / "tieline"
    said = run(tieline, "--version", cwd=folder)
    if not said.startswith(f"tieline {version} "):
        raise ReleaseError(f"the wheel says of itself: {said.strip()!r}, and it is to be {version}")
    run(tieline, "config", "check", "--home", home, cwd=folder)
    return Path(run(python, "-c", "import sysconfig; print(sysconfig.get_paths()['purelib'])", cwd=folder).strip())


def sums(folder: Path) -> str:
    """The file of sums, as `sha256sum --check` reads it."""
    files = sorted(path for path in folder.iterdir() if path.name != SUMS)
    return "".join(f"{sha256(path)}  {path.name}\n" for path in files)


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def uv() -> Path:
    """The uv of this environment. Raises ReleaseError where there is none."""
    beside = Path(sys.executable).with_name("uv")
    if not beside.exists():
        raise ReleaseError("uv is not installed beside this Python; `make setup` installs it")
    return beside


def release(root: Path, out: Path, *, offline: bool) -> Mapping[str, str]:
    """Build, try and describe it; `out` has all of the files then, or is as before. Gives their sums by name."""
    version, moment = version_in(root), run("git", "log", "-1", "--format=%ct", cwd=root).strip()
    network = {"UV_OFFLINE": "1"} if offline else {}
    with tempfile.TemporaryDirectory(prefix="tieline-release-") as folder:
        source = exported(root, Path(folder) / "source")
        dist = Path(folder) / "dist"
        wheel, sdist, testing = built(source, dist, moment, network)
        tell(f"built {wheel.name}, {sdist.name} and {testing.name}")
        packages = sbom.told(tried(wheel, source / LOCK, version, Path(folder), network))
        tell("the wheel was installed into an empty environment, and the program answers")
        document = sbom.bill(
            version,
            (source / LOCK).read_text(),
            packages,
            made_at=datetime.fromtimestamp(int(moment), UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            files={path.name: sha256(path) for path in (wheel, sdist)},
            licence=tomllib.loads((source / "pyproject.toml").read_text())["project"]["license"],
        )
        (dist / f"tieline-{version}.cdx.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
        unknown = ", ".join(sbom.without_licence(document))
        tell(f"listed {len(document['components'])} packages; licences not known here: {unknown or 'none'}")
        (dist / SUMS).write_text(sums(dist))
        out.mkdir(parents=True, exist_ok=True)
        for path in dist.iterdir():
            shutil.copy(path, out / path.name)
        return {path.name: sha256(path) for path in dist.iterdir()}


def tell(text: str) -> None:
    print(f"✓ {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build a release, try it, and tell what remains.")
    parser.add_argument("--rehearse", action="store_true", help="go on although the commit is none to be released")
    parser.add_argument("--offline", action="store_true", help="fetch nothing: all is in uv's cache")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="the folder of the files (dist)")
    options = parser.parse_args()
    try:
        problems = list(unready(ROOT))
        for problem in problems:
            print(f"! {problem}", flush=True)
        if problems and not options.rehearse:
            print("Not released: `make release REHEARSE=1` goes on all the same, to try the steps.")
            return 1
        made = release(ROOT, options.out, offline=options.offline)
    except ReleaseError as error:
        print(f"✗ {error}", file=sys.stderr)
        return 1
    for name, digest in sorted(made.items()):
        print(f"  {digest}  {name}")
    if options.rehearse:
        print("A rehearsal: these files are not the release.")
    else:
        print(LEFT.format(version=version_in(ROOT), folder=options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
