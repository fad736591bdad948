"""Options that several verbs share, the values they take, and ``flfl.toml``, which sets them."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from functools import reduce
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from click.shell_completion import CompletionItem

from flfl.cli import SUMMARIES, load_verb
from flfl.config import MethodSettings, ReadingRules, read_toml
from flfl.errors import InputError, nearest
from flfl.io.read import read_readings
from flfl.io.sensors import EACH, Sensors, read_sensors, read_sites
from flfl.io.table import Table
from flfl.methods import find, methods
from flfl.protocol.added_error import AddedError
from flfl.recovery.rules import Rules

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]
PATH = click.Path(path_type=Path)
BUNDLED = "germany_pm10"
"""The data set that is read where none is named."""


def together(*options: Decorator) -> Decorator:
    """Several options as one decorator, in their order."""
    return lambda verb: reduce(lambda made, option: option(made), reversed(options), verb)


def option(
    name: str, help_text: str, kind: Any = None, default: Any = None, **more: Any
) -> Decorator:
    """A click option; its help shows the default. Of a list of words the first is the default."""
    if isinstance(kind, list):
        kind, default = click.Choice(kind), kind[0]
    shown = {"default": default, "show_default": True} if default is not None else {}
    return click.option(name, help=help_text, type=kind, **shown, **more)


def checked(name: str, read: Callable[[Any], Any]) -> click.ParamType:
    """A type for click: what ``read`` makes of a value, its complaint as click prints one."""

    def convert(value: Any) -> Any:
        try:
            return read(value)
        except InputError as error:
            raise click.BadParameter(f"{error.problem}. {error.remedy or ''}".strip()) from None

    convert.__name__ = name
    return click.types.FuncParamType(convert)


def several(item: Callable[[Any], Any] = str) -> click.ParamType:
    """A type for click: a list such as ``a,b``, each item once.

    Examples
    --------
    >>> several()("a, b,a"), several(float)([0.5, 1])
    (['a', 'b'], [0.5, 1.0])
    """

    def read(value: Any) -> list[Any]:
        words = value if isinstance(value, list) else [part.strip() for part in value.split(",")]
        found = dict.fromkeys(item(word) for word in words if word != "")
        if value and not found:
            raise InputError("this names nothing", remedy="Give a list such as a,b")
        return list(found)

    return checked("list", read)


def number_or_word(value: Any) -> float | str:
    """A finite number, or any other text as it is.

    Examples
    --------
    >>> [number_or_word(given) for given in ("-99", "--", "nan", -1)]
    [-99.0, '--', 'nan', -1.0]
    """
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    return number if math.isfinite(number) else str(value)


def limits(value: Any) -> tuple[float, float]:
    """Two numbers, either end of which may be open.

    Examples
    --------
    >>> limits("0,500"), limits([0, 500]), limits("0,")
    ((0.0, 500.0), (0.0, 500.0), (0.0, inf))
    """
    parts = value.split(",") if isinstance(value, str) else value
    try:
        ends = [None if part == "" else float(part) for part in parts]
        return tuple(Rules.check({"bounds": ends}).bounds)
    except (TypeError, ValueError):
        remedy = "Give two numbers, the lower one first, or leave an end open: 0,500 or 0,"
        raise InputError(f"{value!r} is not a pair of limits", remedy=remedy) from None


def complete_method(ctx: Any, param: Any, incomplete: str) -> list[CompletionItem]:
    """Methods whose names begin so; the last one of a list with commas."""
    earlier, comma, last = incomplete.rpartition(",")
    return [
        CompletionItem(earlier + comma + name, help=method.summary)
        for name, method in methods().items()
        if name.startswith(last)
    ]


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document to stdout."
)
seed_option = option("--seed", "Random seed.", click.IntRange(min=0), 0)
GAP = checked("slots or duration", lambda value: Rules.check({"max_gap": value}).max_gap)
LIMITS = checked("low,high", limits)
METHOD = checked("name", lambda name: find(str(name)).name)
WORD = checked("number or word", number_or_word)
_REPEATED = {"missing": ("--missing", WORD), "bad_flags": ("--bad-flag", None)}
SHARE = click.FloatRange(0, 1, min_open=True, max_open=True)

SETTINGS = {
    "added_error": "Noise in the copies that leave: a multiple of each sensor's own error in time,"
    " or a number with a unit such as '2 ug/m3'. 0: the coordinator is trusted.",
    "share": "Numbers released for each reading; above 0.5 only if the coordinator is trusted.",
    "secure": "Hide every site's sums from the coordinator. Default: with 3 sites or more.",
    "effort": "quick leaves the costly trees out.",
    "rank": "Number of factors.",
    "rounds": "Rounds of the shared fit.",
    "transformation": "Of the readings. Default: the sites vote.",
}
"""The default method's settings that are options, and what each means."""


def _setting(name: str) -> Decorator:
    """An option for a setting of the default method; the model of the settings checks it."""
    field = MethodSettings.model_fields[name]
    flag, help_text = f"--{name.replace('_', '-')}", SETTINGS[name]
    if field.default is not None:
        help_text += f"  [default: {field.default}]"
    kinds = [field.annotation, *get_args(field.annotation)]
    if bool in kinds:
        return click.option(f"{flag}/--no-{flag[2:]}", default=None, help=help_text)
    if words := [word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)]:
        return option(flag, help_text, click.Choice(words))

    def read(value: Any) -> Any:
        if name == "added_error" and (found := AddedError.parse(str(value))).units is None:
            value = found.multiple
        return getattr(MethodSettings.check({name: value}), name)

    return option(flag, help_text, checked("number [unit]" if str in kinds else "number", read))


