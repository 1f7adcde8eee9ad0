"""The files for several processes say what the program does, and shut each container as those for a single one do."""

import json
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request

from gateway.cli.run import command as run_command
from gateway.cluster.roles import ROLES, ClusterSettings, roles_of
from gateway.config.read import load, read
from gateway.config.sections import WebSettings
from gateway.running.mcp.logins import SHARED_KEY
from gateway.telemetry.exposition import exposition
from gateway.telemetry.metrics import Gauges, Metrics
from gateway.web.health import HealthPages
from gateway.web.request_checks import host_allowed, own_hosts
from tests.deploy.files import CLUSTER, DEPLOY, ROOT, Compose, Dockerfile, Kustomization, Manifest
from tests.deploy.test_deploy import ENDS_WITHIN_S, FROM_OUTSIDE, seconds

PORT = WebSettings().port
PLATFORMS = ("0.0.0.0/0", "::/0")

image, single, pod = Dockerfile.read(), Compose.read(), Manifest.read()
compose, cluster = Compose.read(DEPLOY / "compose.cluster.yaml"), Kustomization.read()
proxy = (DEPLOY / "Caddyfile").read_text()
page = (ROOT / "docs" / "containers-cluster.md").read_text()

OURS = {name: one for name, one in compose.services.items() if one["image"] == "tieline"}
WORDS = {
    **{name: one["command"] for name, one in OURS.items()},
    **{f"pod {role}": one.container["args"] for role, one in cluster.manifests.items()},
}


def roles_in(words: Sequence[str]) -> frozenset[str]:
    """The roles that the program takes from its command line. Raises ClickException, ValueError."""
    name, *rest = words
    assert name == run_command.name
    with run_command.make_context("run", rest) as context:
        assert not context.args
        return roles_of(context.params["role"])


def interpolated(text: str) -> str:
    """The text as Compose hands it on, with what an operator has written into deploy/.env."""
    written = {"POSTGRES_PASSWORD": "secret", "TIELINE_SITE": "chat.example.org"}

    def value(found: re.Match[str]) -> str:
        assert found[0] != "$", f"Compose refuses {text}: a dollar sign is written as two"
        if found[0] == "$$":
            return "$"
        sign, _, rest = found["rest"].partition("-")
        return written.get(found["name"]) or (rest if sign == ":" else "")

    return re.sub(r"\$\$|\$\{(?P<name>\w+)(?P<rest>[^}]*)\}|\$", value, text)


def environment(name: str) -> dict[str, str]:
    return {**image.final.environment, **{k: interpolated(v) for k, v in compose.environment(name).items()}}


# Who does what


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_the_program_takes_the_command_line(words: list[str]) -> None:
    assert roles_in(words)


@pytest.mark.requirement("G-41")
@pytest.mark.parametrize("where", ["compose", "pods"])
def test_each_role_is_somebody_s(where: str) -> None:
    done = [roles_in(words) for name, words in WORDS.items() if name.startswith("pod ") == (where == "pods")]
    assert frozenset().union(*done) == frozenset(ROLES)
    assert sum("worker" in roles for roles in done) >= (2 if where == "compose" else 1)
    assert all(roles != frozenset(ROLES) for roles in done)


def test_a_pod_is_labelled_with_what_it_does() -> None:
    for role, one in cluster.manifests.items():
        assert roles_in(one.container["args"]) == {role}
        deployment = one.kind("Deployment")
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert deployment["metadata"]["name"] == f"tieline-{role}"
        assert deployment["spec"]["selector"]["matchLabels"] == labels == {"app": "tieline", "role": role}


# Settings


