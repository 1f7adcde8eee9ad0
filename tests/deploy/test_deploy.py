"""The files of deploy/ say what the program does: ports, paths, users, probes, environment, times, packages."""

import ast
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
import yaml
from starlette.requests import Request

from agent.core.phrases import NAME
from agent.tools.shell.shell import trouble_with
from gateway import app
from gateway.cli.options import MISCONFIGURED
from gateway.config.read import load, read
from gateway.config.sections import WebSettings
from gateway.dispatch.dispatcher import Timing
from gateway.services import DELIVER_WITHIN_S
from gateway.web.health import HealthPages
from gateway.web.request_checks import host_allowed, own_hosts
from tests.deploy.files import DEPLOY, ROOT, Compose, Dockerfile, Manifest, Unit
from tests.program.running import Program

PORT = WebSettings().port
ENDS_WITHIN_S = app.DRAIN_S + Timing().last_grace + DELIVER_WITHIN_S  # without what takes no time
FROM_OUTSIDE = {"ANTHROPIC_API_KEY", "OPENAI_API_KEY"}  # used by the program without any configuration

image, compose, manifest, unit = Dockerfile.read(), Compose.read(), Manifest.read(), Unit()
project = tomllib.loads((ROOT / "pyproject.toml").read_text())
service = compose.services["tieline"]
containers_page, deploying_page = (
    ROOT.joinpath("docs", f"{name}.md").read_text() for name in ("containers", "deploying")
)


def seconds(text: str) -> float:
    assert text.endswith("s"), text
    return float(text.removesuffix("s"))


def pages(*names: str) -> str:
    return "\n".join((ROOT / "docs" / f"{name}.md").read_text() for name in names)


# Ports


@pytest.mark.requirement("G-41")
def test_everybody_means_the_port_that_the_program_has() -> None:
    assert image.final.one("EXPOSE") == str(PORT)
    assert image.final.environment["TIELINE__WEB__PORT"] == str(PORT)
    assert service["ports"] == [f"127.0.0.1:{PORT}:{PORT}"]
    (port,) = manifest.container["ports"]
    (published,) = manifest.kind("Service")["spec"]["ports"]
    assert (port["containerPort"], published["targetPort"]) == (PORT, port["name"])
    local, composed = (
        yaml.safe_load((DEPLOY / "prometheus" / name).read_text()) for name in ("prometheus.yml", "compose.yml")
    )
    assert local["scrape_configs"][0]["static_configs"] == [{"targets": [f"127.0.0.1:{PORT}"]}]
    assert composed["scrape_configs"][0]["dns_sd_configs"] == [{"names": ["tieline"], "type": "A", "port": PORT}]
    assert set(re.findall(r"127\.0\.0\.1:(\d+)", pages("containers", "deploying"))) == {str(PORT), "9090"}


@pytest.mark.parametrize("name", compose.services)
def test_nothing_is_published_beyond_the_host(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in compose.services[name].get("ports", ()))


def test_prometheus_calls_the_gateway_by_a_name_that_it_answers_to() -> None:
    settings = read({}, compose.environment("tieline"), home=Path("/data"), source=None).web
    hosts = own_hosts(settings, PORT)
    assert host_allowed(f"172.18.0.2:{PORT}", settings, hosts)
    assert not host_allowed(f"tieline:{PORT}", settings, hosts), "else a static target would do"


# Paths and users


def test_the_data_directory_is_one_and_the_user_s_own() -> None:
    home = image.final.environment["TIELINE_HOME"]
    assert home == image.volume == image.final.one("WORKDIR") == manifest.mounts["data"]["mountPath"]
    assert service["volumes"] == [f"tieline:{home}"]
    (made,) = [words for words in image.final.commands if words[0] == "install"]
    assert made == ["install", "-d", "-o", "tieline", "-g", "tieline", "-m", "0700", home]
    (user,) = [words for words in image.final.commands if words[0] == "useradd"]
    assert user[user.index("--home-dir") + 1] == home


def test_the_user_is_the_same_everywhere_and_not_root() -> None:
    uid, gid = image.final.one("USER").split(":")
    named = {words[0]: words for words in image.final.commands if words[0] in ("useradd", "groupadd")}
    assert named["useradd"][named["useradd"].index("--uid") + 1] == uid != "0"
    assert named["groupadd"][named["groupadd"].index("--gid") + 1] == gid
    assert named["useradd"][named["useradd"].index("--gid") + 1] == named["groupadd"][-1]
    pod = manifest.pod["securityContext"]
    assert (pod["runAsUser"], pod["runAsGroup"], pod["fsGroup"]) == (int(uid), int(gid), int(gid))
    assert pod["runAsNonRoot"] is True
    assert f"user {uid}" in containers_page
    assert f"USER {uid}:{gid}" in containers_page