method_options = together(*(_setting(name) for name in SETTINGS))


def take_settings(arguments: dict[str, Any]) -> dict[str, Any]:
    """Take what :data:`method_options` gave out of a verb's arguments."""
    given = {name: arguments.pop(name) for name in SETTINGS}
    return {name: value for name, value in given.items() if value is not None}


def _rule(name: str) -> Decorator:
    """An option for a rule of reading, with the words that its model has for it."""
    field = ReadingRules.model_fields[name]
    flag, help_text = f"--{name.replace('_', '-')}", str(field.description)
    if name in _REPEATED:
        flag, kind = _REPEATED[name]
        return click.option(flag, name, multiple=True, type=kind, help=help_text)
    if field.annotation is bool:
        return click.option(flag, is_flag=True, help=help_text)
    words = list(get_args(field.annotation)) if get_origin(field.annotation) is Literal else None
    return option(flag, help_text, words)


_reading = together(
    click.option(
        "--sensors",
        "sensors_path",
        type=PATH,
        help="File with one row a sensor: id, latitude and longitude (or x, y).",
    ),
    option(
        "--sites",
        "Who owns which sensor: a column of the sensors file, a file sensor,site, or each (every"
        " sensor its own owner). Default: the column site, owner or agency;"
        " else the regions found from positions; else each.",
    ),
    *(_rule(name) for name in ReadingRules.model_fields),
)
table_options = together(click.argument("readings", type=PATH), _reading)
"""READINGS, and everything that says how to read it."""
optional_table_options = together(click.argument("readings", required=False, type=PATH), _reading)
"""The same where READINGS may be left out, for the bundled data."""


def read_tables(
    readings: Path | None,
    sensors_path: Path | None,
    sites: str | None,
    **how: Any,
) -> tuple[Table, Sensors]:
    """Read what :data:`table_options` names: files, or a data set by its name."""
    if readings is None or not (readings.exists() or readings.suffix or len(readings.parts) > 1):
        from flfl.datasets.catalogue import load_dataset

        table, network = load_dataset(BUNDLED if readings is None else str(readings))
    else:
        table = read_readings(readings, **{k: v for k, v in how.items() if v not in ((), None)})
        network = Sensors.of_table(table)
    if sensors_path is not None:
        network = read_sensors(sensors_path, table.sensor_ids)
    if sites is not None:
        by_name = sites != EACH
        owners = read_sites(sites, network.ids, sensors_path=sensors_path) if by_name else EACH
        network = network.with_sites(owners)
    return table, network


def read_config(path: Path) -> dict[str, Any]:
    """``flfl.toml`` as click's map of defaults: by verb, then by the argument that an option sets.

    Keys above the first table (or in ``[defaults]``) hold for every verb that has such an option,
    those in a verb's own table for that verb.
    """
    content, known = read_toml(path), set[str]()
    top = [name for name, value in content.items() if not isinstance(value, dict)]
    everywhere = content.pop("defaults", {}) | {name: content.pop(name) for name in top}
    verbs = click.Group(commands={name: load_verb(name) for name in SUMMARIES})
    found = _defaults(verbs, content, everywhere, str(path), known)
    _refuse_others(everywhere, known, str(path))
    return found


def _refuse_others(given: Iterable[str], known: Collection[str], where: str) -> None:
    for name in given:
        if name.replace("_", "-") not in known:
            remedy = nearest(name, known)
            raise InputError(f"{name!r} is not known here", where=where, remedy=remedy)


def _defaults(
    command: click.Command, table: Any, everywhere: dict[str, Any], where: str, known: set[str]
) -> dict[str, Any]:
    """The table of a verb, or those of a group of verbs, checked; adds the options to ``known``."""
    if not isinstance(table, dict):
        raise InputError("this is a verb, not an option", where=where, remedy="Make it a table")
    if isinstance(command, click.Group):
        _refuse_others(table, command.commands, where)
        return {
            name: _defaults(verb, table.get(name, {}), everywhere, f"{where}, [{name}]", known)
            for name, verb in command.commands.items()
        }
    options = {
        name[2:]: one
        for one in command.params
        for name in one.opts
        if isinstance(one, click.Option) and name.startswith("--")
    }
    known.update(options)
    _refuse_others(table, options, where)
    found = {}
    for name, value in (everywhere | table).items():
        one = options.get(name.replace("_", "-"))
        if one is not None:
            place = where if name in table else where.partition(", [")[0]
            found[str(one.name)] = _value(one, value, f"{place}, {name}")
    return found


_TOML: dict[str, Any] = {
    "integer": int, "float": (int, float), "boolean": bool, "text": str, "choice": str, "path": str
}  # fmt: skip
"""What TOML must give for click's own types."""


def _value(option: click.Option, value: Any, where: str) -> Any:
    """The value, where it is one that the option takes."""
    several = value if option.multiple and isinstance(value, list) else [value]
    word = option.type.name.split()[0]
    for one in several:
        if not isinstance(one, _TOML.get(word, object)) or isinstance(one, bool) != option.is_flag:
            raise InputError(f"{one!r} is not of the type {word}", where=where)
    taken = several if option.multiple else value
    try:
        option.type_cast_value(click.Context(click.Command("check")), taken)
    except click.BadParameter as error:
        raise InputError(error.message, where=where) from None
    return taken