@pytest.mark.parametrize("name", OURS)
def test_each_variable_is_a_setting(name: str) -> None:
    given = environment(name)
    settings = read({}, given, home=Path(given["TIELINE_HOME"]), source=None)
    database = compose.services["postgres"]["environment"]
    assert (
        settings.database.url == f"postgresql://{database['POSTGRES_USER']}:secret@postgres/{database['POSTGRES_DB']}"
    )
    assert (settings.web.host, settings.web.port, settings.web.allow_remote) == ("0.0.0.0", PORT, True)
    assert settings.web.public_url == "https://chat.example.org"
    assert not list(ClusterSettings(roles=OURS[name]["command"][-1]).conflicts(settings.database.url))
    tokens = {one for one in single.handed_on("tieline") if not one.startswith("TIELINE__")}
    assert compose.handed_on(name) == tokens >= FROM_OUTSIDE


def test_the_configuration_of_the_pods_is_one(tmp_path: Path) -> None:
    text = (CLUSTER / "gateway.toml").read_text()
    (generated,) = cluster.content["configMapGenerator"]
    for one in cluster.manifests.values():
        named = Path(one.environment["TIELINE_CONFIG"])
        assert one.mounts["shared"]["mountPath"] == str(named.parent)
        assert generated["files"] == [named.name]
        assert {"configMap": {"name": generated["name"]}} in volume(one, "shared")["projected"]["sources"]
    shown = "\n".join(line.removeprefix("# ") for line in text.splitlines())
    for written in (text, shown):
        (tmp_path / "gateway.toml").write_text(written)
        tokens = {"TIELINE_METRICS_TOKEN": "t", "TELEGRAM_TOKEN": "123456:TEST-token"}
        web = load(tmp_path / "gateway.toml", {**image.final.environment, **tokens}).web
        assert (web.host, web.port, web.allow_remote) == ("0.0.0.0", PORT, True)
        assert web.metrics_token is not None


# What they share, and what each has for itself


def volume(one: Manifest, name: str) -> Any:
    (found,) = [each for each in one.pod["volumes"] if each["name"] == name]
    return found


def test_each_process_has_a_data_directory_of_its_own() -> None:
    home = image.volume
    own = {name: one["volumes"][0] for name, one in OURS.items()}
    assert own == {name: f"{name}:{home}" for name in OURS}
    assert OURS.keys() <= compose.content["volumes"].keys()
    mounted = [one for each in compose.services.values() for one in each["volumes"]]
    assert {one.partition(":")[0] for one in mounted if one[0] not in ".$"} == compose.content["volumes"].keys()
    for one in cluster.manifests.values():
        assert one.mounts["data"]["mountPath"] == home
        assert "emptyDir" in volume(one, "data")


def test_what_they_share_can_only_be_read() -> None:
    for name, service in OURS.items():
        _, *shared = service["volumes"]
        folder = str(Path(compose.environment(name)["TIELINE_CONFIG"]).parent)
        assert [interpolated(each) for each in shared] == [f"{folder}:{folder}:ro"]
    for one in cluster.manifests.values():
        (first,) = one.pod["initContainers"]
        mounts = [*one.container["volumeMounts"], *first["volumeMounts"]]
        assert [each["readOnly"] for each in mounts if each["name"] == "shared"] == [True, True]
        (secret,) = [each["secret"] for each in volume(one, "shared")["projected"]["sources"] if "secret" in each]
        assert secret["items"] == [{"key": SHARED_KEY.name, "path": SHARED_KEY.as_posix()}]
        assert f"create secret generic {secret['name']} --from-file={SHARED_KEY.name}" in page
        (source,) = one.container["envFrom"]
        assert f"create secret generic {source['secretRef']['name']} --from-literal=TIELINE__DATABASE__URL=" in page


SCRIPTS = {
    "compose": OURS["ingress"]["entrypoint"],
    "pods": cluster.manifests["ingress"].pod["initContainers"][0]["command"],
}


