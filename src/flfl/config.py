"""Every setting of a run or a network, validated in one place.

Python, the command line, TOML files and the services all check what they are given against the
models of this module. A complaint names the key, what is wrong with it, and the nearest right one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from flfl.errors import InputError, explained, nearest

T = TypeVar("T", bound="Settings")


class Settings(BaseModel):
    """Settings that are checked when they are made, and never change."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    gone: ClassVar[Mapping[str, str]] = {}
    """Keys of earlier versions, and what replaces each."""

    @classmethod
    def check(cls: type[T], given: Mapping[str, Any], where: str = "") -> T:
        """Settings from plain values.

        Parameters
        ----------
        where : the file or place that they come from, for the message

        Raises
        ------
        InputError
            With the first key that is wrong.

        Examples
        --------
        >>> MethodSettings.check({"shaer": 0.5})
        Traceback (most recent call last):
        flfl.errors.InputError: shaer: there is no such setting. Did you mean 'share'?
        """
        try:
            return cls.model_validate(dict(given))
        except ValidationError as error:
            raise _complaint(cls, error, where) from None


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    with explained("the file cannot be read", where=str(path), remedy="Check the name"):
        text = path.read_text(encoding="utf-8")
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"this is not TOML ({error})", where=str(path)) from None


def _complaint(model: type[Settings], error: ValidationError, where: str) -> InputError:
    """The first complaint of a validation, in our words."""
    first = error.errors(include_url=False)[0]
    *tables, key = [str(part) for part in first["loc"] if not str(part).startswith("function")]
    place = ": ".join(part for part in (where, ".".join([*tables, key])) if part)
    if first["type"] == "extra_forbidden":
        owner = _table(model, tables)
        if key in owner.gone:
            return InputError("this setting is gone", where=place, remedy=owner.gone[key])
        known = list(owner.model_fields)
        return InputError("there is no such setting", where=place, remedy=nearest(key, known))
    if first["type"] == "missing":
        return InputError("this setting is missing", where=place, remedy="Give it")
    return InputError(f"{first['input']!r} cannot be used", where=place, remedy=first["msg"])


def _table(model: type[Settings], tables: list[str]) -> type[Settings]:
    for name in tables:
        kind = model.model_fields[name].annotation if name in model.model_fields else None
        if isinstance(kind, type) and issubclass(kind, Settings):
            model = kind
    return model


Count = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]


class MethodSettings(Settings):
    """The default method's settings; :class:`flfl.FLFL` says what each means."""

    added_error: Annotated[float, Field(ge=0)] | str = 1.0
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    effort: Literal["full", "quick"] = "full"
    rank: Count = 20
    rounds: Count = 5
    pilot: bool = True
    transformation: Literal["none", "sqrt", "log1p"] | None = None
    season: Whole | None = None
    sharing: Literal["network", "nothing", "everything"] = "network"
    coverage: Annotated[float, Field(gt=0, lt=1)] = 0.9
    n_regions: Count | None = None
    secure: bool | None = None
    random_state: Whole = 0
