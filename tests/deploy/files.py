"""The files of deploy/, read into values: no text is compared that has a structure."""

import json
import shlex
from collections.abc import Mapping, Sequence
from configparser import ConfigParser
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


@dataclass(frozen=True)
class Dockerfile:
    """Instructions in order: their name in upper case, and the rest of the line."""

    instructions: Sequence[tuple[str, str]]

    @classmethod
    def read(cls, path: Path = DEPLOY / "Dockerfile") -> "Dockerfile":
        lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
        whole = "\n".join(lines).replace("\\\n", " ")
        return cls(
            [
                (name.upper(), rest.strip())
                for name, _, rest in (one.partition(" ") for one in whole.split("\n"))
                if name
            ]
        )

    def all(self, name: str) -> list[str]:
        return [rest for one, rest in self.instructions if one == name]

    def one(self, name: str) -> str:
        (found,) = self.all(name)
        return found

    @cached_property
    def stages(self) -> list["Dockerfile"]:
        """Each with its own FROM first; what stands before the first one is left out."""
        begins = [number for number, (name, _) in enumerate(self.instructions) if name == "FROM"]
        return [
            Dockerfile(self.instructions[begin:end])
            for begin, end in zip(begins, [*begins[1:], len(self.instructions)], strict=True)
        ]

    @property
    def final(self) -> "Dockerfile":
        return self.stages[-1]

    @property
    def arguments(self) -> dict[str, str]:
        """Build arguments with their defaults."""
        return {name: value for name, _, value in (one.partition("=") for one in self.all("ARG"))}

    @property
    def environment(self) -> dict[str, str]:
        pairs = (word.partition("=") for line in self.all("ENV") for word in shlex.split(line))
        return {name: value for name, _, value in pairs}

    @property
    def volume(self) -> str:
        return self.final.one("VOLUME")

    @property
    def health_check(self) -> list[str]:
        """The words of its command."""
        words: list[str] = json.loads(self.final.one("HEALTHCHECK").partition("CMD ")[2])
        return words

    @property
    def commands(self) -> list[list[str]]:
        """The simple commands of all RUN lines, as words."""
        parts = (part for line in self.all("RUN") for part in line.replace(" ; ", " && ").split("&&"))
        return [shlex.split(part) for part in parts]

    @property
    def packages(self) -> set[str]:
        """Debian packages that are installed."""
        found = [words[2:] for words in self.commands if words[:2] == ["apt-get", "install"]]
        return {word for words in found for word in words if not word.startswith("-")}

    @property
    def copied(self) -> set[str]:
        """Paths of the source that are copied in."""
        lines = (shlex.split(line) for line in self.all("COPY"))
        return {path for words in lines if not words[0].startswith("--from") for path in words[:-1]}


@dataclass(frozen=True)
class Compose:
    """deploy/compose.yaml."""

    content: Mapping[str, Any]

    @classmethod
    def read(cls, path: Path = DEPLOY / "compose.yaml") -> "Compose":
        return cls(yaml.safe_load(path.read_text()))

    @property
    def services(self) -> Mapping[str, Mapping[str, Any]]:
        found: Mapping[str, Mapping[str, Any]] = self.content["services"]
        return found

    def environment(self, service: str) -> dict[str, str]:
        """Variables that are set in the file."""
        return {name: value for name, value in self.services[service]["environment"].items() if value is not None}

    def handed_on(self, service: str) -> set[str]:
        """Variables that are passed through from outside."""
        return {name for name, value in self.services[service]["environment"].items() if value is None}


@dataclass(frozen=True)
class Manifest:
    """deploy/kubernetes/tieline.yaml."""

    documents: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, path: Path = DEPLOY / "kubernetes" / "tieline.yaml") -> "Manifest":
        return cls(list(yaml.safe_load_all(path.read_text())))

    def kind(self, kind: str) -> Mapping[str, Any]:
        (found,) = [one for one in self.documents if one["kind"] == kind]
        return found

    @property
    def pod(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.kind("Deployment")["spec"]["template"]["spec"]
        return found

    @property
    def container(self) -> Mapping[str, Any]:
        (found,) = self.pod["containers"]
        container: Mapping[str, Any] = found
        return container

    @property
    def environment(self) -> dict[str, str]:
        return {one["name"]: one["value"] for one in self.container["env"]}

    @property
    def mounts(self) -> dict[str, Mapping[str, Any]]:
        """By the name of the volume."""
        return {one["name"]: one for one in self.container["volumeMounts"]}


CLUSTER = DEPLOY / "kubernetes" / "cluster"


@dataclass(frozen=True)
class Kustomization:
    """deploy/kubernetes/cluster: its documents as Kustomize renders them, as far as it is made use of there."""

    content: Mapping[str, Any]
    documents: Sequence[Mapping[str, Any]]

    @classmethod
    def read(cls, folder: Path = CLUSTER) -> "Kustomization":
        content = yaml.safe_load((folder / "kustomization.yaml").read_text())
        (patch,) = content["patches"]
        assert patch["target"] == {"kind": "Deployment"}, "each of them gets it"
        process = yaml.safe_load((folder / patch["path"]).read_text())
        del process["metadata"]  # the name of none
        written = [one for name in content["resources"] for one in yaml.safe_load_all((folder / name).read_text())]
        return cls(content, [merged(one, process) if one["kind"] == "Deployment" else one for one in written])

    @property
    def files(self) -> set[str]:
        """The files that it names."""
        generated = (name for one in self.content["configMapGenerator"] for name in one["files"])
        return {*self.content["resources"], *(one["path"] for one in self.content["patches"]), *generated}

    def all(self, kind: str) -> list[Mapping[str, Any]]:
        return [one for one in self.documents if one["kind"] == kind]

    def named(self, kind: str, name: str) -> Mapping[str, Any]:
        (found,) = [one for one in self.all(kind) if one["metadata"]["name"] == name]
        return found

    @property
    def manifests(self) -> dict[str, Manifest]:
        """Each Deployment, by its role."""
        labels = [one["spec"]["template"]["metadata"]["labels"] for one in self.all("Deployment")]
        return {one["role"]: Manifest([each]) for one, each in zip(labels, self.all("Deployment"), strict=True)}


def merged(document: Any, patch: Any) -> Any:
    """The document with a strategic merge patch; of lists only that of the containers is in both, which has names."""
    if isinstance(document, Mapping) and isinstance(patch, Mapping):
        both = {name: merged(value, patch[name]) for name, value in document.items() if name in patch}
        return {**document, **patch, **both}
    if isinstance(document, list) and isinstance(patch, list):
        names = {one["name"]: one for one in patch}
        assert {one["name"] for one in document} == names.keys(), "lists of different things are not merged here"
        return [merged(one, names[one["name"]]) for one in document]
    return patch


class Unit:
    """deploy/systemd/tieline.service. A key that stands there twice is refused."""

    def __init__(self, path: Path = DEPLOY / "systemd" / "tieline.service") -> None:
        self._parser = ConfigParser(interpolation=None, delimiters=("=",), strict=True)
        self._parser.optionxform = str  # type: ignore[assignment, method-assign]
        self._parser.read(path)

    def service(self, key: str) -> str:
        return self._parser["Service"].get(key, "")

    @property
    def environment(self) -> dict[str, str]:
        pairs = (word.partition("=") for word in shlex.split(self.service("Environment")))
        return {name: value for name, _, value in pairs}

    @property
    def set(self) -> dict[str, str]:
        return dict(self._parser["Service"])