@pytest.mark.parametrize("where", SCRIPTS)
def test_the_shared_key_is_put_where_the_program_looks_for_it(where: str, tmp_path: Path) -> None:
    """The script is run as it stands there, with folders of this machine."""
    shared, home = tmp_path / "etc", tmp_path / "home"
    for path in (shared / SHARED_KEY.parent, home, tmp_path / "bin"):
        path.mkdir(parents=True)
    (shared / SHARED_KEY).write_text("k" * 44)
    program = tmp_path / "bin" / "tieline"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    words = [interpolated(word) for word in SCRIPTS[where]]
    words = [word.replace("/etc/tieline", str(shared)).replace("/data", str(home)) for word in words]
    command = compose.services["clock"]["command"] if where == "compose" else []

    def ran() -> subprocess.CompletedProcess[str]:
        script = words[words.index("sh") :]
        path = {"PATH": f"{program.parent}:/usr/bin:/bin"}
        return subprocess.run([*script, *command], env=path, capture_output=True, text=True, timeout=20, check=False)

    for _ in ("at first", "and when it starts again"):
        assert ran().stdout.splitlines() == command
        assert (home / SHARED_KEY).read_text() == "k" * 44
        assert stat.S_IMODE((home / SHARED_KEY).stat().st_mode) == 0o600
        assert stat.S_IMODE((home / SHARED_KEY.parent).stat().st_mode) == 0o700
    (shared / SHARED_KEY).unlink()
    without = ran()
    assert without.returncode != 0
    assert SHARED_KEY.name in without.stderr
    assert without.stdout == "", "no process goes on without what others have"


def test_the_entry_of_the_image_stays_around_the_program() -> None:
    assert all(one["entrypoint"][:2] == json.loads(image.final.one("ENTRYPOINT"))[:2] for one in OURS.values())
    assert all("command" not in one.container for one in cluster.manifests.values())


# What is shut


SHUT = ("read_only", "tmpfs", "cap_drop", "security_opt", "mem_limit", "pids_limit", "logging", "restart", "build")


@pytest.mark.requirement("G-41")
@pytest.mark.parametrize("name", OURS)
def test_a_container_is_shut_as_the_single_one(name: str) -> None:
    alone = single.services["tieline"]
    assert {key: OURS[name][key] for key in SHUT} == {key: alone[key] for key in SHUT}
    assert not {"privileged", "cap_add", "user", "ports", "devices", "pid", "ipc"} & OURS[name].keys()


@pytest.mark.requirement("G-41")
@pytest.mark.parametrize("role", ROLES)
def test_a_pod_is_shut_as_the_single_one(role: str) -> None:
    one = cluster.manifests[role]
    for key in ("securityContext", "automountServiceAccountToken", "enableServiceLinks"):
        assert one.pod[key] == pod.pod[key]
    for container in (one.container, *one.pod["initContainers"]):
        assert container["securityContext"] == pod.container["securityContext"]
        assert container["resources"].keys() == {"requests", "limits"}
        assert "memory" in container["resources"]["limits"]
    assert one.mounts["tmp"] == pod.mounts["tmp"]
    assert volume(one, "tmp") == volume(pod, "tmp")
    assert not {"hostNetwork", "hostPID", "hostIPC"} & one.pod.keys()


def test_the_proxy_may_bind_low_ports_and_no_more() -> None:
    service = compose.services["proxy"]
    assert (service["read_only"], service["cap_drop"], service["cap_add"]) == (True, ["ALL"], ["NET_BIND_SERVICE"])
    assert service["security_opt"] == ["no-new-privileges:true"]
    published = {name for name, one in compose.services.items() if "ports" in one}
    assert published == {"proxy"}


# Ports, paths, names


def served() -> set[str]:
    async def nobody(_: Request) -> bool:
        return False

    return {route.path for route in HealthPages(nobody).routes}  # type: ignore[attr-defined]


def test_probes_are_those_of_the_single_one_and_ask_for_pages_that_there_are() -> None:
    for one in cluster.manifests.values():
        for name in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert one.container[name] == pod.container[name]
            assert one.container[name]["httpGet"]["path"] in served()
        assert one.container["ports"] == pod.container["ports"] == [{"name": "http", "containerPort": PORT}]
    for service in OURS.values():
        command, python, option, script = service["healthcheck"]["test"]
        assert (command, python, option) == ("CMD", image.health_check[0], image.health_check[1])
        compile(script, "healthcheck", "exec")
        (port, path) = re.search(r"'http://127\.0\.0\.1:(\d+)(/\w+)'", script).groups()  # type: ignore[union-attr]
        assert (int(port), path) == (PORT, "/readyz")
        assert path in served()


