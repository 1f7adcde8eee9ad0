"""Pages, with the template engine imported at the first one: the server must answer before that."""

from importlib import import_module

from anyio import to_thread

from agent.core.phrases import program_as_typed


async def page(name: str, **values: object) -> str:
    """The HTML of a template in `templates/`."""
    rendering = await to_thread.run_sync(import_module, "gateway.web.pages.rendering")
    text: str = rendering.render(name, **values)
    return text


async def sign_in_page(
    problem: str = "", *, person: str = "", has_passwords: bool = False, oidc_label: str = ""
) -> str:
    """The page for people who are not signed in, with the ways that there are beside the one-time link."""
    return await page(
        "sign_in.html",
        problem=problem,
        person=person,
        has_passwords=has_passwords,
        oidc_label=oidc_label,
        program=program_as_typed(to_unpaired=True),
    )
