"""The sign-in page where there are more ways than the one-time link. Loads the template engine: imported by name."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template


def _template(name: str) -> Template:
    folder = FileSystemLoader(Path(__file__).parent)
    return Environment(loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True).get_template(name)


_WAYS = _template("ways.html")  # a compiled template, no state


def ways_page(*, problem: str, person: str, has_passwords: bool, oidc_label: str, program: str) -> str:
    """The HTML with a form for passwords, a button of the identity provider, and how to get a link."""
    return _WAYS.render(
        problem=problem, person=person, has_passwords=has_passwords, oidc_label=oidc_label, program=program
    )