def test_the_proxy_reaches_the_ingress_which_believes_it() -> None:
    (upstream,) = re.findall(r"reverse_proxy (\S+) \{", proxy)
    name, _, port = upstream.partition(":")
    assert roles_in(compose.services[name]["command"]) == {"ingress"}
    assert int(port) == PORT
    assert proxy.count("{") == proxy.count("}")
    (variable,) = re.findall(r"^\{\$(\w+)\} \{$", proxy, re.MULTILINE)
    assert variable in compose.services["proxy"]["environment"]
    assert "./Caddyfile:/etc/caddy/Caddyfile:ro" in compose.services["proxy"]["volumes"]
    (network,) = compose.services["proxy"]["networks"]
    assert network in compose.services[name]["networks"]
    assert [one for one, each in OURS.items() if network in each.get("networks", ())] == [name]
    (subnet,) = compose.content["networks"][network]["ipam"]["config"]
    settings = read({}, environment(name), home=Path("/data"), source=None).web
    assert settings.trusted_proxies == (interpolated(subnet["subnet"]),)
    assert host_allowed("chat.example.org", settings, own_hosts(settings, PORT))
    assert all(f"`{one}`" in page for one in ("TIELINE_SITE", "TIELINE_SHARED", "TIELINE_FRONT"))