def test_the_unit_keeps_everything_in_the_directory_that_is_its_own() -> None:
    home = f"/var/lib/{unit.service('StateDirectory')}"
    assert unit.environment == {"TIELINE_HOME": home}
    assert (unit.service("WorkingDirectory"), unit.service("StateDirectoryMode")) == (home, "0700")
    user = unit.service("User")
    assert f"--home-dir {home} --shell /usr/sbin/nologin {user}\n" in deploying_page
    assert f"-o {user} -g {unit.service('Group')} -m 0700 {home}\n" in deploying_page


def test_the_program_is_where_everybody_looks_for_it() -> None:
    program = f"/opt/tieline/bin/{NAME}"
    assert unit.service("ExecStart") == f"{program} run"
    assert image.final.environment["PATH"].split(":")[0] == "/opt/tieline/bin"
    assert "COPY --from=build /opt/tieline /opt/tieline" in [
        f"{name} {rest}" for name, rest in image.final.instructions
    ]
    assert json.loads(image.final.one("ENTRYPOINT"))[-1:] + json.loads(image.final.one("CMD")) == [NAME, "run"]
    assert program in deploying_page
    environment_file = unit.service("EnvironmentFile").removeprefix("-")
    assert f"install -m 600 /dev/null {environment_file} " in deploying_page


# Probes


def test_probes_ask_for_pages_that_there_are() -> None:
    async def nobody(_: Request) -> bool:
        return False

    served = {route.path for route in HealthPages(nobody).routes}  # type: ignore[attr-defined]
    asked = {
        name: manifest.container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")
    }
    assert asked == {"startup": "/healthz", "liveness": "/healthz", "readiness": "/readyz"}
    assert set(asked.values()) <= served
    ports = {manifest.container[f"{name}Probe"]["httpGet"]["port"] for name in asked}
    assert ports == {manifest.container["ports"][0]["name"]}


@pytest.mark.requirement("G-41")
async def test_the_health_check_of_the_image_asks_the_running_program(tmp_path_factory: pytest.TempPathFactory) -> None:
    """It is run as it stands there, with the interpreter of this environment."""
    python, *words = image.health_check
    assert python == "python"
    program = Program(tmp_path_factory.mktemp("h", numbered=True), "")
    environment = {**program.environ, "TIELINE__WEB__PORT": str(program.port)}

    async def healthy() -> bool:
        ran = await anyio.run_process([sys.executable, *words], env=environment, check=False)
        return ran.returncode == 0

    assert not await healthy()
    async with program:
        assert await healthy()


# Environment and configuration


def test_each_variable_of_ours_is_a_setting() -> None:
    handed_on = {name: "" for name in compose.handed_on("tieline") if name.startswith("TIELINE__")}
    samples = {
        "TIELINE__DATABASE__URL": "postgresql://tieline:secret@postgres/tieline",
        "TIELINE__WEB__METRICS_TOKEN": "t",
    }
    assert handed_on.keys() == samples.keys()
    environment = {**image.final.environment, **compose.environment("tieline"), **samples}
    settings = read({}, environment, home=Path(environment["TIELINE_HOME"]), source=None)
    assert (settings.web.host, settings.web.port, settings.web.allow_remote) == ("0.0.0.0", PORT, True)
    assert settings.database.url == samples["TIELINE__DATABASE__URL"]
    assert all(f"{name}=" in containers_page for name in samples)


def test_each_token_that_is_handed_on_is_one_that_the_documentation_speaks_of() -> None:
    example = (ROOT / "config" / "gateway.toml").read_text()
    words = pages("configuration", "platforms") + example
    handed_on = {name for name in compose.handed_on("tieline") if not name.startswith("TIELINE__")}
    assert {name for name in handed_on if f'"env:{name}"' not in words} == set()
    assert handed_on >= FROM_OUTSIDE
    platforms = set(re.findall(r'"env:((?:TELEGRAM|DISCORD|SLACK)_\w+)"', example))
    assert len(platforms) > 4
    assert platforms <= handed_on, "what the example of a configuration names reaches the container"


