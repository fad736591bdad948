"""Pages of the site that are made from elsewhere: the root's own pages, settings, messages."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel

from flfl.config import CoordinatorSettings, SiteSettings
from flfl.protocol.messages import Schema
from flfl.protocol.schema import PROTOCOL
from flfl.service.versions import WIRE

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
    if page.file.src_uri.startswith(("decisions/", "changelog", "results/")):
        page.meta["search"] = {"boost": 0.05}  # who searches wants what is, not why
    markdown = DRAWING.sub(
        lambda found: (ROOT / "docs" / "images" / found[1]).read_text(encoding="utf-8").rstrip(),
        markdown,
    )
    for name, uri in AT_THE_ROOT.items():
        markdown = re.sub(rf"\]\(\.\./((?:\.\./)*){re.escape(name)}", rf"](\g<1>{uri}", markdown)
    return markdown


def on_post_build(config: MkDocsConfig) -> None:
    """What lets the search work in a folder comes from the site itself, not from another host.

    What needs an address goes: the site has none.
    """
    site = Path(config.site_dir)
    for name in ("404.html", "sitemap.xml", "sitemap.xml.gz"):
        (site / name).unlink(missing_ok=True)
    for page in site.rglob("*.html"):
        up = "../" * (len(page.relative_to(site).parts) - 1)
        text = page.read_text(encoding="utf-8")
        own = text.replace("https://unpkg.com/iframe-worker/shim", f"{up}offline_search.js")
        page.write_text(own, encoding="utf-8")


def on_page_content(html: str, **_: Any) -> str:
    """References of docstrings are names here; a pipe in code has lost its table."""
    html = re.sub(r"<code>[^<]*</code>", lambda found: found[0].replace(r"\|", "|"), html)
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
        default = "needed" if one.is_required() else _default(one.default)
        rows.append([f"`{name}`", _type(one.annotation), default, one.description or ""])
    about = " ".join((kind.__doc__ or "").replace("``", "`").split())
    about = re.sub(r":class:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", about)
    yield f"### {'`[' + table + ']`' if table else 'At the top'}\n\n{about}\n"
    if rows:
        width = 4 if any(row[3] for row in rows) else 3
        header = ["key", "type", "default", "what it is"]
        lines = [header[:width], ["---"] * width, *(row[:width] for row in rows)]
        yield "".join(f"| {' | '.join(line)} |\n" for line in lines)
    for name, model in below:
        yield from _tables(model, name)


def _default(value: Any) -> str:
    """As it is written in a file; nothing where a key that is left out has no value."""
    if value in (None, ()):
        return ""
    if isinstance(value, tuple):
        return f"`[{', '.join(map(repr, value))}]`"
    return f"`{str(value).lower() if isinstance(value, bool) else json.dumps(value, default=str)}`"


_TYPES = {"Path": "path", "str": "text", "int": "whole number", "float": "number", "bool": "yes/no"}


def _type(annotation: Any) -> str:
    if isinstance(annotation, type):
        return _TYPES.get(annotation.__name__, annotation.__name__)
    given = get_args(annotation)
    if given and all(isinstance(one, str) for one in given):
        return " or ".join(f'`"{one}"`' for one in given)
    kind = get_origin(annotation)
    if kind is tuple:
        return f"[{', '.join(map(_type, given))}]"
    if kind is Sequence:
        return f"[{_type(given[0])}, ...]"
    inner = given[:1] if hasattr(annotation, "__metadata__") else given
    return " or ".join(_type(one) for one in inner if one is not type(None)) or str(annotation)


def messages() -> str:
    """Every question of a run, what its answer holds, and what the numbers in both mean."""
    rows = ["| question | asks for | it carries | the answer holds |", "|---|---|---|---|"]
    for kind, purpose in _ASKS.items():
        exchange = PROTOCOL[kind]
        carried, answered = _fields(exchange.question), _fields(exchange.answer)
        rows.append(f"| `{kind}` | {purpose} | {carried} | {answered} |")
    used = {name for one in PROTOCOL.values() for name in (*one.question, *one.answer)}
    if _ASKS.keys() != PROTOCOL.keys() or _HOLDS.keys() != used:
        raise ValueError(f"not explained: {(_ASKS.keys() ^ PROTOCOL) | (_HOLDS.keys() ^ used)}")
    held = ["| name | is | made from |", "|---|---|---|"]
    held += [f"| `{name}` | {' | '.join(about)} |" for name, about in _HOLDS.items()]
    return "\n".join([_ABOUT_MESSAGES.format(WIRE), *rows, _ABOUT_NAMES, *held, ""])


_ABOUT_MESSAGES = """\
# Messages

