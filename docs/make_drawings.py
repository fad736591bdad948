"""Make the drawings of the documentation: ``python docs/make_drawings.py [NAME ...]``.

Without names, all but ``outage``, which runs the method on the bundled data (half a minute).
Colours follow the page that shows a drawing, and the reader's light or dark setting elsewhere.
Drawings are narrow, so that a phone shows their text at a size that can be read.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

IMAGES = Path(__file__).with_name("images")
STYLE = """
.flfl{--ink:var(--md-default-fg-color,#24303b);--soft:var(--md-default-fg-color--light,#5b6770);
--home:#0072b2;--out:#d55e00;--fill:rgba(0,114,178,.10);--warm:rgba(213,94,0,.13)}
@media (prefers-color-scheme:dark){.flfl{--ink:var(--md-default-fg-color,#e8ecef);
--soft:var(--md-default-fg-color--light,#a9b3ba);--home:#56b4e9;--out:#f08c3c}}
.flfl text{fill:var(--ink);font-family:Helvetica,Arial,sans-serif;font-size:15px}
.flfl .s{fill:var(--soft);font-size:13px}.flfl .b{font-weight:bold}.flfl .m{text-anchor:middle}
.flfl .e{text-anchor:end}
.flfl .home{fill:var(--fill);stroke:var(--home)}.flfl .away{fill:var(--warm);stroke:var(--out)}
.flfl .box{fill:none;stroke:var(--soft)}.flfl .line{stroke:var(--ink);stroke-width:1.5;fill:none}
.flfl .dash{stroke-dasharray:6 4}.flfl .axis{stroke:var(--soft)}
.flfl .truth{stroke:var(--home);stroke-width:2;fill:none}
.flfl .network{stroke:var(--out);stroke-width:2.5;fill:none}
.flfl .alone{stroke:var(--soft);stroke-width:2;fill:none;stroke-dasharray:5 4}
.flfl .dot{fill:var(--home)}.flfl .copy{fill:var(--out)}.flfl .band{fill:var(--warm)}
.flfl .hidden{fill:none;stroke:var(--home);stroke-width:1.5}.flfl .tip{fill:var(--ink)}
"""


def drawing(name, title, width, height, parts):
    """Write one drawing."""
    style = STYLE.replace("\n", "")
    tip = (
        f'<defs><marker id="{name}-tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7"'
        ' markerHeight="7" orient="auto-start-reverse"><path class="tip" d="M0 0L10 5L0 10z"/>'
        "</marker></defs>"
    )
    body = "\n".join(parts).replace("TIP", f"url(#{name}-tip)")
    text = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="flfl" viewBox="0 0 {width} {height}"'
        f' role="img"><title>{title}</title><style>{style}</style>{tip}\n{body}\n</svg>\n'
    )
    (IMAGES / f"{name}.svg").write_text(text, encoding="utf-8")


def box(x, y, w, h, kind="box"):
    """A box with round corners."""
    return f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="7"/>'


def say(x, y, text, kind=""):
    """A line of text."""
    return f'<text class="{kind}" x="{x:g}" y="{y:g}">{text}</text>'


def named(x, y, w, h, name, about, kind="box", weight=""):
    """A box with a name and a small line below it."""
    middle, lift = x + w / 2, y + h / 2
    return [
        box(x, y, w, h, kind),
        say(middle, lift - 3, name, f"m {weight}"),
        say(middle, lift + 15, about, "m s"),
    ]


def arrow(x1, y1, x2, y2, kind=""):
    """A line with a tip."""
    return f'<line class="line {kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="TIP"/>'


def path(x, y):
    """The points of a line."""
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def dots(x, y, kind):
    """One dot for each reading."""
    pairs = zip(x, y, strict=True)
    return [f'<circle class="{kind}" cx="{a:.1f}" cy="{b:.1f}" r="2.6"/>' for a, b in pairs]


def overview():
    """Who sends what to whom."""
    parts = []
    for n, owner in enumerate(("Agency A", "Agency B", "Agency C")):
        x = 10 + 172 * n
        middle = x + 78
        parts += [
            box(x, 10, 156, 168, "home"), say(middle, 33, owner, "m b"),
            *named(x + 12, 44, 132, 46, "clean readings", "never leave"),
            arrow(middle, 91, middle, 117), say(middle + 8, 109, "+ noise", "s"),
            *named(x + 12, 120, 132, 46, "noisy copies", "made once"),
            arrow(middle, 180, middle, 230, "dash"),
            arrow(middle, 306, middle, 352),
            *named(x, 356, 156, 58, "fills its own gaps", "at home", "home"),
        ]  # fmt: skip
    parts += [
        say(174, 210, "masked sums", "m s"), say(346, 210, "loadings", "m s"),
        box(10, 234, 500, 70, "away"), say(260, 260, "Coordinator", "m b"),
        say(260, 284, "reads totals over all owners; need not be trusted", "m s"),
        say(174, 334, "shared model", "m s"), say(346, 334, "shared model", "m s"),
    ]  # fmt: skip
    drawing("overview", "Who sends what to whom", 520, 424, parts)


def noisy_copy():
    """The noisy copy as a cheaper instrument."""
    rng, t = np.random.default_rng(3), np.arange(60)
    y = 12 + 5 * np.sin(t / 7) + 2.2 * np.sin(t / 2.7 + 1)
    clean = y + rng.normal(0, 0.25, len(t))
    copy = clean + rng.normal(0, 2.0, len(t))
    parts = []
    for left, series, kind, title, below in (
        (16, clean, "dot", "What the owner has", "clean readings"),
        (278, copy, "copy", "What others learn at most", "noisy copies, added error 2"),
    ):
        x, at = left + 3.8 * t, lambda v: 222 - 8.5 * v
        if kind == "copy":
            edge = np.concatenate([at(y + 2), at(y - 2)[::-1]])
            points = path(np.concatenate([x, x[::-1]]), edge)
            parts.append(f'<polygon class="band" points="{points}"/>')
        parts.append(f'<polyline class="truth" points="{path(x, at(y))}"/>')
        parts += dots(x, at(series), kind)
        parts += [say(left + 113, 22, title, "m b"), say(left + 113, 236, below, "m s")]
    parts += [
        arrow(250, 130, 272, 130),
        say(260, 266, "Two values 2 apart are told apart", "m"),
        say(260, 287, "at most 69 % of the time, by anybody, ever.", "m"),
    ]
    drawing("noisy-copy", "The noisy copy: to the world, a cheaper instrument", 520, 298, parts)


def one_night():
    """One night of a running network."""
    steps = (
        ("call", "Sites read their files and say who is ready.", False),
        ("copy", "Each makes noisy copies of the slots that have closed.", False),
        ("release", "A masked sum over all sites: a few numbers a slot.", True),
        ("fit", "All compute the same factors; sites send loadings.", True),
        ("finish", "Each site fills its own table. Nothing leaves any more.", False),
        ("results", "Table, intervals, page and scores, in its own folder.", False),
    )
    parts = [arrow(88, 20, 88, 350), say(70, 37, "03:30", "e s"), say(70, 312, "morning", "e s")]
    for n, (what, how, leaves) in enumerate(steps):
        y = 32 + 55 * n
        parts += [
            f'<circle class="{"copy" if leaves else "dot"}" cx="88" cy="{y}" r="8"/>',
            say(112, y + 5, what, "b"),
            say(112, y + 25, how, "s"),
        ]
    parts.append(say(112, 364, "Orange: numbers leave a site, made from copies.", "s"))
    drawing("one-night", "One night of a running network", 480, 376, parts)


def tree():
    """The tree: which folder does what, and calls which."""
    rows = (
        (("cli", "one file for each verb"),),
        (("report", "the page"), ("recovery", "fill, flag, test"), ("audit", "attacks")),
        (("service", "every night"), ("estimators", "FLFL"), ("paper", "its method")),
        (("transport", "carries messages: one process, MQTT, Flower"),),
        (("protocol", "copies, questions, answers, journal"),),
        (("secagg", "sums that hide their terms"), ("ensemble", "the finish at home")),
        (("model", "basis, smoother, loadings"), ("io, datasets", "tables in and out")),
        (("config, codec, constants, errors", "used by all"),),
    )
    parts = []
    for n, row in enumerate(rows):
        width = (480 - 10 * (len(row) - 1)) / len(row)
        for m, (name, what) in enumerate(row):
            kind = "away" if name in ("transport", "protocol", "secagg") else "home"
            x, y = 10 + m * (width + 10), 10 + 58 * n
            parts += named(x, y, width, 48, name, what, kind, "b")
    parts.append(say(250, 496, "Calls go downward only. Orange: what speaks to others.", "m s"))
    drawing("tree", "The folders of src/flfl, from the verbs to the maths", 500, 508, parts)


def messages():
    """The questions of a run, and what answers them."""
    parts = [
        box(10, 10, 204, 500, "home"), say(112, 34, "Site", "m b"),
        *named(24, 46, 176, 48, "clean readings", "never leave"),
        arrow(148, 94, 148, 114), *named(96, 116, 104, 48, "copier", "adds noise"),
        arrow(148, 164, 148, 184), *named(96, 186, 104, 48, "copy store", "for ever"),
        arrow(148, 234, 148, 254), *named(96, 256, 104, 170, "handlers", "see copies"),
        arrow(52, 94, 52, 444), arrow(148, 426, 148, 444),
        *named(24, 446, 176, 52, "finish at home", "no message after this"),
        box(412, 10, 118, 500, "away"), say(471, 34, "Coordinator", "m b"),
        say(471, 72, "asks all sites,", "m s"), say(471, 89, "adds, smooths", "m s"),
        say(471, 478, "holds public", "m s"), say(471, 495, "numbers only", "m s"),
        say(313, 72, "carried in one process,", "m s"),
        say(313, 89, "over MQTT or by Flower", "m s"),
    ]  # fmt: skip
    for y, question, answer, kind in (
        (140, "vote, publish", "positions, gaps, errors", ""),
        (216, "release", "part of a sum, masked", "dash"),
        (292, "begin, refit (rounds)", "loadings of its sensors", ""),
        (368, "finish", "", ""),
    ):
        parts += [say(313, y - 7, question, "m b"), arrow(410, y, 216, y)]
        if answer:
            parts += [arrow(216, y + 16, 410, y + 16, kind), say(313, y + 33, answer, "m s")]
    parts += [
        say(313, 478, "dashed: only the total", "m s"),
        say(313, 495, "can be read", "m s"),
    ]
    drawing("messages", "The questions of a run, and what answers them", 540, 520, parts)


def filled_outage(length=40):
    """The days in which the readings of an owner with one station vary most, hidden and filled."""
    from flfl import recover
    from flfl.datasets.catalogue import load_dataset

    table, sensors = load_dataset("germany_pm10")
    owners = dict(zip(sensors.ids, sensors.sites, strict=True))
    own = next(i for i in owners if list(owners.values()).count(owners[i]) == 1)
    truth = table.values[own]
    days = truth.rolling(length)  # quantiles, so that one odd reading does not choose
    varies = (days.quantile(0.9) - days.quantile(0.1)).where(days.count() == length)
    last = int(np.nanargmax(varies))
    gap = slice(last - length + 1, last + 1)
    readings = table.values.copy()
    readings.iloc[gap, readings.columns.get_loc(own)] = np.nan
    alone, network = (
        recover(readings, sensors, method=m, effort="quick", verbose=0) for m in ("alone", "flfl")
    )
    columns = {"truth": truth, "alone": alone.values[own], "network": network.values[own]}
    columns |= {"lower": network.lower[own], "upper": network.upper[own]}
    return pd.DataFrame(columns), gap, owners[own]


def outage():
    """Forty days that one agency lost, filled alone and with the others."""
    days, gap, owner = filled_outage()
    lost = days.iloc[gap]
    around = days.iloc[gap.start - 1 : gap.stop + 1]  # lines begin and end at readings
    seen = days["truth"].iloc[gap.start - 14 : gap.stop + 15].drop(lost.index).dropna()
    first, scale = gap.start - 14, 190 / max(seen.max(), lost["upper"].max())

    def x(of):
        return 34 + 400 / (gap.stop - gap.start + 29) * (days.index.get_indexer(of) - first)

    def y(values):
        return 230 - scale * np.asarray(values, dtype=float)

    band = path(
        np.r_[x(lost.index), x(lost.index)[::-1]], np.r_[y(lost["upper"]), y(lost["lower"])[::-1]]
    )
    off = {way: (lost[way] - lost["truth"]).abs().mean() for way in ("alone", "network")}
    lines = [
        f'<polyline class="{way}" points="{path(x(around.index), y(around[way]))}"/>' for way in off
    ]
    when = f"{len(lost)} days, {lost.index[0]:%d %b} to {lost.index[-1]:%d %b %Y}, hidden"
    parts = [
        f'<polygon class="band" points="{band}"/>', *lines,
        *dots(x(seen.index), y(seen), "dot"), *dots(x(lost.index), y(lost["truth"]), "hidden"),
        '<line class="axis" x1="34" y1="230" x2="430" y2="230"/>',
        *(say(28, y(v) + 5, f"{v}", "e s") for v in range(0, int(190 / scale), 40)),
        say(8, 18, "PM10 in ug/m3, one value a day", "s"),
        say(x(lost.index).mean(), 252, when, "m"),
        '<circle class="hidden" cx="44" cy="276" r="4"/>',
        say(56, 281, "readings that were hidden"),
        '<line class="alone" x1="30" y1="300" x2="58" y2="300"/>',
        say(66, 305, f"alone: off by {off['alone']:.1f}"),
        '<line class="network" x1="220" y1="300" x2="248" y2="300"/>',
        say(256, 305, f"together: off by {off['network']:.1f}"),
    ]  # fmt: skip
    drawing("outage", f"An outage of the only station of {owner}", 440, 316, parts)


DRAWINGS = overview, noisy_copy, one_night, tree, messages, outage
if __name__ == "__main__":
    for draw in DRAWINGS:
        name = draw.__name__.replace("_", "-")
        if name in sys.argv[1:] or (draw is not outage and len(sys.argv) == 1):
            draw()
