"""Where figures are drawn: the one place that imports matplotlib, and the look they share.

Two equal figures are equal files: no dates, no versions, no random names in them.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from flfl.errors import FLFLError

NO_FIGURES = "Note: no figures were drawn; they need matplotlib: pip install 'flfl[figures]'"
COLUMN = 3.4
"""Inches: a column of a two-column page."""
OUR_COLOUR = "#D55E00"
COLOURS = ("#0072B2", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's: told apart by colour-blind readers too; ours is the vermilion one."""
MARKERS = "sD^vPX"
GREY = "#999999"
_STYLE: dict[Any, Any] = {
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.labelsize": 7,
    "legend.fontsize": 6,
    "xtick.labelsize": 6,
    "ytick.labelsize": 6,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.0,
    "lines.markersize": 3.5,
    "legend.frameon": False,
    "savefig.dpi": 220,
    "svg.fonttype": "path",
    # Names inside an SVG are random without it.
    "svg.hashsalt": "flfl",
}

Draw = Callable[[Any], None]


def available() -> bool:
    """Whether figures can be drawn here."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def render(draw: Draw, height: float, kind: str, width: float = COLUMN) -> bytes:
    """The file of a figure.

    Parameters
    ----------
    draw : puts something on an empty figure
    height, width : inches
    kind : ``"png"`` or ``"svg"``
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise FLFLError("figures need matplotlib: pip install 'flfl[figures]'") from None
    with mpl.rc_context({**mpl.rcParamsDefault, **_STYLE}):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        file = io.BytesIO()
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        figure.savefig(file, format=kind, metadata=metadata)
    return file.getvalue()