All that a coordinator can ask, and all that a site can answer, in the order of a run. Made from the
schema that both sides check every message against (`src/flfl/protocol/schema.py`; this is protocol
{}). Only `z` of `release` is a site's part of a sum, and it is masked; every other answer is
public. Who sends what when is drawn in [What leaves a site](../concepts/federation.md).
"""
_ABOUT_NAMES = """
## What the names mean

[Symbols](../notation.md) has the formulas. Questions bring everybody's numbers to all sites.
"""
_ASKS = {
    "vote": "which transform and season suit the site, once in a network's life",
    "resume": "nothing: a night goes on from here",
    "publish": "noisy copies to be made of a stretch of slots, and what is public of them",
    "release": "the site's part of the sums",
    "late": "noisy copies of what came late, if the owner gives them out",
    "add": "nothing: everybody's late copies",
    "begin": "the first loadings; here are the sums",
    "refit": "the next loadings; here are everybody's last ones",
    "finish": "nothing: the last loadings, and each owner goes on at home",
}
_COPIES, _CLEAN, _OPEN = "copies", "clean readings, once", ""
_HOLDS = {
    "z": ("sums of weighted copies: in an answer the site's masked part, else the total", _COPIES),
    "P": ("loadings of the site's sensors", _COPIES),
    "r": ("what the factors leave open of each sensor (variance)", _COPIES),
    "sensors": ("a code for each sensor's name (SHA-256 of it, without a key)", _OPEN),
    "places": ("where it stands on the published map", _OPEN),
    "known": ("at which slots it has copies", "gaps"),
    "error": ("its error in time, rounded up; 0 for a sensor that stays at home", _CLEAN),
    "sigma": ("its added error in this stretch, rounded up", "error, setting, copies of the pilot"),
    "variance": ("of its copies", _COPIES),
    "shift": ("how its centre and season moved since the last stretch", _COPIES),
    "vote": ("the transform and season that suit the site, by their number in the plan", _CLEAN),
    "negative": ("whether any reading is negative", _CLEAN),
    "copies": ("late noisy copies, one by one", _COPIES),
    "rows": ("the sensor of each", _OPEN),
    "slots": ("the slot of each", _OPEN),
    "sigma2": ("the variance of the noise of each", "`sigma`"),
    "seen": ("a hash of all that the site has seen of the run", "questions"),
    "signature": ("the site's signature over its answer and `seen`", _OPEN),
    "signatures": ("those of all sites", _OPEN),
    "names": ("the names of the sites", _OPEN),
    "sizes": ("how many sensors, or late copies, each site has", _OPEN),
    "present": ("which sites are still there", _OPEN),
    "units": ("the agreed transform and season", "votes"),
    "start": ("the first slot of the stretch", _OPEN),
    "stop": ("the slot after its last one", _OPEN),
    "digest": ("of all that became public before", "public numbers"),
    "keep": ("what is before this slot is forgotten", _OPEN),
    "first": ("what is before this slot is not looked at again", _OPEN),
    "fit": ("whether loadings stay as they are, or are fitted anew", _OPEN),
}  # fmt: skip


def _fields(schema: Schema) -> str:
    return ", ".join(f"`{name}`" for name in schema) or "nothing"
