"""Make the drawings of the documentation: ``python docs/make_drawings.py``.

Colours follow the page that shows a drawing, and the reader's light or dark setting elsewhere.
"""

from pathlib import Path

import numpy as np

IMAGES = Path(__file__).with_name("images")
STYLE = """
.flfl{--ink:var(--md-default-fg-color,#24303b);--soft:var(--md-default-fg-color--light,#6b7780);
--home:#0072b2;--out:#d55e00;--good:#009e73;--fill:rgba(0,114,178,.10);--warm:rgba(213,94,0,.10)}
@media (prefers-color-scheme:dark){.flfl{--ink:var(--md-default-fg-color,#e8ecef);
--soft:var(--md-default-fg-color--light,#a9b3ba)}}
.flfl text{fill:var(--ink);font-family:Helvetica,Arial,sans-serif;font-size:14px}
.flfl .s{fill:var(--soft);font-size:12px}.flfl .b{font-weight:bold}.flfl .m{text-anchor:middle}
.flfl .e{text-anchor:end}
.flfl .home{fill:var(--fill);stroke:var(--home)}.flfl .away{fill:var(--warm);stroke:var(--out)}
.flfl .box{fill:none;stroke:var(--soft)}.flfl .line{stroke:var(--ink);stroke-width:1.5;fill:none}
.flfl .dash{stroke-dasharray:6 4}.flfl .truth{stroke:var(--home);stroke-width:2;fill:none}
.flfl .dot{fill:var(--home)}.flfl .copy{fill:var(--out)}.flfl .band{fill:var(--warm)}
.flfl .tip{fill:var(--ink)}
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
    return f'<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="7"/>'


def say(x, y, text, kind=""):
    """A line of text."""
    return f'<text class="{kind}" x="{x}" y="{y}">{text}</text>'


def arrow(x1, y1, x2, y2, kind=""):
    """A line with a tip."""
    return f'<line class="line {kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="TIP"/>'


def overview():
    """Who sends what to whom."""
    parts = []
    for n, owner in enumerate(("Agency A", "Agency B", "Agency C")):
        y = 20 + 130 * n
        parts += [
            box(20, y, 330, 110, "home"), say(36, y + 24, owner, "b"),
            box(36, y + 38, 118, 56), say(95, y + 62, "clean readings", "m"),
            say(95, y + 81, "never leave", "m s"),
            arrow(154, y + 66, 208, y + 66), say(181, y + 56, "+ noise", "m s"),
            box(210, y + 38, 122, 56), say(271, y + 62, "noisy copies", "m"),
            say(271, y + 81, "made once, kept", "m s"),
            arrow(350, y + 55, 548, 190 + 30 * (n - 1), "dash"),
        ]  # fmt: skip
    parts += [
        say(430, 60, "masked parts of sums,", "m s"), say(430, 76, "loadings from copies", "m s"),
        box(552, 120, 168, 140, "away"), say(636, 150, "Coordinator", "m b"),
        say(636, 178, "sees sums over all", "m"), say(636, 197, "owners, and what", "m"),
        say(636, 216, "is public", "m"), say(636, 246, "need not be trusted", "m s"),
        arrow(636, 262, 636, 330), say(626, 300, "the shared model", "e s"),
        box(400, 334, 320, 66, "home"),
        say(560, 360, "At home, each owner fills its own gaps:", "m"),
        say(560, 381, "shared model + its own clean readings", "m s"),
        '<path class="line" d="M400 367 C 372 367 372 367 356 367" marker-end="TIP"/>',
    ]  # fmt: skip
    drawing("overview", "Who sends what to whom", 740, 420, parts)


def noisy_copy():
    """The noisy copy as a cheaper instrument."""
    rng, t = np.random.default_rng(3), np.arange(60)
    y = 12 + 5 * np.sin(t / 7) + 2.2 * np.sin(t / 2.7 + 1)
    clean = y + rng.normal(0, 0.25, len(t))
    copy = clean + rng.normal(0, 2.0, len(t))
    parts = []
    for left, series, kind, title, below in (
        (40, clean, "dot", "What the owner has", "clean readings, error of the instrument 0.25"),
        (400, copy, "copy", "What the world can learn at most", "noisy copies, added error 2"),
    ):
        x, at = left + 5 * t, lambda v: 212 - 8 * v
        line = " ".join(f"{a:.0f},{at(b):.1f}" for a, b in zip(x, y, strict=True))
        if kind == "copy":
            up = [f"{a:.0f},{at(b + 2):.1f}" for a, b in zip(x, y, strict=True)]
            down = [f"{a:.0f},{at(b - 2):.1f}" for a, b in zip(x, y, strict=True)]
            parts.append(f'<polygon class="band" points="{" ".join(up + down[::-1])}"/>')
        parts.append(f'<polyline class="truth" points="{line}"/>')
        for a, b in zip(x, series, strict=True):
            parts.append(f'<circle class="{kind}" cx="{a:.0f}" cy="{at(b):.1f}" r="2.6"/>')
        parts += [say(left + 148, 24, title, "m b"), say(left + 148, 236, below, "m s")]
    text = "Two values 2 apart are told apart correctly at most 69 % of the time, by anybody, ever"
    parts += [arrow(346, 130, 392, 130), say(360, 264, text, "m")]
    drawing("noisy-copy", "The noisy copy: to the world, a cheaper instrument", 720, 280, parts)


def one_night():
    """One night of a running network."""
    steps = (
        ("03:30", "call", "The coordinator calls. Sites read their files and say who is ready."),
        ("", "copy", "Each site makes noisy copies of the slots that closed since last night."),
        ("", "release", "One secure sum, a few numbers a slot. No site's part can be read."),
        ("", "fit", "Everybody computes the same factors; sites answer with a few loadings."),
        ("", "finish", "Each site fills its own table at home. Nothing leaves after this."),
        ("morning", "results", "Table, intervals, page and scores in each owner's own folder."),
    )
    parts = [arrow(96, 24, 96, 316)]
    for n, (when, what, how) in enumerate(steps):
        y = 40 + 48 * n
        leaves = what in ("release", "fit")
        parts += [
            f'<circle class="{"copy" if leaves else "dot"}" cx="96" cy="{y}" r="7"/>',
            say(78, y + 5, when, "e s"), say(118, y + 5, what, "b"), say(190, y + 5, how),
        ]  # fmt: skip
    parts.append(say(118, 334, "Orange: numbers leave a site, made from copies.", "s"))
    drawing("one-night", "One night of a running network", 700, 346, parts)


def tree():
    """The tree: which folder does what, and calls which."""
    rows = (
        (("cli", "one file a verb"),),
        (("recovery", "recover(): fill, flag, test"), ("report", "the page"),
         ("audit", "attacks it")),
        (("estimators", "FLFL"), ("paper", "the paper's method"), ("service", "every night")),
        (("transport", "carries messages: one process, MQTT, Flower"),),
        (("protocol", "copies, questions, answers, sums"),),
        (("secagg", "hides the sums"), ("ensemble", "finishes at home")),
        (("model", "the maths: basis, smoother, loadings"), ("io", "tables in and out")),
        (("config, codec, constants, errors", "used by all"),),
    )  # fmt: skip
    parts = []
    for n, row in enumerate(rows):
        width = (700 - 12 * (len(row) - 1)) / len(row)
        for m, (name, what) in enumerate(row):
            x, y = 20 + m * (width + 12), 16 + 56 * n
            kind = "away" if name in ("transport", "protocol", "secagg") else "home"
            parts += [
                box(x, y, width, 46, kind),
                say(x + width / 2, y + 20, name, "m b"),
                say(x + width / 2, y + 37, what, "m s"),
            ]
    parts.append(say(370, 476, "Calls go downward only. Orange: what speaks to others.", "m s"))
    drawing("tree", "The folders of src/flfl, from the verbs to the maths", 740, 488, parts)


if __name__ == "__main__":
    for draw in (overview, noisy_copy, one_night, tree):
        draw()
