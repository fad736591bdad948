"""Experiments as data: a TOML file says what is run, all of it checked before any work.

title = "..."                      # of the report
views = ["rates", "ranks"]         # figures and tables to make, see ``VIEWS``

[[data]]                           # only for what is no data set of `flfl data list`
name = "mine"
readings = "mine.csv"              # beside this file; with sensors = "..." perhaps
[[data]]
name = "D3, 90 days"
cut = "D3_beijing_pm25"            # a data set of which only the first slots are used
slots = 2160
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
methods = ["flfl", "flfl trusted"] # names of the registry, labels of variants, module:Class
seeds = 5                          # 0 to 4; or a list
seconds = 20                       # what a cell may take: orders the work, nothing else
audit = true                       # attack the configuration too
options = {}                       # added to those of every method of this run
block_length = 24
owners = ["1", "4 compact"]        # who owns which sensor, see ``owners.deal``; masks stay the same
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import Field

from flfl.config import Count, Share, TomlTable, Whole, check_parameters, read_toml
from flfl.datasets.masks import PATTERNS
from flfl.errors import InputError, nearest
from flfl.estimators.base import BaseRecoverer
from flfl.evaluation import training_mask
from flfl.io.files import PARQUET_SUFFIXES, TEXT_SUFFIXES, suffix_of
from flfl.methods import create, find, methods
from flfl_bench.cells import Cell, Source, fingerprint, json_text, load
from flfl_bench.exposure import DISCLOSED
from flfl_bench.owners import deal

View = Literal[
    "rates", "parts", "exposure", "bytes", "seconds", "scaling", "ranks", "owners", "peers"
]
VIEWS: tuple[View, ...] = get_args(View)
"""What a report can show, see ``flfl_bench.report``."""

Names = Annotated[list[str], Field(min_length=1)]
Options = dict[str, Any]
Table = TypeVar("Table", bound=TomlTable)


class MadeTable(TomlTable):
    """Arguments of :func:`~flfl.datasets.synthetic.synthesize`, and its seed."""

    sensors: int | None = None
    slots: int | None = None
    rank: int | None = None
    noise: float | None = None
    missing: float | None = None
    seed: Whole | None = None


class DataTable(TomlTable):
    """A ``[[data]]``: a file, the first slots of a data set, or made-up readings."""

    name: str
    cut: str | None = None
    slots: Count | None = None
    readings: str | None = None
    sensors: str | None = None
    made: MadeTable | None = None


class VariantTable(TomlTable):
    """A ``[[variant]]``."""

    label: str
    method: str
    options: Options = Field(default_factory=dict)


class RunTable(TomlTable):
    """A ``[[run]]``."""

    data: Names
    rates: Annotated[list[Share], Field(min_length=1)]
    patterns: Names = Field(default_factory=lambda: ["random"])
    methods: Names
    seeds: Count | Annotated[list[Whole], Field(min_length=1)] = 1
    seconds: float = 10.0
    audit: bool = False
    options: Options = Field(default_factory=dict)
    block_length: Count | None = None
    owners: Names | None = None


class FileTable(TomlTable):
    """The whole file."""

    title: str | None = None
    views: list[View] = Field(default_factory=list)
    data: list[Options] = Field(default_factory=list)
    variant: list[Options] = Field(default_factory=list)
    run: Annotated[list[Options], Field(min_length=1)]


@dataclass(frozen=True)
class Experiment:
    """What a file asks for: its name without the suffix, and cells in its order, each once."""

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
        patterns: Sequence[str] = (),
        seeds: Sequence[int] = (),
    ) -> tuple[Cell, ...]:
        """The cells with one of these labels, data sets and so on; nothing given means all."""
        asked: tuple[tuple[str, Sequence[Any], Callable[[Cell], Any]], ...] = (
            ("--only", labels, lambda cell: cell.label),
            ("--data", data, lambda cell: cell.source.name),
            ("--rates", rates, lambda cell: cell.rate),
            ("--patterns", patterns, lambda cell: cell.pattern),
            ("--seeds", seeds, lambda cell: cell.seed),
        )
        chosen = self.cells
        for where, wanted, of in asked:
            _known(wanted, {of(cell) for cell in self.cells}, where)
            chosen = tuple(cell for cell in chosen if not wanted or of(cell) in wanted)
        if not chosen:
            raise InputError(
                "no cell is left", remedy="Loosen --only, --data, --rates, --patterns or --seeds"
            )
        return chosen


def read_experiment(path: str | Path, only: Sequence[str] = ()) -> Experiment:
    """Read and check a file; the readings it names are loaded once to see that they are there.

    Where ``only`` some labels are to be run, methods of other labels may be missing here: their
    cells are left out.
    """
    path = Path(path)
    given = FileTable.check(read_toml(path), str(path))
    reader = _Reader(path.parent, tuple(only))
    for where, data in _tables(path, "data", given.data, DataTable):
        _new(data.name, reader.sources, where)
        reader.sources[data.name] = reader.source(data, where)
    for where, variant in _tables(path, "variant", given.variant, VariantTable):
        _new(variant.label, reader.variants, where)
        if variant.label in methods():
            raise InputError(
                f"{variant.label!r} is a method of its own", where=where, remedy="Choose another"
            )
        with _placed(where):
            find(variant.method)
        reader.variants[variant.label] = (variant.method, variant.options)
    cells: dict[tuple[str, str], Cell] = {}
    for where, run in _tables(path, "run", given.run, RunTable):
        for cell in reader.cells(run, where):
            cells.setdefault((cell.label, cell.key), cell)
    title = path.stem if given.title is None else given.title
    return Experiment(path.stem, title, tuple(given.views), tuple(cells.values()))


def make_experiment(
    name: str, *, data: Sequence[str | Options], methods: Sequence[Any], **run: Any
) -> Experiment:
    """An experiment from Python, where ``methods`` may also be classes and objects of one's own.

    ``data`` are names, files, or tables such as ``{"name": "20", "made": {"sensors": 20}}``;
    ``run`` are the other keys of a ``[[run]]``. A worker is another process: a class must be in a
    module, and what an object was made with must be plain values.
    """
    reader, names = _Reader(Path(), ()), list[str]()
    for given in data:
        if not isinstance(given, str):
            source = DataTable.check(given, "data")
            reader.sources[source.name] = reader.source(source, "data")
        names.append(given if isinstance(given, str) else source.name)
    labels = []
    for method in methods:
        label, place, options = (method, method, {}) if isinstance(method, str) else _place(method)
        while label in labels:
            label += "'"
        labels.append(label)
        if label != place:
            reader.variants[label] = (place, options)
    asked = RunTable.check({**run, "data": names, "methods": labels}, name)
    cells = {(cell.label, cell.key): cell for cell in reader.cells(asked, name)}
    return Experiment(name, name, (), tuple(cells.values()))


def _place(given: Any) -> tuple[str, str, Options]:
    """A label of a class or an object, where a worker finds it, and what it was made with."""
    kind = given if isinstance(given, type) else type(given)
    if "<locals>" in kind.__qualname__ or kind.__module__ == "__main__":
        remedy = "Put the class into a module of its own"
        raise InputError(f"a worker cannot find {kind.__qualname__}", remedy=remedy)
    options: Options = {}
    if kind is not given:
        usual = kind().get_params(deep=False)
        inner = "" if issubclass(kind, BaseRecoverer) else "imputer__"
        for name, value in given.get_params(deep=False).items():
            # NaN, as an imputer has it, is not equal to itself.
            if value != usual[name] and not (value != value and usual[name] != usual[name]):
                options[inner + name] = value
    return kind.__name__, f"{kind.__module__}:{kind.__qualname__}", options


def _tables(
    path: Path, key: str, given: Sequence[Options], kind: type[Table]
) -> Iterator[tuple[str, Table]]:
    """The tables of a ``[[key]]``, each checked, and where it stands."""
    for number, table in enumerate(given, 1):
        where = f"{path}, [[{key}]] number {number}"
        yield where, kind.check(table, where)


def _new(name: str, known: Iterable[str], where: str) -> None:
    if name in known:
        raise InputError(f"{name!r} occurs twice", where=where, remedy="Choose another name")


def _known(words: Iterable[Any], known: Iterable[Any], where: str) -> None:
    there = list(known)
    for word in words:
        if word not in there:
            remedy = nearest(str(word), map(str, there))
            raise InputError(f"unknown {word!r}", where=where, remedy=remedy)


@contextmanager
def _placed(where: str) -> Iterator[None]:
    """Add the place in the file to what other parts of the package refuse."""
    try:
        yield
    except InputError as error:
        inner = f"{error.where}: {error.problem}" if error.where else error.problem
        raise InputError(inner, where=where, remedy=error.remedy) from None


@dataclass
class _Reader:
    """What the tables above a ``[[run]]`` have said so far."""

    folder: Path
    only: tuple[str, ...]
    sources: dict[str, Source] = field(default_factory=dict)
    variants: dict[str, tuple[str, Options]] = field(default_factory=dict)
    fingerprints: dict[str, str] = field(default_factory=dict)

    def source(self, data: DataTable, where: str) -> Source:
        """The source that a ``[[data]]`` describes."""
        if (data.made, data.readings, data.cut).count(None) != 2:
            problem = f"{data.name!r} needs one of readings, cut and made"
            raise InputError(problem, where=where, remedy="Give one of them; see `flfl data list`")
        if (data.cut is None) != (data.slots is None):
            problem = f"{data.name!r} needs cut and slots together"
            raise InputError(problem, where=where, remedy="Give both: a data set and its slots")
        if data.cut is not None and data.slots is not None:
            return Source(data.name, cut=(data.cut, data.slots))
        if data.made is not None:
            return Source(data.name, made=json_text(data.made.model_dump(exclude_none=True)))
        readings, sensors = (
            file and str(self.folder / file) for file in (data.readings, data.sensors)
        )
        return Source(data.name, readings, sensors)

    def cells(self, run: RunTable, where: str) -> Iterator[Cell]:
        """All cells of a ``[[run]]``."""
        data = [self._loaded(name, where) for name in dict.fromkeys(run.data)]
        _known(run.patterns, PATTERNS, where)
        found = [self._method(label, where) for label in dict.fromkeys(run.methods)]
        chosen = [one for one in found if one is not None]
        seeds = list(range(run.seeds)) if isinstance(run.seeds, int) else run.seeds
        patterns = list(dict.fromkeys(run.patterns))
        for source, pattern, rate in product(data, patterns, run.rates):
            with _placed(where):
                training_mask(*load(source), rate, pattern, seeds[0], run.block_length)
        dealt: list[str | None] = list(dict.fromkeys(run.owners or [])) or [None]
        for source, owners in product(data, dealt):
            with _placed(where):
                deal(load(source)[1], owners)
        for label, method, options in chosen:
            if run.audit and method not in DISCLOSED:
                remedy = f"audit is for {' and '.join(DISCLOSED)}"
                raise InputError(f"{label!r} cannot be audited", where=where, remedy=remedy)
            if self._asked(label):
                with _placed(where):
                    _check_options(method, options | run.options)
        for source, owners, pattern, rate, (label, method, options), seed in product(
            data, dealt, patterns, run.rates, chosen, seeds
        ):
            yield Cell(
                source=source,
                fingerprint=self.fingerprints[source.name],
                pattern=pattern,
                rate=rate,
                seed=seed,
                label=label,
                method=method,
                options=json_text(options | run.options),
                block_length=run.block_length,
                audit=run.audit,
                expected=run.seconds,
                owners=owners,
            )

    def _loaded(self, name: str, where: str) -> Source:
        source = self.sources.get(name)
        if source is None and suffix_of(Path(name)) in TEXT_SUFFIXES + PARQUET_SUFFIXES:
            source = Source(name, str(self.folder / name))
        source = source or Source(name)
        if name not in self.fingerprints:
            with _placed(where):
                self.fingerprints[name] = fingerprint(*load(source))
        return source

    def _asked(self, label: str) -> bool:
        return not self.only or label in self.only

    def _method(self, label: str, where: str) -> tuple[str, str, Options] | None:
        if label in self.variants:
            return label, *self.variants[label]
        if label not in methods() and not self._asked(label):
            return None
        if ":" not in label:
            _known([label], [*self.variants, *methods()], where)
        with _placed(where):
            return label, find(label).name, {}


def _check_options(method: str, options: Options) -> None:
    """Refuse an option that the method does not have, or a value that it does not take."""
    find(method).require()
    if "seed" in options:
        raise InputError("seed is no option of a method", remedy="Give seeds = [...] in the run")
    check_parameters(create(method, **options))
