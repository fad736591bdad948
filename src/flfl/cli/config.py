"""``flfl.toml``: options that are the same every time, so that they need not be typed.

Keys above the first table (or in ``[defaults]``) hold for every verb that has such an option, those
in a verb's own table for that verb; what is typed on the command line comes before both.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from flfl.errors import InputError, explained

NAME = "flfl.toml"
"""Looked for in the working directory."""
_DEFAULTS = "defaults"


def load_config(path: Path, main: click.Group) -> dict[str, Any]:
    """The file as click's map of defaults: by verb, then by the argument that an option sets.

    Raises
    ------
    InputError
        For an unknown table or key, with the nearest one, and for a value of the wrong type.
    """
    everywhere, tables = _split(_read(path), main, str(path))
    options = {verb: _options(command) for verb, command in _verbs(main)}
    known = {key for found in options.values() for key in found}
    for key in everywhere:
        if key not in known:
            raise _unknown("option of any verb", key, known, str(path))
    result: dict[str, Any] = {}
    for verb, found in options.items():
        own = tables.get(verb, {})
        where = f"{path}, [{'.'.join(verb)}]"
        for key in own:
            if key not in found:
                raise _unknown(f"option of {' '.join(verb)}", key, found, where)
        given = {key: value for key, value in everywhere.items() if key in found} | own
        place = result
        for name in verb:
            place = place.setdefault(name, {})
        for key, value in given.items():
            checked = _checked(found[key], value, f"{where if key in own else path}, {key}")
            place[str(found[key].name)] = checked
    return result


def _read(path: Path) -> dict[str, Any]:
    with explained("the settings cannot be read", where=str(path), remedy="Check --config"):
        content = path.read_bytes()
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"this is not TOML: {error}", where=str(path), remedy="Write lines such as seed = 1"
        ) from None


def _verbs(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[tuple[Any, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from _verbs(command, (*above, name))
        else:
            yield (*above, name), command


def _options(command: click.Command) -> dict[str, click.Option]:
    """By the long name without its dashes."""
    return {
        name.removeprefix("--"): option
        for option in command.params
        if isinstance(option, click.Option)
        for name in option.opts
        if name.startswith("--")
    }


def _split(
    content: Mapping[str, Any], main: click.Group, where: str
) -> tuple[dict[str, Any], dict[tuple[str, ...], dict[str, Any]]]:
    """What holds for every verb, and the tables of single ones."""
    everywhere: dict[str, Any] = {}
    tables: dict[tuple[str, ...], dict[str, Any]] = {}
    for name, value in content.items():
        command = main.commands.get(name)
        if not isinstance(value, dict):
            everywhere[_key(name)] = value
        elif name == _DEFAULTS:
            everywhere |= {_key(key): item for key, item in value.items()}
        elif isinstance(command, click.Group):
            for verb, table in value.items():
                if verb not in command.commands:
                    raise _unknown(f"verb of {name}", verb, command.commands, where)
                if not isinstance(table, dict):
                    raise InputError(
                        f"{verb!r} is a verb, not an option",
                        where=f"{where}, [{name}]",
                        remedy=f"Write its options below [{name}.{verb}]",
                    )
                tables[name, verb] = {_key(key): item for key, item in table.items()}
        elif command is not None:
            tables[(name,)] = {_key(key): item for key, item in value.items()}
        else:
            raise _unknown("verb", name, [*main.commands, _DEFAULTS], where)
    return everywhere, tables


def _key(name: str) -> str:
    return name.replace("_", "-")


def _unknown(what: str, given: str, known: Iterable[str], where: str) -> InputError:
    nearest = difflib.get_close_matches(given, sorted(known), n=1, cutoff=0.0)
    return InputError(
        f"{given!r} is no {what}",
        where=where,
        remedy=f"Did you mean {nearest[0]!r}?" if nearest else "Remove it",
    )


def _checked(option: click.Option, value: Any, where: str) -> Any:
    """The value, where it is one that the option takes."""
    wanted = _wanted(option)
    several = value if option.multiple and isinstance(value, list) else [value]
    if wanted is not None and not all(type(item) in wanted[0] for item in several):
        raise InputError(f"{value!r} is not {wanted[1]}", where=where, remedy=f"Write {wanted[2]}")
    given = several if option.multiple else value
    try:
        option.type_cast_value(click.Context(click.Command("check")), given)
    except click.BadParameter as error:
        raise InputError(error.message, where=where) from None
    return given


def _wanted(option: click.Option) -> tuple[tuple[type, ...], str, str] | None:
    """The types that TOML may give for an option, in words, and an example."""
    if option.is_flag:
        return (bool,), "true or false", "true or false without quotes"
    if isinstance(option.type, click.types.IntParamType):
        return (int,), "a whole number", "it without quotes and point"
    if isinstance(option.type, click.types.FloatParamType):
        return (int, float), "a number", "it without quotes"
    if isinstance(option.type, click.types.StringParamType | click.Choice | click.Path):
        return (str,), "a text", "it in quotes"
    return None
