"""Bill of materials of a release: CycloneDX 1.6 as JSON, of the lock and of what is installed from it.

https://cyclonedx.org/docs/1.6/json/. Each package has the hashes that `pip install --require-hashes` accepts for it.
Pure, but for `told`.
"""

import hashlib
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

LONGEST_NAME = 60  # of a licence
_ENTRY = re.compile(
    r"^(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==(?P<version>\S+?)(?: ; (?P<marker>.+?))? \\$"
)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_OSI = "License :: OSI Approved :: "


@dataclass(frozen=True, slots=True, kw_only=True)
class Locked:
    """One package of the lock. `marker` tells where it is installed; "" is everywhere."""

    name: str
    version: str
    marker: str = ""
    hashes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The word of an installed package on itself: an SPDX expression or else a name, and the packages that it needs."""

    expression: str = ""
    licence: str = ""
    needs: frozenset[str] = field(default_factory=frozenset)


def normalised(name: str) -> str:
    """The name as the index spells it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked_in(lock: str) -> list[Locked]:
    """The packages of a lock, in its order. Raises ValueError for a line that is neither a package nor a hash."""
    found: list[Locked] = []
    hashes: list[str] = []
    for line in lock.splitlines():
        if entry := _ENTRY.match(line):
            hashes = []
            found.append(Locked(name=normalised(entry["name"]), version=entry["version"], marker=entry["marker"] or ""))
        elif hashed := _HASH.search(line):
            hashes.append(hashed[1])
            found[-1] = replace(found[-1], hashes=tuple(hashes))
        elif line.strip():
            raise ValueError(f"the lock holds a line that is no package: {line!r}")
    return found


def told(site_packages: Path) -> dict[str, Told]:
    """The word of each package that is installed there, by its name."""
    installed = {normalised(one.name): one for one in distributions(path=[str(site_packages)])}
    return {name: _told(one, installed) for name, one in installed.items()}


def _told(one: Distribution, installed: Iterable[str]) -> Told:
    metadata = one.metadata
    named = [name.removeprefix(_OSI) for name in metadata.get_all("Classifier", []) if name.startswith(_OSI)]
    (expression,) = metadata.get_all("License-Expression", [""])
    (written,) = metadata.get_all("License", [""])
    written = written.strip().partition("\n")[0]  # some put the whole text there
    if not written or len(written) > LONGEST_NAME:
        written = " or ".join(named)
    needs = {normalised(need.name) for need in map(Requirement, one.requires or ()) if _is_needed(need)}
    return Told(expression=expression, licence=written, needs=frozenset(needs & set(installed)))


def _is_needed(need: Requirement) -> bool:
    """Whether it is installed here, in an extra or not; an extra that nobody asked for is not."""
    return need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in ("", *_EXTRAS))


_EXTRAS = ("asyncio", "binary")  # of SQLAlchemy and psycopg, as `pyproject.toml` asks for them


def bill(
    version: str, lock: str, packages: Mapping[str, Told], *, made_at: str, files: Mapping[str, str], licence: str
) -> dict[str, Any]:
    """The whole document. `made_at` is ISO 8601; `files` are those of the release with their SHA-256."""
    locked = locked_in(lock)
    names = {one.name: _reference(one) for one in locked}
    root = f"pkg:generic/tieline@{version}"
    needs = {root: packages["tieline"].needs} if "tieline" in packages else {root: frozenset(names)}
    needs |= {names[one.name]: packages[one.name].needs for one in locked if one.name in packages}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, f'tieline {version} {_sha256(lock)}')}",
        "version": 1,
        "metadata": {
            "timestamp": made_at,
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": "tieline",
                "version": version,
                "licenses": [{"license": {"id": licence}}],
                "externalReferences": [_file(name, digest) for name, digest in sorted(files.items())],
            },
        },
        "components": [_component(one, packages.get(one.name)) for one in locked],
        "dependencies": [
            {"ref": reference, "dependsOn": sorted(names[name] for name in needed if name in names)}
            for reference, needed in sorted(needs.items())
        ],
    }


def _component(one: Locked, told: Told | None) -> dict[str, Any]:
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": _reference(one),
        "name": one.name,
        "version": one.version,
        "scope": "optional" if one.marker else "required",
        "licenses": _licences(told),
        "purl": _reference(one),
        "externalReferences": [
            {
                "type": "distribution",
                "url": _reference(one),  # whichever index has it
                "hashes": [{"alg": "SHA-256", "content": digest} for digest in one.hashes],
            }
        ],
        "properties": [{"name": "tieline:where", "value": one.marker}] if one.marker else [],
    }
    return {key: value for key, value in component.items() if value}


def _licences(told: Told | None) -> Sequence[Mapping[str, object]]:
    if told is not None and told.expression:
        return [{"expression": told.expression}]
    if told is not None and told.licence:
        return [{"license": {"name": told.licence}}]
    return []


def without_licence(document: Mapping[str, Any]) -> list[str]:
    """The names of packages whose licence is not known: mostly those that are not installed on this system."""
    return [one["name"] for one in document["components"] if "licenses" not in one]


def _file(name: str, digest: str) -> dict[str, Any]:
    return {"type": "distribution", "url": name, "hashes": [{"alg": "SHA-256", "content": digest}]}


def _reference(one: Locked) -> str:
    return f"pkg:pypi/{one.name}@{one.version}"


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
