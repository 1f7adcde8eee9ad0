"""The settings of the dashboard: forms, mistakes, the difference, saving, secrets."""

import html
import re
import stat
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from gateway.channels.entry_points import installed, settings_class
from gateway.config.editor import Edit, Editor
from gateway.config.forms import Key, form_of_model, forms
from gateway.config.live import Live
from gateway.config.read import load
from gateway.config.settings import Sections
from gateway.dashboard.frame.shell import Shell
from gateway.dashboard.program.settings import settings_section
from gateway.storage.operator_actions import OperatorAction
from gateway.telemetry.redaction import Redactor
from tests.gateway.dashboard.conftest import As, Browsing, browsing
from tests.gateway.world import World


class Form:
    """A form of a page as a browser sends it: every field with what stands in it."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.values: dict[str, str] = {}
        for tag in re.findall(r"<input[^>]*>", page):
            name, kind = _attribute(tag, "name"), _attribute(tag, "type")
            if name and kind != "checkbox" and " disabled" not in tag and name != "find":
                self.values[name] = _attribute(tag, "value")
        texts = re.findall(r'(<textarea[^>]*name="([^"]*)"[^>]*>)(.*?)</textarea>', page, re.DOTALL)
        for opening, name, inner in texts:
            if " disabled" not in opening:
                self.values[name] = html.unescape(inner)
        for opening, name, inner in re.findall(r'(<select[^>]*name="([^"]*)"[^>]*>)(.*?)</select>', page, re.DOTALL):
            chosen = re.search(r'value="([^"]*)" selected', inner)
            if " disabled" not in opening:
                self.values[name] = html.unescape(chosen[1]) if chosen else ""

    def with_(self, step: str = "review", **fields: str) -> dict[str, str]:
        return {**self.values, **{f"v.{name}": value for name, value in fields.items()}, "step": step}


def _attribute(tag: str, name: str) -> str:
    found = re.search(rf' {name}="([^"]*)"', tag)
    return html.unescape(found[1]) if found else ""


def test_every_section_and_key_says_what_it_is_for() -> None:
    accounts = [form_of_model(("channels",), settings_class(kind), kind) for kind in installed()]
    every = (*forms().values(), *accounts)
    silent = [f"{form.name}.{key.name}" for form in every for key in form.keys if not key.about]
    assert silent == [], "config/gateway.toml describes each beside it"
    assert [name for name, form in forms().items() if form.keys and not form.about] == []


def test_each_explanation_can_be_read_without_the_lines_around_it() -> None:
    """In the file it follows its key and value; in a form it stands as a sentence of its own."""
    accounts = [form_of_model(("channels",), settings_class(kind), kind) for kind in installed()]
    told = {f"{form.name}.{key.name}": key.about for form in (*forms().values(), *accounts) for key in form.keys}
    goes_on = re.compile(r"(?:or|else|of|these|this|not|besides|so)\b", re.IGNORECASE)
    assert {name: about for name, about in told.items() if goes_on.match(about)} == {}
    assert {name: about for name, about in told.items() if len(about.split()) < 3} == {}


def test_no_field_of_the_configuration_is_without_a_form() -> None:
    shown = {*forms(), *(f"{form.name}.{key.name}" for form in forms().values() for key in form.keys)}
    unshown = {name for name in every_field() if name not in shown}
    assert {name.rpartition(".")[0] for name in unshown} == {"llm.providers.prices"}, "one value, in its own words"


def every_field() -> Iterator[str]:
    """The fields of all sections by their path, whatever the forms make of them."""

    def within(path: str, annotation: object) -> Iterator[str]:
        for inner in get_args(annotation):
            yield from within(path, inner)
        if isinstance(annotation, type) and is_dataclass(annotation):
            hints = get_type_hints(annotation)
            for field in fields(annotation):
                yield f"{path}.{field.name}"
                yield from within(f"{path}.{field.name}", hints[field.name])

    for name, section in Sections.model_fields.items():
        if name != "channels":
            yield from within(name, section.annotation)


async def test_a_search_explains_what_it_finds(owner: Browsing) -> None:
    page = await owner.page("/settings?find=attachment_days")
    assert "files of people, and the text that was read out of them" in page


async def reviewed(owner: Browsing, path: str, **fields: str) -> Form:
    """The page that shows the difference, or the mistakes."""
    answer = await owner.post(f"{path}/save", **Form(await owner.page(path)).with_(**fields))
    assert answer.status_code == 200, answer.text
    return Form(answer.text)


def source(world: World) -> Path:
    return world.home / "gateway.toml"


@pytest.mark.requirement("G-78")
async def test_a_setting_is_shown_with_where_it_comes_from_and_when_a_change_counts(
    world_of: Callable[[], World],
) -> None:
    world = world_of()
    world.environ["TIELINE__QUEUE__MAX_DEPTH"] = "7"
    async with world.process(), browsing(world) as owner:
        page = await owner.page("/settings/queue")
        assert "In force: 0 (from the file); default: 500." in page
        assert "In force: queue (the default)." in page
        assert "Set by the environment variable <code>TIELINE__QUEUE__MAX_DEPTH</code>" in page
        assert "v.max_depth" not in Form(page).values, "what the environment sets cannot be typed"
        assert page.count("A change waits for a restart.") == 1, "linger_ms alone"
        assert "What a message meets while a turn runs" in page
        everything = await owner.page("/settings")
        for name in re.findall(r'href="(/settings/[^"]+)"', everything):
            await owner.page(name)
        assert "queue.max_depth" in await owner.page("/settings?find=max_depth")
        assert "retention.attachment_days" in await owner.page("/settings?find=files+days+attachment")
        assert "No setting is called so." in await owner.page("/settings?find=files+xyzzy")


@pytest.mark.requirement("G-78")
async def test_a_mistake_stands_beside_its_field_and_nothing_is_written(owner: Browsing) -> None:
    before = source(owner.world).read_text()
    form = await reviewed(owner, "/settings/queue", merge_ms="soon")
    assert "Must be a whole number, not &#39;soon&#39;" in form.page
    form = await reviewed(owner, "/settings/queue", max_depth="5000", merge_ms="-1")
    assert 'id="mistake-max_depth" class="mistake"' in form.page
    assert "5000 must be 1000 or less" in form.page
    assert 'name="v.merge_ms" aria-describedby="about-merge_ms mistake-merge_ms" aria-invalid="true"' in form.page
    assert form.values["v.max_depth"] == "5000", "what was typed stays"
    assert "proposed" not in form.values
    wrong = await reviewed(owner, "/settings/llm.providers/new", name="c", type="openai", context_window="0")
    assert "Model is missing" in wrong.page
    assert "Context_window = 0" in wrong.page
    known = await reviewed(owner, "/settings/llm", failover="nobody")
    assert "There is no provider &#39;nobody&#39;" in known.page
    toml = await reviewed(owner, "/settings/llm", aliases="{a = ")
    assert "This is no value of a TOML file" in toml.page
    assert source(owner.world).read_text() == before
    assert await owner.actions() == []


@pytest.mark.requirement("G-78")
async def test_mistakes_of_one_entry_of_a_list_stand_beside_their_fields_too(owner: Browsing) -> None:
    typed = {"name": "builds", "secret": "short", "place": "nowhere", "mode": "say"}
    form = await reviewed(owner, "/settings/webhooks/new", **typed)
    for key, mistake in (("secret", "is too short"), ("place", "is no place"), ("template", "is missing")):
        beside = re.search(rf'id="mistake-{key}" class="mistake"[^>]*>([^<]*)', form.page)
        assert beside is not None, key
        assert mistake in html.unescape(beside[1])
    assert "webhooks (builds)" not in form.page, "none of them stands apart from its field"


@pytest.mark.requirement("G-78")
async def test_a_change_is_shown_as_a_difference_then_saved_with_comments_and_counts_at_once(owner: Browsing) -> None:
    file = source(owner.world)
    file.write_text(file.read_text().replace("merge_ms = 0", "merge_ms = 0  # the tests are in a hurry"))
    file.chmod(0o640)
    owner.world.live.reload()
    form = await reviewed(owner, "/settings/queue", merge_ms="250", mode="drop")
    assert "-merge_ms = 0  # the tests are in a hurry" in form.page
    assert "+merge_ms = 250  # the tests are in a hurry" in form.page
    assert owner.world.live.settings.queue.merge_ms == 0, "shown, not saved"
    told = await owner.act("/settings/queue/save", **form.with_("save"))
    assert told == "Saved, and in force from the next turn on."
    text = file.read_text()
    assert "merge_ms = 250  # the tests are in a hurry\n" in text
    assert 'mode = "drop"' in text
    assert (file.with_name("gateway.toml.bak")).read_text().count("merge_ms = 0  # the tests") == 1
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    queue = owner.world.live.settings.queue
    assert (queue.merge_ms, queue.mode) == (250, "drop")
    (done,) = await owner.actions()
    assert (done.action, done.subject, done.detail) == (
        "settings.save",
        "queue",
        "mode: default → drop, merge_ms: 0 → 250",
    )
    form = await reviewed(owner, "/settings/queue", merge_ms="", linger_ms="5")
    assert "linger_ms: from the next start on; the rest is in force" in await owner.act(
        "/settings/queue/save", **form.with_("save")
    )
    assert owner.world.live.settings.queue.merge_ms == 500, "an empty field is the default"


@pytest.mark.requirement("G-78")
async def test_the_copy_of_the_file_before_is_a_file_of_its_own(owner: Browsing) -> None:
    file, elsewhere = source(owner.world), owner.world.home / "elsewhere"
    elsewhere.write_text("not ours")
    file.with_name("gateway.toml.bak").symlink_to(elsewhere)
    before = file.read_text()
    form = await reviewed(owner, "/settings/queue", merge_ms="250")
    await owner.act("/settings/queue/save", **form.with_("save"))
    assert elsewhere.read_text() == "not ours"
    kept = file.with_name("gateway.toml.bak")
    assert (kept.is_symlink(), kept.read_text()) == (False, before)
    assert stat.S_IMODE(kept.stat().st_mode) == stat.S_IMODE(file.stat().st_mode)


@pytest.mark.requirement("G-78")
async def test_a_file_of_windows_keeps_its_ends_of_lines(owner: Browsing) -> None:
    file = source(owner.world)
    file.write_bytes(file.read_text().replace("\n", "\r\n").encode())
    form = await reviewed(owner, "/settings/queue", mode="drop")
    await owner.act("/settings/queue/save", **form.with_("save"))
    lines = file.read_bytes().split(b"\n")
    assert b'mode = "drop"\r' in lines
    assert all(line.endswith(b"\r") for line in lines[:-1])


@pytest.mark.requirement("G-79")
async def test_two_people_do_not_overwrite_each_other(owner: Browsing) -> None:
    first = Form(await owner.page("/settings/queue"))
    form = await reviewed(owner, "/settings/queue", max_depth="20", merge_ms="5")
    await owner.act("/settings/queue/save", **form.with_("save"))
    answer = await owner.post("/settings/queue/save", **first.with_("save", max_depth="30", mode="drop"))
    assert "Somebody changed the file after you opened this page." in answer.text
    assert "the file now says 20" in answer.text
    second = Form(answer.text)
    assert second.values["v.max_depth"] == "30", "nothing that was typed is lost"
    assert owner.world.live.settings.queue.max_depth == 20
    await owner.act("/settings/queue/save", **second.with_("save"))
    queue = owner.world.live.settings.queue
    assert (queue.max_depth, queue.mode) == (30, "drop")
    assert queue.merge_ms == 5, "a field that nobody touched is left alone"
    other = await owner.post("/settings/queue/save", **first.with_("review", linger_ms="9"))
    assert ">-max_depth" not in other.text, "only what was typed changes"


@pytest.mark.requirement("G-79")
async def test_what_was_shown_is_what_is_saved(owner: Browsing) -> None:
    form = await reviewed(owner, "/settings/queue", max_depth="20")
    answer = await owner.post("/settings/queue/save", **form.with_("save", max_depth="21"))
    assert "+max_depth = 21" in answer.text
    assert owner.world.live.settings.queue.max_depth == 10
    file = source(owner.world)
    file.chmod(0o400)
    refused = await owner.post("/settings/queue/save", **form.with_("save"))
    assert refused.status_code == 409
    assert "is read-only" in refused.json()["error"]
    assert "is read-only" in await owner.page("/settings/queue")
    file.chmod(0o600)
    file.write_text("[queue\n")
    assert "is not valid TOML" in await owner.page("/settings/queue")
    assert "is not valid TOML" in (await owner.post("/settings/queue/save", **form.with_("save"))).json()["error"]


@pytest.mark.requirement("G-79")
async def test_an_entry_is_removed_only_as_it_was_shown(owner: Browsing) -> None:
    path, file = "/settings/llm.providers/1", source(owner.world)
    unseen = await owner.post(f"{path}/save", **Form(await owner.page(path)).with_("save-removal"))
    assert "What will be removed" in unseen.text
    shown = Form(unseen.text)
    file.write_text(file.read_text().replace("[queue]", "[queue]\nmax_depth = 20"))
    stale = await owner.post(f"{path}/save", **shown.with_("save-removal"))
    assert "Somebody changed the file after you opened this page." in stale.text
    assert 'name = "b"' in file.read_text(), "nothing goes that was shown otherwise"
    assert await owner.actions() == []
    await owner.act(f"{path}/save", **Form(stale.text).with_("save-removal"))
    assert 'name = "b"' not in file.read_text()
    assert "max_depth = 20" in file.read_text()


@pytest.mark.requirement("G-75", "G-80")
async def test_a_token_among_the_arguments_of_a_program_is_not_shown(world_of: Callable[..., World]) -> None:
    token = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"
    world = world_of(config=f'[[mcp.servers]]\nname = "far"\ncommand = "true"\nargs = ["--key={token}", "-v"]\n')
    async with world.process(), browsing(world) as owner:
        page = await owner.page("/settings/mcp.servers/0")
        assert token not in page
        assert "Secret; 2 set in the file." in page
        form = await reviewed(owner, "/settings/mcp.servers/0", args="--key=env:FAR\n-v")
        assert token not in form.page
        await owner.act("/settings/mcp.servers/0/save", **form.with_("save", args="--key=env:FAR\n-v"))
        assert 'args = ["--key=env:FAR", "-v"]' in source(world).read_text()


@pytest.mark.requirement("G-80")
async def test_a_secret_goes_into_a_file_of_its_own_and_never_comes_back(owner: Browsing) -> None:
    world, secret = owner.world, "sk-typed-0123456789abcdef"
    page = await owner.page("/settings/llm.providers/0")
    assert "sk-double" not in page
    assert "Secret; set in the file." in page
    form = await reviewed(owner, "/settings/llm.providers/0", api_key=secret)
    assert secret not in form.page
    assert "sk-double" not in form.page
    assert "file:secrets/providers-a-api-key" in html.unescape(form.page)
    assert not (world.home / "secrets").exists(), "shown, not saved"
    told = await owner.act("/settings/llm.providers/0/save", **form.with_("save", api_key=secret))
    assert told == "Saved, and in force."
    kept = world.home / "secrets" / "providers-a-api-key"
    assert kept.read_text() == f"{secret}\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert world.live.settings.llm.providers[0].api_key.get_secret_value() == secret
    assert secret not in source(world).read_text()
    assert world.services.basics.redact(f"it is {secret}") == "it is [redacted]"
    page = await owner.page("/settings/llm.providers/0")
    assert "Secret; set in secrets/providers-a-api-key." in page
    assert secret not in page + await owner.page("/audit") + repr(await owner.actions())
    # A new value for the same key: the file names the same place.
    form = await reviewed(owner, "/settings/llm.providers/0", api_key="sk-another-0123456789")
    await owner.act("/settings/llm.providers/0/save", **form.with_("save", api_key="sk-another-0123456789"))
    assert kept.read_text() == "sk-another-0123456789\n"
    headers = await reviewed(
        owner, "/settings/llm.providers/0", extra_headers="x-title = Tieline-secret\nx-b = env:TIELINE_HOME"
    )
    await owner.act(
        "/settings/llm.providers/0/save",
        **headers.with_("save", extra_headers="x-title = Tieline-secret\nx-b = env:TIELINE_HOME"),
    )
    assert (kept.parent / "providers-a-extra-headers-x-title").read_text() == "Tieline-secret\n"
    assert "Tieline-secret" not in source(world).read_text()
    alike = "api-key = Tieline-one\napi_key = Tieline-two"
    form = await reviewed(owner, "/settings/llm.providers/0", extra_headers=alike)
    await owner.act("/settings/llm.providers/0/save", **form.with_("save", extra_headers=alike))
    kept_headers = world.live.settings.llm.providers[0].extra_headers
    assert {name: one.get_secret_value() for name, one in kept_headers.items()} == {
        "api-key": "Tieline-one",
        "api_key": "Tieline-two",
    }


@pytest.mark.requirement("G-80")
async def test_each_secret_of_a_list_goes_into_a_file_of_its_own(owner: Browsing) -> None:
    world, path = owner.world, "/settings/webhooks/new"
    former = ["a-former-secret-of-length", "another-former-secret", "env:TIELINE_HOME"]
    typed = {
        "name": "builds",
        "secret": "a-present-secret-of-length",
        "place": "telegram:77",
        "former_secrets": "\n".join(former),
    }
    form = await reviewed(owner, path, **typed)
    await owner.act(f"{path}/save", **form.with_("save", **typed))
    assert world.live.settings.webhooks[0].secrets == (typed["secret"], *former[:2], str(world.home))
    kept = {file.read_text().strip(): stat.S_IMODE(file.stat().st_mode) for file in (world.home / "secrets").iterdir()}
    assert kept == dict.fromkeys((typed["secret"], *former[:2]), 0o600)
    pages = [form.page, await owner.page("/settings/webhooks/0"), await owner.page("/audit")]
    shown = source(world).read_text() + "".join(pages)
    assert not [secret for secret in kept if secret in shown]


@pytest.mark.requirement("G-80")
async def test_a_secret_stays_as_it_was_where_the_file_cannot_be_written(owner: Browsing) -> None:
    world, path = owner.world, "/settings/llm.providers/0"
    form = await reviewed(owner, path, api_key="sk-first-0123456789")
    await owner.act(f"{path}/save", **form.with_("save", api_key="sk-first-0123456789"))
    both = {"api_key": "sk-second-0123456789", "extra_headers": "x-title = Tieline-secret"}
    form = await reviewed(owner, path, **both)
    in_the_way = world.home / ".gateway.toml.new"
    in_the_way.mkdir()
    before = source(world).read_text()
    refused = await owner.post(f"{path}/save", **form.with_("save", **both))
    assert refused.status_code == 409
    assert "Nothing was saved" in refused.text
    assert source(world).read_text() == before
    (kept,) = (world.home / "secrets").iterdir()
    assert kept.read_text() == "sk-first-0123456789\n"
    in_the_way.rmdir()
    await owner.act(f"{path}/save", **form.with_("save", **both))
    assert kept.read_text() == "sk-second-0123456789\n"


@pytest.mark.requirement("G-80")
async def test_a_list_that_holds_a_token_stays_until_it_is_written_anew(world_of: Callable[..., World]) -> None:
    token = "sk-ant-0123456789abcdefghij"
    config = f'[[mcp.servers]]\nname = "files"\ncommand = "false"\nenabled = false\nargs = ["--key", "{token}"]\n'
    async with world_of(config=config).process() as world, browsing(world) as owner:
        path = "/settings/mcp.servers/0"
        assert token not in await owner.page(path)
        form = await reviewed(owner, path, cwd="/")
        await owner.act(f"{path}/save", **form.with_("save", cwd="/"))
        assert f'args = ["--key", "{token}"]\n' in source(world).read_text(), "what nobody touched stays"
        form = await reviewed(owner, path, args="--key\nenv:TIELINE_HOME")
        assert token not in form.page
        await owner.act(f"{path}/save", **form.with_("save", args="--key\nenv:TIELINE_HOME"))
        assert 'args = ["--key", "env:TIELINE_HOME"]' in source(world).read_text()
        assert "env:TIELINE_HOME" in await owner.page(path)


@pytest.mark.requirement("G-78")
async def test_entries_of_lists_are_added_changed_and_removed(owner: Browsing) -> None:
    assert "The file has no [[places]] yet." in await owner.page("/settings/places")
    form = await reviewed(
        owner, "/settings/places/new", match="telegram:-1005", instructions="<b>Be brief.</b>\nAlways."
    )
    assert await owner.act("/settings/places/new/save", **form.with_("save")) == "Saved, and in force."
    (place,) = owner.world.live.settings.places
    assert place.instructions == "<b>Be brief.</b>\nAlways."
    page = await owner.page("/settings/places/0")
    assert "<b>Be brief" not in page
    assert Form(page).values["v.instructions"] == "<b>Be brief.</b>\nAlways."
    opened = Form(page)
    form = await reviewed(owner, "/settings/places/0", memory="false", daily_usd="0.5")
    await owner.act("/settings/places/0/save", **form.with_("save"))
    assert owner.world.live.settings.places[0].memory is False
    stale = await owner.post("/settings/places/0/save", **opened.with_("review", match="discord:*"))
    assert "Somebody changed or removed this entry" in stale.text
    assert Form(stale.text).values["v.match"] == "discord:*"
    removal = Form(await owner.page("/settings/places/0"))
    answer = await owner.post("/settings/places/0/save", **removal.with_("removal"))
    assert "What will be removed" in answer.text
    assert owner.world.live.settings.places
    await owner.act("/settings/places/0/save", **Form(answer.text).with_("save-removal"))
    assert owner.world.live.settings.places == ()
    assert "[[places]]" not in source(owner.world).read_text()
    gone = await owner.visitor.client.get("/settings/places/0", headers={"accept": "text/html"})
    assert gone.status_code == 404


async def test_a_gateway_without_a_file_gets_one(tmp_path: Path) -> None:
    environ = {"TIELINE_HOME": str(tmp_path)}
    live = Live(load(None, environ), environ)
    assert live.settings.source is None
    editor = Editor(live, str, lambda secret: None)
    proposal = editor.propose(editor.file(), Edit(form=editor.forms["queue"], fields={"mode": "drop"}))
    assert await editor.save(proposal) == ()
    assert live.settings.queue.mode == "drop"
    assert live.settings.source == tmp_path / "gateway.toml"
    assert stat.S_IMODE((tmp_path / "gateway.toml").stat().st_mode) == 0o600


async def test_who_may_only_look_sees_no_way_to_change(owner: Browsing) -> None:
    editor = Editor(owner.world.live, str, lambda secret: None)
    log: list[OperatorAction] = []

    async def audit(done: OperatorAction) -> None:
        log.append(done)

    async def tried(values: object) -> tuple[str, ...]:
        return ()

    shell = Shell(
        [settings_section(owner.world.live, editor, tried, audit, owner.world.clock)], audit, owner.world.clock, ""
    )
    client = TestClient(As(Starlette(routes=list(shell.routes)), frozenset({"view"})))
    page = client.get("/settings/queue").text
    assert "Show what will change" not in page
    assert "needs the right “configure”" in page
    assert client.post("/settings/queue/save", data={"v.mode": "drop"}).status_code == 403
    assert client.post("/settings/reload").status_code == 403
    assert log == []


def whole(page: str) -> str:
    """The text in the field of the whole file, as a browser has it."""
    return html.unescape(page.partition("<textarea")[2].partition(">")[2].partition("</textarea>")[0]).removeprefix(
        "\n"
    )


def marked(text: str, key: str) -> str:
    """The line of that key, which must have a mark."""
    line = next(one for one in text.split("\n") if one.startswith(f"{key} ="))
    assert re.search(r'= "\(secret [0-9a-f]{8}\)"', line), line
    return line


SECRET_LINES = (
    '\n# api_key = "an old key"\n[[mcp.servers]]  # one\'s own\r\nname = "notes"\nurl = "http://127.0.0.1:9/mcp"\n'
    'headers = { X-Team = "blue", X-Key = \'quiet-word\' }\n\n[tools.web]\nsearch_key = "seek"\n'
)


@pytest.fixture
async def with_secrets(world_of: Callable[..., World]) -> AsyncIterator[Browsing]:
    world = world_of(config=SECRET_LINES)
    async with world.process(), browsing(world) as owner:
        yield owner


@pytest.mark.requirement("G-100")
async def test_the_whole_file_is_saved_byte_for_byte_but_for_what_was_typed(with_secrets: Browsing) -> None:
    owner, file = with_secrets, source(with_secrets.world)
    before = file.read_bytes()
    assert b"one's own\r\n" in before
    page = await owner.page("/settings/file")
    text = whole(page)
    for secret in ("an old key", "quiet-word", "seek", "blue"):
        assert secret not in page
    marked(text, "search_key")
    form = {**Form(page).values, "text": text.replace("[queue]", "[queue]  # mine", 1)}
    assert form["text"] != text
    answer = await owner.post("/settings/file/save", **form, step="save")
    assert "What will change" in answer.text, "nothing is saved that was not shown"
    assert "+[queue]  # mine" in answer.text
    assert "seek" not in answer.text
    assert file.read_bytes() == before
    proposed = {**Form(answer.text).values, "text": form["text"]}
    told = await owner.act("/settings/file/save", **proposed, step="save")
    assert told == "Saved. All of it is in force."
    assert file.read_bytes() == before.replace(b"[queue]", b"[queue]  # mine", 1)
    assert file.with_name("gateway.toml.bak").read_bytes() == before
    done = (await owner.actions())[-1]
    assert (done.action, done.detail) == ("settings.file", "1 lines added, 1 removed")


def test_the_mask_of_a_key_that_looks_like_a_secret_by_its_name_is_whole(tmp_path: Path) -> None:
    secret = "8f742231b10e8888abcd99yyyzzz85a5"
    config = f'[[channels]]\ntype = "slack"\nsigning_secret = "{secret}"\n[alerts.email]\npassword = "quiet-words"\n'
    environ = {"TIELINE_HOME": str(tmp_path)}
    text = Editor(Live(load(None, environ), environ), Redactor(), lambda value: None).masked(config).text
    marked(text, "signing_secret")
    marked(text, "password")
    assert not re.search(r"\(secret [0-9a-f]{8}\)[^\"]", text)


async def test_what_a_removal_shows_is_what_its_form_shows(world_of: Callable[..., World]) -> None:
    keyed = "http://ben:hush-hush@127.0.0.1:9/?key=s3cret-word"
    servers = f'{SECRET_LINES}\n[[mcp.servers]]\nname = "keyed"\nurl = "{keyed}"\n'
    async with world_of(config=servers).process() as world, browsing(world) as owner:
        for place, address in ((0, 'url = "http://127.0.0.1:9/mcp"'), (1, 'url = "http')):
            path = f"/settings/mcp.servers/{place}"
            answer = await owner.post(f"{path}/save", **Form(await owner.page(path)).with_("removal"))
            assert f"-{address}" in html.unescape(answer.text)
            for secret in ("quiet-word", "blue", "hush-hush", "s3cret-word"):
                assert secret not in answer.text
        whole_file = await owner.page("/settings/file")
        assert "http://127.0.0.1:9/mcp" in whole(whole_file)
        assert "hush-hush" not in whole_file


@pytest.mark.requirement("G-100")
async def test_a_line_with_a_secret_is_kept_moved_or_removed_and_not_changed(with_secrets: Browsing) -> None:
    owner, file = with_secrets, source(with_secrets.world)
    page = await owner.page("/settings/file")
    values, text = Form(page).values, whole(page)
    line = marked(text, "search_key")
    for other in (line.replace("search_key", "notes"), 'name = "(secret 00000000)"'):
        answer = await owner.post("/settings/file/save", **{**values, "text": text.replace(line, other)}, step="review")
        number = text.split("\n").index(line) + 1
        assert f"Line {number} stands for one with a secret that is not in the file." in html.unescape(answer.text)
        assert "What will change" not in answer.text
    typed = text.replace(line, 'search_key = "brand-new-word"')
    answer = await owner.post("/settings/file/save", **{**values, "text": typed}, step="review")
    assert "brand-new-word" not in answer.text, "what was typed stays in the browser"
    assert "hx-preserve" in answer.text
    proposed = {**Form(answer.text).values, "text": typed}
    await owner.act("/settings/file/save", **proposed, step="save")
    assert 'search_key = "brand-new-word"' in file.read_text()
    assert 'api_key = "an old key"' in file.read_text()
    search_key = owner.world.live.settings.tools.web.search_key
    assert search_key is not None
    assert search_key.get_secret_value() == "brand-new-word"
    assert "brand-new-word" not in str(await owner.actions())


@pytest.mark.requirement("G-100")
async def test_mistakes_of_the_file_have_their_lines(with_secrets: Browsing) -> None:
    owner, file = with_secrets, source(with_secrets.world)
    page = await owner.page("/settings/file")
    values, text = Form(page).values, whole(page)
    wrong = text.replace("[queue]", '[queue]\nmode = "<script>alert(1)</script>"', 1)
    answer = await owner.post("/settings/file/save", **{**values, "text": wrong}, step="save")
    number = wrong.split("\n").index("[queue]") + 2
    assert f"Line {number}: queue.mode: " in answer.text
    assert "<script>alert" not in answer.text
    answer = await owner.post("/settings/file/save", **{**values, "text": f"{text}[queue\n"}, step="save")
    assert re.search(r"It is not valid TOML: .* \(at line \d+", html.unescape(answer.text))
    assert 'search_key = "seek"' in file.read_text()
    file.write_text(
        f'{file.read_text()}\n[access\nsearch_key = "half-a-wor\napi_keys = [\n  "first-of-all",\n]\n'
        'api_key =\n"on-the-next-line"\nApi_Key = "another-case"\nargs = ["--login", "an-argument"]\n'
    )
    broken = await owner.page("/settings/file")
    for secret in (
        "half-a-wor",
        "first-of-all",
        "seek",
        "quiet-word",
        "on-the-next-line",
        "another-case",
        "an-argument",
    ):
        assert secret not in broken, "a file that is no TOML shows no secret either"
    assert "The file as it stands is not used" in broken
    refused = await owner.post("/settings/reload")
    assert refused.json()["error"].startswith("Gateway.toml is not used. It is not valid TOML: ")
    form = {**Form(broken).values, "text": whole(broken).rpartition("\n[access\n")[0]}
    shown = await owner.post("/settings/file/save", **form, step="review")
    await owner.act("/settings/file/save", **{**Form(shown.text).values, "text": form["text"]}, step="save")
    assert await owner.act("/settings/reload") == "The file is read. All of it is in force."


@pytest.mark.requirement("G-100")
async def test_a_secret_is_hidden_in_whatever_way_it_is_written(with_secrets: Browsing) -> None:
    owner, file = with_secrets, source(with_secrets.world)
    written = (
        '[[mcp.servers]]\nname = "kettle"\ncommand = "x"\nargs = ["--token", "an-argument", "-v"]\n'
        'api_token = """\nfirst-line\nlast-line"""\n[mcp.servers.headers]\nX-A = """\nmany-words\nat-the-end"""\n'
        '[tools.nothing]\nSearch_Key = "another-case"\n'
    )
    file.write_text(f"{file.read_text()}\n{written}")
    page = await owner.page("/settings/file")
    for secret in ("an-argument", "many-words", "at-the-end", "another-case"):
        assert secret not in page
    assert "cannot be masked" not in page


@pytest.mark.requirement("G-100")
async def test_who_saves_the_whole_file_over_a_change_of_another_is_told(with_secrets: Browsing) -> None:
    owner, file = with_secrets, source(with_secrets.world)
    page = await owner.page("/settings/file")
    mine = {**Form(page).values, "text": whole(page) + "# mine\n"}
    file.write_bytes(file.read_bytes() + b"# of another\n")
    first = await owner.post("/settings/file/save", **mine, step="save")
    assert "Somebody changed the file after you opened this page." in first.text
    assert "-# of another" in first.text
    assert b"# of another\n" in file.read_bytes()
    file.chmod(0o400)
    assert "readonly" in await owner.page("/settings/file")
    refused = await owner.post("/settings/file/save", **{**Form(first.text).values, "text": mine["text"]}, step="save")
    assert "is read-only" in refused.json()["error"]
    file.chmod(0o600)


async def test_the_whole_file_is_for_who_may_configure(owner: Browsing) -> None:
    async def audit(done: OperatorAction) -> None: ...

    async def tried(values: object) -> tuple[str, ...]:
        return ()

    editor = Editor(owner.world.live, str, lambda secret: None)
    shell = Shell(
        [settings_section(owner.world.live, editor, tried, audit, owner.world.clock)], audit, owner.world.clock, ""
    )
    client = TestClient(As(Starlette(routes=list(shell.routes)), frozenset({"view", "operate"})))
    assert client.get("/settings/file").status_code == 403
    assert client.post("/settings/file/save", data={"text": ""}).status_code == 403
    assert "/settings/file" not in client.get("/settings").text


@pytest.mark.requirement("G-102")
async def test_a_secret_that_others_may_read_is_not_used_and_told(owner: Browsing) -> None:
    file, secret = source(owner.world), owner.world.home / "secrets" / "search"
    secret.parent.mkdir(exist_ok=True, mode=0o700)
    secret.write_text("seek-and-find\n")
    secret.chmod(0o640)
    file.write_text(f'{file.read_text()}\n[tools.web]\nsearch_key = "file:secrets/search"\n')
    refused = (await owner.post("/settings/reload")).json()["error"]
    number = file.read_text().split("\n").index('search_key = "file:secrets/search"') + 1
    fix = f"Line {number}: tools.web.search_key: others may read {secret} (mode 0640); chmod 600 {secret}."
    assert fix in refused
    assert fix.rstrip(".") in await owner.page("/settings/file")
    assert owner.world.live.settings.tools.web.search_key is None
    secret.chmod(0o600)
    assert await owner.act("/settings/reload") == "The file is read. All of it is in force."
    assert owner.world.live.settings.tools.web.search_key is not None
    secret.write_text("\n")
    assert f"{secret} is empty; put the secret into it." in (await owner.post("/settings/reload")).json()["error"]


@pytest.mark.requirement("G-109")
async def test_each_field_has_a_plain_label_beside_the_key_of_the_file(owner: Browsing) -> None:
    page = await owner.page("/settings/web")
    assert '<label for="field-max_upload_mb">Max upload (MB) <code>max_upload_mb</code>' in page
    assert '<label for="field-public_url">Public URL <code>public_url</code>' in page
    assert '<label for="field-mode">Mode <code>mode</code>' in await owner.page("/settings/queue")


@pytest.mark.requirement("G-109")
@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("mode", "Mode"),
        ("llm", "LLM"),
        ("upload_timeout_s", "Upload timeout (seconds)"),
        ("usd_per_million_chars", "USD per million chars"),
        ("always_slower_secs", "Always slower (seconds)"),
        ("linger_ms", "Linger (milliseconds)"),
        ("idle_minutes", "Idle (minutes)"),
        ("max_age_hours", "Max age (hours)"),
        ("attachment_days", "Attachment (days)"),
        ("page_kb", "Page (KB)"),
        ("max_mb", "Max (MB)"),
        ("daily_usd", "Daily (USD)"),
        ("days", "Days"),
        ("api_base_url", "API base URL"),
        ("dm", "Direct messages"),
    ],
)
def test_a_key_in_plain_words(name: str, label: str) -> None:
    assert Key(name=name, kind="text").label == label


async def test_the_audit_log_keeps_what_a_setting_was_before_and_no_secret(world_of: Callable[..., World]) -> None:
    async with world_of(config=SECRET_LINES).process() as world, browsing(world) as owner:

        async def saved(path: str, **fields: str) -> str:
            form = await reviewed(owner, path, **fields)
            await owner.act(f"{path}/save", **form.with_("save", **fields))
            return (await owner.actions())[-1].detail

        assert await saved("/settings/access", messages_per_minute="600") == "messages_per_minute: 1000 → 600"
        assert await saved("/settings/access", messages_per_minute="120") == "messages_per_minute: 600 → 120"
        assert "allow: " in await saved("/settings/access", allow="telegram:78\ntelegram:99")
        detail = await saved("/settings/mcp.servers/0", url="http://127.0.0.1:9/other")
        assert detail == "url: http://127.0.0.1:9/mcp → http://127.0.0.1:9/other"
        assert await saved("/settings/tools.web", search_key="another-word") == "search_key: (secret)"


async def test_texts_of_settings_are_for_people(owner: Browsing) -> None:
    page = await owner.page("/settings/access")
    assert "Yes: admins of a group on the platform" in page
    assert "True:" not in page
    shown = await owner.page("/settings/roles/new")
    assert "<code>!</code> denies" in shown
    texts = [text for form in forms().values() for text in (form.about, *(key.about for key in form.keys))]
    assert [text for text in texts if "docs/" in text] == [], "nobody finds that from a page"


async def test_a_search_finds_sections_too(owner: Browsing) -> None:
    page = await owner.page("/settings?find=mcp.servers")
    assert '<a href="/settings/mcp.servers"><code>mcp.servers</code></a> <span class="soft">section' in page
    assert "mcp.servers.name" in page


async def test_rights_of_a_role_are_typed_one_a_line(owner: Browsing) -> None:
    form = await reviewed(owner, "/settings/roles/new", name="looker", people="web:anna", dashboard="view\noperate")
    assert '+dashboard = ["view", "operate"]' in html.unescape(form.page)
    assert "v.dashboard" in form.values
    assert re.search(r'<textarea[^>]*name="v.dashboard"[^>]*placeholder="one a line"', form.page)
    wrong = await reviewed(owner, "/settings/roles/new", name="looker", dashboard="look")
    assert 'id="mistake-dashboard"' in wrong.page
