"""Experiments as data: a TOML file says what is run, all of it checked before any work.

title = "..."                      # of the report
views = ["rates", "ranks"]         # figures and tables to make, see ``VIEWS``

[[data]]                           # only for what is no data set of `flfl data list`
name = "mine"
readings = "mine.csv"              # beside this file; with sensors = "..." perhaps
[[data]]
name = "20 sensors"
made = {sensors = 20, slots = 500} # made-up readings

[[variant]]                        # a method with options of its own, and a name for it
label = "flfl trusted"
method = "flfl"
options = {added_error = 0}

[[run]]                            # a product; cells that occur twice are run once
data = ["D1_beijing_co", "mine"]
rates = [0.1, 0.5]
patterns = ["random"]
methods = ["flfl", "flfl trusted"] # names of the registry, or labels of variants
seeds = 5                          # 0 to 4; or a list
seconds = 20                       # what a cell may take: orders the work, nothing else
audit = true                       # attack the configuration too
options = {}                       # added to those of every method of this run
block_length = 24
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from flfl.datasets.masks import PATTERNS
from flfl.errors import InputError, explained
from flfl.evaluation import training_mask
from flfl.io.files import PARQUET_SUFFIXES, TEXT_SUFFIXES, suffix_of
from flfl.methods import create, find, methods
from flfl_bench.cells import Cell, Source, fingerprint, json_text, load
from flfl_bench.keys import Keys, nearest

VIEWS = ("rates", "parts", "exposure", "bytes", "seconds", "scaling", "ranks", "paper")
"""What a report can show, see ``flfl_bench.report``."""
AUDITED = {"flfl": "sums", "flfl-paper": "plain"}
"""Methods that the audit can attack, and what they disclose."""
_MADE = {"sensors": int, "slots": int, "rank": int, "noise": float, "missing": float, "seed": int}


@dataclass(frozen=True)
class Experiment:
    """What a file asks for.

    Attributes
    ----------
    name : of the file, without its suffix
    cells : in the order of the file, each once
    """

    name: str
    title: str
    views: tuple[str, ...]
    cells: tuple[Cell, ...] = field(repr=False)

    @property
    def labels(self) -> tuple[str, ...]:
        """Methods and variants, in the order in which they first occur."""
        return tuple(dict.fromkeys(cell.label for cell in self.cells))

    def select(
        self,
        *,
        labels: Sequence[str] = (),
        data: Sequence[str] = (),
        rates: Sequence[float] = (),
    ) -> tuple[Cell, ...]:
        """The cells with one of these labels, data sets and rates; nothing given means all."""
        chosen = self.cells
        for wanted, of, what in (
            (labels, _label, "--only"),
            (data, _data, "--data"),
            (rates, _rate, "--rates"),
        ):
            known = list(dict.fromkeys(of(cell) for cell in self.cells))
            for one in wanted:
                if one not in known:
                    raise InputError(
                        f"the experiment has no {one!r}", where=what, remedy=nearest(one, known)
                    )
            chosen = tuple(cell for cell in chosen if not wanted or of(cell) in wanted)
        if not chosen:
            raise InputError("no cell is left", remedy="Loosen --only, --data or --rates")
        return chosen


def _label(cell: Cell) -> Any:
    return cell.label


def _data(cell: Cell) -> Any:
    return cell.source.name


def _rate(cell: Cell) -> Any:
    return cell.rate


def read_experiment(path: str | Path, only: Sequence[str] = ()) -> Experiment:
    """Read and check a file; the readings it names are loaded once to see that they are there.

    Where ``only`` some labels are to be run, methods of other labels may be missing here: their
    cells are left out.
    """
    path = Path(path)
    with explained("the file cannot be read", where=str(path), remedy="Check the name"):
        content = path.read_bytes()
    try:
        given = tomllib.loads(content.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"this is no TOML: {error}", where=str(path), remedy="Correct the line named"
        ) from None
    return _Reader(path, given, tuple(only)).experiment()


@dataclass
class _Reader:
    path: Path
    given: dict[str, Any]
    only: tuple[str, ...]

    def experiment(self) -> Experiment:
        top = Keys(str(self.path), self.given, ("title", "views", "data", "variant", "run"))
        views = top.names("views", default=())
        for view in views:
            top.one_of("views", view, VIEWS)
        self.sources: dict[str, Source] = {}
        for keys in top.tables("data", _DATA_KEYS):
            keys.new("name", self.sources)
            self.sources |= [self._source(keys)]
        self.variants: dict[str, tuple[str, dict[str, Any]]] = {}
        for keys in top.tables("variant", _VARIANT_KEYS):
            keys.new("label", self.variants)
            self.variants |= [self._variant(keys)]
        cells: dict[tuple[str, str], Cell] = {}
        runs = top.tables("run", _RUN_KEYS)
        if not runs:
            raise top.error("nothing is to be run", "Add a [[run]] table")
        self.fingerprints: dict[str, str] = {}
        for keys in runs:
            for cell in self._run(keys):
                cells.setdefault((cell.label, cell.key), cell)
        return Experiment(
            name=self.path.stem,
            title=top.text("title", default=self.path.stem),
            views=views,
            cells=tuple(cells.values()),
        )

    def _source(self, keys: Keys) -> tuple[str, Source]:
        name = keys.text("name")
        made = keys.get("made", dict, None)
        readings = keys.text("readings", default=None)
        if (made is None) == (readings is None):
            raise keys.error(
                f"{name!r} needs either readings or made", "Give one of them; see `flfl data list`"
            )
        if made is None:
            sensors = keys.text("sensors", default=None)
            return name, Source(name, self._beside(readings), sensors and self._beside(sensors))
        inner = Keys(f"{keys.where} made", made, tuple(_MADE))
        for option, kind in _MADE.items():
            given = inner.get(option, (int, float) if kind is float else int, None)
            if given is not None and not math.isfinite(given):
                raise inner.error(f"{option} = {given} is no number", "Give a number")
        return name, Source(name, made=json_text(made))

    def _beside(self, file: str) -> str:
        return str(self.path.parent / file)

    def _variant(self, keys: Keys) -> tuple[str, tuple[str, dict[str, Any]]]:
        label, method = keys.text("label"), keys.text("method")
        if label in methods():
            raise keys.error(f"{label!r} is a method of its own", "Choose another label")
        keys.one_of("method", method, methods())
        return label, (method, keys.get("options", dict, {}))

    def _run(self, keys: Keys) -> Iterable[Cell]:
        data = [self._loaded(keys, name) for name in keys.names("data")]
        rates = [keys.share(rate) for rate in keys.items("rates", (int, float))]
        patterns = keys.names("patterns", default=("random",))
        for pattern in patterns:
            keys.one_of("patterns", pattern, PATTERNS)
        found = [self._method(keys, label) for label in keys.names("methods")]
        methods = [one for one in found if one is not None]
        seeds = self._seeds(keys)
        shape = {
            "block_length": keys.get("block_length", int, None),
            "audit": keys.get("audit", bool, False),
            "expected": float(keys.get("seconds", (int, float), 10.0)),
        }
        extra = keys.get("options", dict, {})
        for source, pattern, rate in product(data, patterns, rates):
            with keys.placed():
                table, sensors = load(source)
                training_mask(table, sensors, rate, pattern, seeds[0], shape["block_length"])
        for label, method, options in methods:
            if shape["audit"] and method not in AUDITED:
                raise keys.error(
                    f"{label!r} cannot be audited", f"audit is for {' and '.join(AUDITED)}"
                )
            if self._asked(label):
                with keys.placed():
                    _check_options(method, options | extra)
        for source, pattern, rate, (label, method, options), seed in product(
            data, patterns, rates, methods, seeds
        ):
            yield Cell(
                source=source,
                fingerprint=self.fingerprints[source.name],
                pattern=pattern,
                rate=rate,
                seed=seed,
                label=label,
                method=method,
                options=json_text(options | extra),
                **shape,
            )

    def _loaded(self, keys: Keys, name: str) -> Source:
        source = self.sources.get(name)
        if source is None and suffix_of(Path(name)) in TEXT_SUFFIXES + PARQUET_SUFFIXES:
            source = Source(name, self._beside(name))
        source = source or Source(name)
        if name not in self.fingerprints:
            with keys.placed():
                self.fingerprints[name] = fingerprint(*load(source))
        return source

    def _asked(self, label: str) -> bool:
        return not self.only or label in self.only

    def _method(self, keys: Keys, label: str) -> tuple[str, str, dict[str, Any]] | None:
        if label in self.variants:
            return label, *self.variants[label]
        if label not in methods() and not self._asked(label):
            return None
        keys.one_of("methods", label, [*self.variants, *methods()])
        return label, label, {}

    def _seeds(self, keys: Keys) -> list[int]:
        given = keys.get("seeds", (int, list), 1)
        seeds = list(range(given)) if isinstance(given, int) else given
        if not seeds or not all(type(seed) is int and seed >= 0 for seed in seeds):
            raise keys.error(f"seeds = {given!r}", "Give a number of seeds, or a list such as [0]")
        return seeds


_DATA_KEYS = ("name", "readings", "sensors", "made")
_VARIANT_KEYS = ("label", "method", "options")
_RUN_KEYS = (
    "data", "rates", "patterns", "methods", "seeds", "seconds", "audit", "options", "block_length"
)  # fmt: skip


def _check_options(method: str, options: dict[str, Any]) -> None:
    """Refuse an option that the method does not have, or a value that it does not take."""
    find(method).require()
    if "seed" in options:
        raise InputError("seed is no option of a method", remedy="Give seeds = [...] in the run")
    model = create(method, **options)
    if hasattr(model, "_parameter_constraints"):
        model._validate_params()
