"""A TOML table read key by key: every complaint names the place and the nearest known word."""

from __future__ import annotations

import difflib
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flfl.errors import InputError

_KINDS: dict[type, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    list: "a list",
    dict: "a table",
    bool: "true or false",
}


def nearest(word: object, known: Iterable[object]) -> str:
    """What to do about an unknown word.

    Examples
    --------
    >>> nearest("sead", ["seed", "data"])
    "Did you mean 'seed'? There are seed, data"
    """
    words = [str(one) for one in known]
    close = difflib.get_close_matches(str(word), words, n=1)
    hint = f"Did you mean {close[0]!r}? " if close else ""
    return f"{hint}There are {', '.join(words)}"


@dataclass(frozen=True)
class Keys:
    """A table of the file.

    Attributes
    ----------
    where : the file, and the table in it
    given : what stands there
    known : the keys it may have; others are refused
    """

    where: str
    given: Mapping[str, Any]
    known: tuple[str, ...]

    def __post_init__(self) -> None:
        for key in self.given:
            if key not in self.known:
                raise self.error(f"unknown key {key!r}", nearest(key, self.known))

    def error(self, problem: str, remedy: str) -> InputError:
        """A complaint about this table."""
        return InputError(problem, where=self.where, remedy=remedy)

    @contextmanager
    def placed(self) -> Iterator[None]:
        """Add the place in the file to what other parts of the package refuse."""
        try:
            yield
        except InputError as error:
            inner = f"{error.where}: {error.problem}" if error.where else error.problem
            raise InputError(inner, where=self.where, remedy=error.remedy) from None
        except ValueError as error:
            # How scikit-learn refuses a parameter.
            raise InputError(str(error), where=self.where) from None

    def get(self, key: str, kind: type | tuple[type, ...], default: Any = ...) -> Any:
        """The value of a key, of a certain kind."""
        if key not in self.given:
            if default is ...:
                raise self.error(f"{key} is missing", f"Add {key} = ...")
            return default
        value = self.given[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        # A bool is an int to Python, but no number to a reader of the file.
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            wanted = " or ".join(_KINDS[one] for one in kinds)
            raise self.error(f"{key} = {value!r} is not {wanted}", f"Give {wanted}")
        return value

    def text(self, key: str, default: Any = ...) -> Any:
        """A text."""
        return self.get(key, str, default)

    def items(self, key: str, kind: type | tuple[type, ...], default: Any = ...) -> list[Any]:
        """A list whose items are of a certain kind, not empty."""
        values = self.get(key, list, default)
        if values is default:
            return list(values)
        if not values or not all(isinstance(v, kind) and v is not True for v in values):
            raise self.error(f"{key} = {values!r} is no list of the right kind", f"Correct {key}")
        return values

    def names(self, key: str, default: Any = ...) -> tuple[str, ...]:
        """A list of texts, each once."""
        return tuple(dict.fromkeys(self.items(key, str, default)))

    def tables(self, key: str, known: tuple[str, ...]) -> list[Keys]:
        """The tables of a ``[[key]]``."""
        found = self.get(key, list, [])
        if not all(isinstance(table, dict) for table in found):
            raise self.error(f"{key} = {found!r} holds no tables", f"Write [[{key}]] above each")
        return [
            Keys(f"{self.where}, [[{key}]] number {number}", table, known)
            for number, table in enumerate(found, 1)
        ]

    def one_of(self, key: str, value: str, known: Iterable[str]) -> None:
        """Refuse a word that is not known."""
        known = list(known)
        if value not in known:
            raise self.error(f"unknown {value!r} in {key}", nearest(value, known))

    def new(self, key: str, known: Container[str]) -> None:
        """Refuse a name that another table has."""
        if self.text(key) in known:
            raise self.error(f"{key} = {self.text(key)!r} occurs twice", "Choose another one")

    def share(self, rate: float) -> float:
        """A number between 0 and 1."""
        if not 0 < rate < 1:
            raise self.error(f"{rate!r} is no rate", "Give shares between 0 and 1, such as 0.5")
        return float(rate)
