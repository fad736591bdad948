"""A status as one HTML page: no script, no request, light and dark, wide and narrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

from flfl.service.status import Status, seconds_until

_EVERY = 10
"""Seconds after which the page loads itself again."""
_UNITS = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))
_WARN = 30 * 86400.0
"""A certificate that ends sooner is shown as a warning."""
_BARS = 60


def page(status: Status, problem: str) -> str:
    """The page of a status; ``problem`` is what is wrong, or empty."""
    template = Template((files("flfl.service") / "assets/status.html").read_text(encoding="utf-8"))
    who = "coordinator" if status.sites else "site"
    return template.substitute(
        every=_EVERY,
        title=escape(f"{status.party} - {status.network}"),
        who=who,
        network=escape(status.network),
        party=escape(status.party),
        health="bad" if problem else "good",
        word=escape(problem or "All is well."),
        doing=escape(status.doing),
        tiles="".join(_tile(*tile) for tile in _tiles(status)),
        sections="".join(_sections(status)),
        about=escape(
            f"flfl {status.version}, protocol {status.wire}; running since {_when(status.since)};"
            f" as of {_when(status.at)}; this page loads itself again every {_EVERY} seconds"
        ),
    )


def ago(seconds: float) -> str:
    """A span of time, in words.

    Examples
    --------
    >>> ago(7300), ago(59), ago(-86400.0 * 2)
    ('2 hours', '59 seconds', '2 days')
    """
    span = abs(seconds)
    size, unit = next((pair for pair in _UNITS if span >= pair[0]), _UNITS[-1])
    count = int(span // size)
    return f"{count} {unit}{'s' * (count != 1)}"


def _when(text: str) -> str:
    """A time for people.

    Examples
    --------
    >>> _when("2026-11-18T03:30:00Z"), _when("")
    ('2026-11-18 03:30 UTC', '-')
    """
    return f"{text[:10]} {text[11:16]} UTC" if seconds_until(text) is not None else text or "-"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def _tile(name: str, large: str, small: str = "", state: str = "") -> str:
    shown = f"<small>{escape(small)}</small>" if small else ""
    return f'<div class="{state}"><dt>{escape(name)}</dt><dd>{escape(large)}{shown}</dd></div>'


def _tiles(status: Status) -> Iterable[tuple[str, ...]]:
    now = status.at
    yield _moment("Last good run", status.last_success, now, "{} ago", "none yet")
    if status.next_run:
        yield _moment("Next run", status.next_run, now, "in {}", "")
    if status.sites:
        here = sum(row.get("state") == "here" for row in status.sites)
        state = "" if here == len(status.sites) else "warn"
        yield "Sites here", f"{here} of {len(status.sites)}", "", state
    broker = "connected" if status.connected else "not there"
    yield "Broker", broker, status.broker, "" if status.connected else "bad"
    if (end := status.certificates.get("certificate")) is not None:
        left = seconds_until(end) or 0.0
        state = "bad" if left <= 0 else "warn" if left < _WARN else ""
        yield "Certificate ends in", ago(left) if left > 0 else "has ended", _when(end), state
    totals = status.totals
    if status.sites:
        up, down = (_size(totals.get(name, 0)) for name in ("bytes_up", "bytes_down"))
        yield "From sites, in all runs", up, f"{down} to sites"
    runs, failures = totals.get("runs", 0), totals.get("failures", 0)
    yield "Runs", str(runs), f"{failures} failed", "warn" if failures else ""


def _moment(name: str, when: str, now: str, words: str, never: str) -> tuple[str, ...]:
    then, at = seconds_until(when, 0.0), seconds_until(now, 0.0)
    if then is None or at is None:
        return name, never or when
    return name, words.format(ago(then - at)), _when(when)


def _sections(status: Status) -> Iterable[str]:
    if status.sites:
        rows = [_site_row(row) for row in status.sites]
        yield _table("Sites", ("site", "state", "since", "version", "certificate ends", "problem"),
                     rows)  # fmt: skip
    if status.run:
        yield _table("This run", ("what", ""), [(k.replace("_", " "), _text(v)) for k, v in
                                                 status.run.items()])  # fmt: skip
    if status.deadlines:
        rows = [(name.replace("_", " "), _deadline(name, limit))
                for name, limit in status.deadlines.items()]  # fmt: skip
        yield _table("Deadlines", ("what", ""), rows)
    if status.nights:
        yield _last_runs(status.nights)


def _deadline(name: str, limit: float) -> str:
    return f"{limit:g}" if name == "misses" else ago(limit)


def _site_row(row: Mapping[str, str]) -> tuple[str, ...]:
    problem = row.get("problem", "")
    return (row["site"], row.get("state", ""), _when(row.get("since", "")),
            row.get("version", "-"), _when(row.get("certificate", "")), problem)  # fmt: skip


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value or "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return ", ".join(map(str, value)) or "nobody" if isinstance(value, list | tuple) else str(value)


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(word)}</th>' for word in heads)
    body = "".join(
        "<tr>" + "".join(f'<td data-of="{escape(word)}">{_cell(cell)}</td>'
                         for word, cell in zip(heads, row, strict=True)) + "</tr>"
        for row in rows
    )  # fmt: skip
    head = f"<thead><tr>{head}</tr></thead>" if heads[-1] else ""
    return f"<section><h2>{escape(title)}</h2><table>{head}<tbody>{body}</tbody></table></section>"


def _cell(text: str) -> str:
    known = {"here": "good", "gone": "bad", "well": "good", "failed": "bad", "left": "warn",
             "never seen": "warn"}  # fmt: skip
    if mark := known.get(text):
        return f'<span class="mark {mark}">{escape(text)}</span>'
    return escape(text)


_COLUMNS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "sites": ("sites", str), "aside": ("without", str), "slots": ("slots", str),
    "sensors": ("sensors", str), "gaps": ("gaps", str), "filled": ("filled", str),
    "error": ("error", lambda x: f"{x:.3g}"), "alone": ("error alone", lambda x: f"{x:.3g}"),
    "gain": ("gain", lambda x: f"{100 * x:+.1f}\u00a0%"), "bytes_up": ("from sites", _size),
    "bytes_down": ("to sites", _size), "seconds": ("took", ago),
}  # fmt: skip
"""Figures of a run that a page shows, where the runs have them."""


@dataclass(frozen=True)
class Nights:
    """The last runs as a table and as bars, for any page.

    ``bars`` are places on a drawing of 600 x 80 with the line of nothing at ``line``: x, y, width,
    height, what kind (``good``, ``warn``, ``bad``) and its words.
    """

    title: str
    label: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    line: int
    bars: tuple[tuple[float, float, float, float, str, str], ...]


def nights(runs: Sequence[Mapping[str, Any]]) -> Nights:
    """One bar a run: how much smaller the error is than alone where that is known, else its bytes;
    a failed run fills its place."""
    there = [name for name in _COLUMNS if any(run.get(name) is not None for run in runs)]
    heads = ("ended", "result", *(_COLUMNS[name][0] for name in there), "run")
    rows = []
    for run in reversed(runs):
        shown = (_shown(run, name) for name in there)
        result = "failed" if run["failed"] else "well"
        rows.append((_when(run["ended"]), result, *shown, run["failed"] or run["run"]))
    last, name = list(runs)[-_BARS:], "gain" if "gain" in there else "bytes_up"
    sizes = [float(run.get(name) or 0.0) for run in last]
    most, width = max([abs(size) for size in sizes] or [0.0]) or 1.0, 600 / max(len(last), 20)
    line = 40 if min(sizes, default=0.0) < 0 else 74
    bars = []
    for i, (run, size) in enumerate(zip(last, sizes, strict=True)):
        tall = max((line - 6) * abs(size) / most, 1.0)
        top, kind = (line - tall, "good") if size >= 0 else (line, "warn")
        if run["failed"]:
            top, tall, kind = 6, 68.0, "bad"
        words = f"{_when(run['ended'])}: {run['failed'] or _shown(run, name)}"
        bars.append((round(i * width + 1, 1), round(top, 1), round(width - 2, 1), round(tall, 1),
                     kind, words))  # fmt: skip
    title = "Gain of the network over this owner alone" if name == "gain" else "Bytes from sites"
    label = f"{title}, the last {len(last)} runs, oldest first. A run that failed fills its place."
    return Nights(title, label, heads, tuple(rows), line, tuple(bars))


def _shown(run: Mapping[str, Any], name: str) -> str:
    return "-" if run.get(name) is None else _COLUMNS[name][1](run[name])


def _last_runs(runs: Sequence[Mapping[str, Any]]) -> str:
    made = nights(runs)
    drawn = "".join(
        f'<rect class="{kind}" x="{x}" y="{y}" width="{wide}" height="{tall}">'
        f"<title>{escape(words)}</title></rect>"
        for x, y, wide, tall, kind, words in made.bars
    )
    return (
        f'<section><h2>{escape(made.title)}</h2><svg viewBox="0 0 600 80" role="img"'
        f' aria-label="{escape(made.label)}">'
        f'<line x1="0" x2="600" y1="{made.line}" y2="{made.line}"/>{drawn}'
        f'</svg><p class="small">{escape(made.label)}</p></section>'
    ) + _table("Last runs", made.heads, made.rows)