def selected(selector: dict[str, str]) -> set[str]:
    """The roles whose pods the labels choose."""
    return {
        role
        for role, one in cluster.manifests.items()
        if selector.items() <= one.kind("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    }


def test_services_reach_the_pods_that_they_are_for() -> None:
    people, scraped = cluster.named("Service", "tieline"), cluster.named("Service", "tieline-metrics")
    assert selected(people["spec"]["selector"]) == {"ingress"}
    assert selected(scraped["spec"]["selector"]) == set(ROLES)
    for service in (people, scraped):
        (port,) = service["spec"]["ports"]
        assert port["targetPort"] == pod.container["ports"][0]["name"]
    (monitor,) = cluster.all("ServiceMonitor")
    assert monitor["spec"]["selector"]["matchLabels"].items() <= scraped["metadata"]["labels"].items()
    assert not monitor["spec"]["selector"]["matchLabels"].items() <= people["metadata"].get("labels", {}).items()
    (endpoint,) = monitor["spec"]["endpoints"]
    assert (endpoint["port"], endpoint["path"] in served()) == (scraped["spec"]["ports"][0]["name"], True)
    assert scraped["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "tieline", "the job of the alerts"
    token = endpoint["authorization"]["credentials"]
    assert token["name"] == pod.container["envFrom"][0]["secretRef"]["name"]
    assert f'"env:{token["key"]}"' in (CLUSTER / "gateway.toml").read_text()
    assert f"--from-literal={token['key']}=" in page


def test_the_network_lets_in_people_and_prometheus_and_nobody_to_the_rest() -> None:
    opened: dict[str, set[str]] = {role: set() for role in ROLES}
    for policy in cluster.all("NetworkPolicy"):
        for rule in policy["spec"].get("ingress", ()):
            assert rule["ports"] == [{"port": pod.container["ports"][0]["name"]}]
            (source,) = rule["from"]
            for role in selected(policy["spec"]["podSelector"]["matchLabels"]):
                opened[role] |= set(source["namespaceSelector"]["matchLabels"].values())
    assert opened == {role: {"monitoring"} for role in ROLES} | {"ingress": {"monitoring", "ingress-nginx"}}
    assert all(f"`{one}`" in page for one in ("monitoring", "ingress-nginx"))
    (everybody,) = [one for one in cluster.all("NetworkPolicy") if "egress" in one["spec"]]
    assert selected(everybody["spec"]["podSelector"]["matchLabels"]) == set(ROLES)
    blocks = {one["ipBlock"]["cidr"]: one["ipBlock"]["except"] for one in everybody["spec"]["egress"][0]["to"][1:]}
    assert tuple(blocks) == PLATFORMS
    assert blocks["0.0.0.0/0"] == ["169.254.169.254/32"]


# Life


@pytest.mark.requirement("G-41")
def test_each_has_the_time_that_running_turns_need_and_is_replaced_before_it_goes() -> None:
    for service in OURS.values():
        assert seconds(service["stop_grace_period"]) >= ENDS_WITHIN_S
    for one in cluster.manifests.values():
        assert one.pod["terminationGracePeriodSeconds"] == pod.pod["terminationGracePeriodSeconds"]
        strategy = one.kind("Deployment")["spec"]["strategy"]
        assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}


def test_a_node_that_is_emptied_takes_one_of_a_role() -> None:
    budgets = {one["metadata"]["name"]: one["spec"] for one in cluster.all("PodDisruptionBudget")}
    assert [selected(one["selector"]["matchLabels"]) for one in budgets.values()] == [{role} for role in ROLES]
    assert all(one["maxUnavailable"] == 1 for one in budgets.values())
    (scaler,) = cluster.all("HorizontalPodAutoscaler")
    for role, one in cluster.manifests.items():
        replicas = one.kind("Deployment")["spec"].get("replicas")
        assert (scaler["spec"]["minReplicas"] if role == "worker" else replicas) >= 2
        assert (replicas is None) == (role == "worker"), "else each apply would undo what the autoscaler did"


def exposed() -> Iterator[str]:
    """The metrics of `/metrics`."""
    for family in text_string_to_metric_families(exposition(Metrics(), Gauges()).decode()):
        yield from (sample.name for sample in family.samples)


def test_workers_are_scaled_by_a_metric_that_there_is() -> None:
    (scaler,) = cluster.all("HorizontalPodAutoscaler")
    target = scaler["spec"]["scaleTargetRef"]
    assert target["name"] == cluster.manifests["worker"].kind(target["kind"])["metadata"]["name"]
    external, resource = scaler["spec"]["metrics"]
    name = external["external"]["metric"]["name"]
    assert name in set(exposed())
    (rule,) = yaml.safe_load((DEPLOY / "prometheus" / "adapter.yaml").read_text())["rules"]["external"]
    assert rule["seriesQuery"] == name
    assert rule["metricsQuery"].startswith("max("), "each process tells the length of the one queue"
    measured = resource["resource"]["name"]
    assert measured in cluster.manifests["worker"].container["resources"]["requests"], "a share of what is requested"


# Kustomize


def test_the_kustomization_names_every_file() -> None:
    assert cluster.files | {"kustomization.yaml"} == {path.name for path in CLUSTER.iterdir()}
    (own,) = cluster.content["images"]
    assert f"{own['name']}:{own['newTag']}" == pod.container["image"]
    for one in cluster.manifests.values():
        assert {each["image"] for each in (one.container, *one.pod["initContainers"])} == {own["name"]}


@pytest.mark.slow  # kubectl is no part of what CI installs
def test_kustomize_renders_what_is_compared_here() -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl, which talks to no cluster here")
    words = ["kubectl", "kustomize", str(CLUSTER)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    rendered = {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(ran.stdout)}
    assert len(rendered) == len(cluster.documents) + 1
    assert {one["metadata"]["namespace"] for one in rendered.values()} == {cluster.content["namespace"]}
    ((_, made),) = [key for key in rendered if key[0] == "ConfigMap"]
    version = cluster.content["images"][0]["newTag"]
    for document in cluster.documents:
        found = rendered[document["kind"], document["metadata"]["name"]]
        text = json.dumps(found["spec"], sort_keys=True)
        text = text.replace(f'"{made}"', '"tieline"').replace(f'"tieline:{version}"', '"tieline"')
        assert json.loads(text) == document["spec"]
