"""Pages, with the template engine imported at the first one: the server must answer before that (DESIGN §11)."""

from importlib import import_module

from anyio import to_thread


async def page(name: str, **values: object) -> str:
    """The HTML of a template in `templates/`."""
    rendering = await to_thread.run_sync(import_module, "gateway.web.pages.rendering")
    text: str = rendering.render(name, **values)
    return text