@pytest.mark.parametrize("name", sorted(FROM_OUTSIDE))
def test_a_key_in_the_environment_is_enough(name: str) -> None:
    (provider,) = read({}, {name: "sk-1"}, home=Path("/data"), source=None).llm.providers
    assert provider.type != "demo"


def test_the_configuration_of_the_pod_is_one(tmp_path: Path) -> None:
    named = Path(manifest.environment["TIELINE_CONFIG"])
    assert manifest.mounts["config"]["mountPath"] == str(named.parent)
    (text,) = [text for name, text in manifest.kind("ConfigMap")["data"].items() if name == named.name]
    (tmp_path / named.name).write_text(text)
    web = load(tmp_path / named.name, {**image.final.environment}).web
    assert (web.host, web.port, web.allow_remote) == ("0.0.0.0", PORT, True)
    shown = "\n".join(line.removeprefix("# ") for line in text.splitlines())
    tokens = {"TIELINE_METRICS_TOKEN": "t", "TELEGRAM_TOKEN": "123456:TEST-token"}
    (tmp_path / named.name).write_text(shown)
    assert [one.type for one in load(tmp_path / named.name, tokens).channels][:1] == ["telegram"]


def test_doctor_in_the_pod_reads_the_configuration_of_the_pod(tmp_path: Path) -> None:
    """As `kubectl exec` starts it: with the environment of the pod, and without the words of its command."""
    assert "args" not in manifest.container
    assert "command" not in manifest.container
    configuration = tmp_path / "gateway.toml"
    configuration.write_text(manifest.kind("ConfigMap")["data"]["gateway.toml"])
    environment = {**os.environ, **manifest.environment, "TIELINE_HOME": str(tmp_path / "home")}
    environment["TIELINE_CONFIG"] = str(configuration)
    words = [sys.executable, "-m", "gateway", "doctor", "--offline"]
    ran = subprocess.run(words, capture_output=True, text=True, env=environment, timeout=100, check=False)
    assert f"configuration: {configuration} is fine" in ran.stdout, ran.stdout + ran.stderr


