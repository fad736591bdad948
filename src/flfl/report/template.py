"""The markup: ``assets/page.html`` filled by Jinja, which escapes whatever comes from files."""

from __future__ import annotations

from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from flfl.report.content import Content

SCRIPTS = ("readings.js", "view.js", "theme.js", "charts.js", "page.js")


def render(
    *,
    content: Content,
    data: str,
    charts: dict[str, str],
    library: str,
) -> str:
    """The whole page. ``data`` and ``charts`` are JSON."""
    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(_asset("page.html"))
    return page.render(
        content=content,
        data=inert(data),
        charts={name: inert(text) for name, text in charts.items()},
        # The library's own text has no markup in it that could end the script; ours neither.
        library=Markup(library),
        scripts=[Markup(_asset(name)) for name in SCRIPTS],
        style=Markup(_asset("page.css")),
    )


def inert(text: str) -> Markup:
    r"""JSON for a ``<script>`` element: no character in it can end the element.

    Examples
    --------
    >>> print(inert('{"name": "</script><b>"}'))
    {"name": "\u003c/script\u003e\u003cb\u003e"}
    """
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def _asset(name: str) -> str:
    return (files("flfl.report") / "assets" / name).read_text(encoding="utf-8")
