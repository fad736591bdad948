"""Pages of the site that are made from elsewhere: the root's own pages, settings, messages."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel

from flfl.config import CoordinatorSettings, SiteSettings
from flfl.protocol.messages import Schema
from flfl.protocol.schema import PROTOCOL

ROOT = Path(__file__).parents[1]
AT_THE_ROOT = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
DRAWING = re.compile(r"!\[[^\]]*\]\([./]*images/([\w-]+\.svg)\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in the folder."""
    for name, uri in AT_THE_ROOT.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        files.append(File.generated(config, uri, content=LINK.sub(_from_root, text)))
    pages = {"reference/settings.md": settings(), "reference/messages.md": messages()}
    for uri, text in pages.items():
        files.append(File.generated(config, uri, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Drawings stand in the page, whose colours they take; links to the root lead to pages here."""
    if page.file.src_uri.startswith(("decisions/", "changelog")):
        page.meta["search"] = {"boost": 0.2}  # who searches wants what is, not why
    markdown = DRAWING.sub(
        lambda found: (ROOT / "docs" / "images" / found[1]).read_text(encoding="utf-8").rstrip(),
        markdown,
    )
    for name, uri in AT_THE_ROOT.items():
        markdown = re.sub(rf"\]\(\.\./((?:\.\./)*){re.escape(name)}", rf"](\g<1>{uri}", markdown)
    return markdown


def on_post_build(config: MkDocsConfig) -> None:
    """What lets the search work in a folder comes from the site itself, not from another host."""
    site = Path(config.site_dir)
    for page in site.rglob("*.html"):
        up = "../" * (len(page.relative_to(site).parts) - 1)
        text = page.read_text(encoding="utf-8")
        own = text.replace("https://unpkg.com/iframe-worker/shim", f"{up}offline_search.js")
        page.write_text(own, encoding="utf-8")


def on_page_content(html: str, **_: Any) -> str:
    """References of docstrings are names here."""
    return re.sub(
        r":(?:class|func|mod|meth):<code>~?(?:[\w.]*\.)?(\w+)</code>", r"<code>\1</code>", html
    )


def _from_root(found: re.Match[str]) -> str:
    """A link of a page at the root, as it is from docs/: files outside of it are named only."""
    image, text, target = found.groups()
    name, _, anchor = target.partition("#")
    if ":" in target or not name:
        return found[0]
    if name in AT_THE_ROOT:
        name = AT_THE_ROOT[name]
    elif name.startswith("docs/"):
        name = name.removeprefix("docs/")
    else:
        return f"`{name}`" if text == name else f"{text} (`{name}`)"
    return f"{image}[{text}]({name}{'#' + anchor if anchor else ''})"


def settings() -> str:
    """Every setting of a coordinator and of a site."""
    parts = ["# Settings of a coordinator and a site\n", _ABOUT_SETTINGS]
    for kind in (CoordinatorSettings, SiteSettings):
        verb = "coordinator" if kind is CoordinatorSettings else "site"
        parts += [f"## `flfl {verb}`\n", *_tables(kind, "")]
    return "\n".join(parts)


_ABOUT_SETTINGS = """\
Made from the code that checks them. A file with a key that is not here, or a value of another type,
is refused with the nearest right key. Paths are taken from the folder of the file.
[Operating a network](../deployment.md) shows whole files.
"""


def _tables(kind: type[BaseModel], table: str) -> Iterator[str]:
    rows, below = [], []
    for name, one in kind.model_fields.items():
        inner = [t for t in (one.annotation, *get_args(one.annotation)) if isinstance(t, type)]
        models = [t for t in inner if issubclass(t, BaseModel)]
        if models:
            below.append((f"{table}.{name}".lstrip("."), models[0]))
            continue
        default = "needed" if one.is_required() else f"`{_default(one.default)}`"
        rows.append(f"| `{name}` | {_type(one.annotation)} | {default} |")
    about = " ".join((kind.__doc__ or "").replace("``", "`").split())
    about = re.sub(r":class:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", about)
    yield f"### {'`[' + table + ']`' if table else 'At the top'}\n\n{about}\n"
    if rows:
        yield "| key | type | default |\n|---|---|---|\n" + "\n".join(rows) + "\n"
    for name, model in below:
        yield from _tables(model, name)


def _default(value: Any) -> str:
    return f'"{value}"' if isinstance(value, Path | str) else repr(value)


def _type(annotation: Any) -> str:
    if isinstance(annotation, type):
        return {"Path": "path", "str": "text"}.get(annotation.__name__, annotation.__name__)
    given = get_args(annotation)
    if given and all(isinstance(one, str) for one in given):
        return " or ".join(f'`"{one}"`' for one in given)
    inner = given[:1] if hasattr(annotation, "__metadata__") else given
    return " or ".join(_type(one) for one in inner if one is not type(None)) or str(annotation)


def messages() -> str:
    """Every question of a run and what its answer holds."""
    rows = ["| question | it carries | the answer holds |", "|---|---|---|"]
    for kind, exchange in PROTOCOL.items():
        rows.append(f"| `{kind}` | {_fields(exchange.question)} | {_fields(exchange.answer)} |")
    return f"# Messages\n\n{_ABOUT_MESSAGES}\n" + "\n".join(rows) + "\n"


_ABOUT_MESSAGES = """\
All that a coordinator can ask, and all that a site can answer. Made from the schema that both sides
check every message against. Only `z` of `release` is a site's part of a sum, and it is masked;
every other answer is public. `seen` and `signature` are a hash of what the site saw and its
signature. Who sends what when is drawn in [What leaves a site](../concepts/federation.md).
"""


def _fields(schema: Schema) -> str:
    return ", ".join(f"`{name}`" for name in schema) or "nothing"