def test_the_secret_is_the_one_that_the_documentation_makes() -> None:
    (source,) = manifest.container["envFrom"]
    (claim,) = [one for one in manifest.pod["volumes"] if one["name"] == "data"]
    assert f"create secret generic {source['secretRef']['name']} " in containers_page
    assert claim["persistentVolumeClaim"]["claimName"] == manifest.kind("PersistentVolumeClaim")["metadata"]["name"]
    assert manifest.kind("Service")["spec"]["selector"].items() <= (
        manifest.kind("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    )
    assert manifest.kind("Deployment")["metadata"]["name"] == "tieline", "deploy/tieline in the documentation"


# Life


@pytest.mark.requirement("G-41")
def test_everybody_waits_until_running_turns_have_ended() -> None:
    allowed = {
        "compose": seconds(service["stop_grace_period"]),
        "systemd": float(unit.service("TimeoutStopSec")),
        "kubernetes": manifest.pod["terminationGracePeriodSeconds"],
    }
    assert all(allowance >= ENDS_WITHIN_S for allowance in allowed.values()), f"{allowed}, {ENDS_WITHIN_S} s are needed"
    assert len(set(allowed.values())) == 1
    told = f"Give a supervisor {allowed['systemd']:g} seconds before it kills"
    assert told in pages("operating").replace("\n", " ")


def test_the_unit_signals_the_program_alone_and_gives_up_on_a_mistake() -> None:
    assert unit.service("KillMode") == "mixed", "else programs of a running turn are signalled too"
    assert unit.service("KillSignal") == "SIGTERM"
    assert unit.service("Restart") == "always"
    assert unit.service("RestartPreventExitStatus") == str(MISCONFIGURED) == str(os.EX_CONFIG)


def test_there_is_one_process_for_a_database() -> None:
    deployment = manifest.kind("Deployment")["spec"]
    assert (deployment["replicas"], deployment["strategy"]) == (1, {"type": "Recreate"})
    assert "deploy" not in service
    assert [name for name, one in compose.services.items() if "profiles" not in one] == ["tieline"]


# What the program is installed with


def started() -> Iterator[tuple[str, str]]:
    """The functions of the product that start a program or look for one."""
    starters = {"open_process", "run_process", "create_subprocess_exec", "create_subprocess_shell", "Popen", "which",
                "stdio_client", "StdioServerParameters", "execv", "execve", "posix_spawn"}  # fmt: skip
    paths = (path for package in ("agent", "gateway", "adapters") for path in (ROOT / package).rglob("*.py"))
    for path in sorted(paths):
        text = path.read_text()
        if "subprocess" not in text and not any(f"{name}(" in text for name in starters):
            continue  # to parse all of them takes seconds
        for function in ast.walk(ast.parse(text)):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for call in ast.walk(function):
                    name = ast.unparse(call.func) if isinstance(call, ast.Call) else ""
                    if name.rpartition(".")[2] in starters or name.startswith(("subprocess.", "asyncio.subprocess.")):
                        yield path.relative_to(ROOT).as_posix(), function.name


# Where a program is started, and the packages that it needs of Debian; none where it is the operator's own.
STARTED = {
    ("agent/core/phrases.py", "program_as_typed"): (),  # looks for itself
    ("agent/tools/hooks.py", "_run"): (),
    ("agent/tools/mcp/wire.py", "_transport"): (),
    ("agent/tools/shell/sandbox.py", "run"): ("bubblewrap",),
    ("agent/tools/shell/shell.py", "trouble_with"): ("bubblewrap",),
    ("gateway/testing/new_adapter.py", "main"): (),  # of the second wheel
}


@pytest.mark.requirement("G-41")
def test_the_image_has_what_the_program_starts() -> None:
    assert set(started()) == set(STARTED)
    assert inspect.signature(trouble_with).parameters["program"].default == "bwrap", "of the package bubblewrap"
    needed = {package for packages in STARTED.values() for package in packages}
    beside = {"python3", "ca-certificates", "git", json.loads(image.final.one("ENTRYPOINT"))[0]}
    assert image.final.packages == needed | beside
    assert all(f"`{package}`" in containers_page for package in ("bubblewrap", "git", "tini"))


def locked_in(name: str) -> set[str]:
    """The packages of a lock file."""
    return {line.partition("==")[0] for line in (ROOT / "requirements" / f"{name}.lock").read_text().splitlines()}


def test_the_image_is_built_of_hashed_requirements_and_the_wheel() -> None:
    locks = {"requirements/image.lock", "requirements/build.lock"}
    assert locks <= image.copied
    pip = [words for words in image.stages[0].commands if "pip" in words[0]]
    hashed = {words[-1] for words in pip if "--require-hashes" in words}
    assert hashed == locks
    rest = [words for words in pip if "--require-hashes" not in words]
    assert all("--no-deps" in words for words in rest), "all else fetches nothing, but for an extra"
    extra = project["project"]["optional-dependencies"]["postgresql"]
    driver = {re.split(r"[\[<>=]", requirement)[0] for requirement in extra}
    assert driver <= locked_in("image"), "the profile `postgresql` needs it"
    builds = {requirement.partition(">")[0] for requirement in project["build-system"]["requires"]}
    assert builds <= locked_in("build")


def test_the_whole_wheel_is_copied_and_nothing_is_kept_back() -> None:
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    needed = {
        *wheel["packages"],
        *(path.partition("/")[0] for path in wheel["force-include"]),
        project["project"]["readme"],
    }
    assert needed | {"pyproject.toml", "LICENSE"} <= image.copied
    let_through = {
        line.removeprefix("!")
        for line in (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
        if line[0] == "!"
    }
    assert let_through == image.copied
    assert all((ROOT / path).exists() for path in image.copied)


def test_extras_and_versions_that_are_named_are_there() -> None:
    extras = project["project"]["optional-dependencies"].keys()
    for text in (containers_page, (DEPLOY / "Dockerfile").read_text()):
        assert {name for found in re.findall(r"EXTRAS=([a-z,]+)", text) for name in found.split(",")} <= extras
    assert service["build"]["args"].keys() <= {*image.arguments, *image.stages[0].arguments}
    assert manifest.container["image"] == f"tieline:{project['project']['version']}"
    assert service["build"]["dockerfile"] == "deploy/Dockerfile"
    assert all(stage.one("FROM").startswith("${BASE}") for stage in image.stages)


# What is shut, and what the sandbox needs open


def test_containers_are_shut_as_far_as_the_sandbox_allows() -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert [one.partition(":")[0] for one in service["tmpfs"]] == ["/tmp"]
    assert set(service["security_opt"]) == {
        "no-new-privileges:true", "seccomp=seccomp.json", "apparmor=unconfined", "systempaths=unconfined"
    }  # fmt: skip
    assert all(f"`{one}`" in containers_page for one in set(service["security_opt"]) - {"no-new-privileges:true"})
    shut = manifest.container["securityContext"]
    assert shut == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}
    }  # fmt: skip
    assert manifest.mounts["tmp"]["mountPath"] == "/tmp"
    assert manifest.pod["automountServiceAccountToken"] is False
    assert manifest.pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_the_profile_of_system_calls_forbids_what_the_sandbox_does_not_need() -> None:
    profile = json.loads((DEPLOY / "seccomp.json").read_text())
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"
    assert {one["action"] for one in profile["syscalls"]} == {"SCMP_ACT_ERRNO"}
    forbidden = {name for one in profile["syscalls"] for name in one["names"] if "args" not in one}
    assert forbidden.isdisjoint(
        {"clone", "clone3", "unshare", "mount", "umount2", "pivot_root", "sethostname", "openat2"}
    )
    assert forbidden >= {
        "bpf",
        "init_module",
        "io_uring_setup",
        "kexec_load",
        "keyctl",
        "perf_event_open",
        "setns",
        "syslog",
    }


ENDS_THE_SANDBOX = {"ProtectKernelTunables", "ProtectKernelLogs", "ProcSubset", "ProtectHostname", "RestrictSUIDSGID"}


@pytest.mark.requirement("G-41")
def test_the_unit_leaves_out_what_would_end_the_sandbox() -> None:
    assert ENDS_THE_SANDBOX.isdisjoint(unit.set)
    assert all(option in deploying_page for option in ENDS_THE_SANDBOX)
    assert {"user", "mnt", "pid", "net", "ipc", "uts"} <= set(unit.service("RestrictNamespaces").split())
    assert "AF_NETLINK" in unit.service("RestrictAddressFamilies").split()
    calls = unit.service("SystemCallFilter").split()
    assert {"@system-service", "mount", "umount2", "pivot_root", "unshare", "sethostname"} == set(calls)


MOST_EXPOSED = 3.0  # of 10; without hardening it is 9.6, and with what would end the sandbox 1.2


@pytest.mark.slow
def test_the_unit_is_hardened(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze (apt-get install systemd)")
    path = DEPLOY / "systemd" / "tieline.service"
    words = [
        "systemd-analyze",
        "security",
        "--offline=true",
        "--no-pager",
        f"--threshold={MOST_EXPOSED * 10:g}",
        str(path),
    ]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stdout[-2_000:] + ran.stderr
    told = re.search(r"Overall exposure level for tieline\.service: ([\d.]+)", ran.stdout)
    assert told, ran.stdout[-500:]
    assert float(told[1]) <= MOST_EXPOSED
    verified = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, timeout=60, check=False
    )
    mistakes = [line for line in verified.stderr.splitlines() if "tieline.service" in line]
    assert all(f"{unit.service('ExecStart').split()[0]} is not executable" in line for line in mistakes), mistakes


# Profiles


def test_profiles_hold_together() -> None:
    profiles = {profile for one in compose.services.values() for profile in one.get("profiles", ())}
    assert f"COMPOSE_PROFILES={','.join(sorted(profiles, reverse=True))}" in containers_page
    database, monitor = compose.services["postgres"], compose.services["prometheus"]
    user, name = (database["environment"][one] for one in ("POSTGRES_USER", "POSTGRES_DB"))
    assert f"TIELINE__DATABASE__URL=postgresql://{user}:…@postgres/{name}" in containers_page
    assert service["depends_on"]["postgres"] == {"condition": "service_healthy", "required": False}
    assert database["healthcheck"]["test"][1] == "pg_isready"
    mounted = [one.split(":") for one in monitor["volumes"] if one.startswith("./")]
    assert all((DEPLOY / source).is_file() for source, *_ in mounted)
    scraping = yaml.safe_load((DEPLOY / "prometheus" / "compose.yml").read_text())["scrape_configs"][0]
    (secret,) = monitor["secrets"]
    assert scraping["authorization"] == {"credentials_file": f"/run/secrets/{secret}"}
    variable = compose.content["secrets"][secret]["environment"]
    assert variable in compose.handed_on("tieline"), "the gateway knows the token that Prometheus sends"
    assert not monitor.get("read_only"), "Compose puts no variable into a container that is read-only"
    volumes = {one.partition(":")[0] for each in compose.services.values() for one in each["volumes"] if one[0] != "."}
    assert volumes == compose.content["volumes"].keys()
