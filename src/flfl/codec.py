"""One byte form for every message and every file of state: msgpack, with arrays as they are.

A value is None, a bool, an int, a float, a text, bytes, a list, a dict with text keys, or an array.
Arrays travel little-endian, in C order, and come back read-only without a copy. Nothing executable
is ever decoded, and whatever is not in this form is refused.
"""

from __future__ import annotations

import math
import struct
import zlib
from typing import Any

import msgpack
import numpy as np

from flfl.errors import FLFLError

_ARRAY = 1
_TYPES = {"f8": "<f8", "f4": "<f4", "i8": "<i8", "u8": "<u8", "u1": "|u1", "b1": "|b1"}
_MOST_DIMENSIONS = 8
_HEAD = struct.Struct("<4sHI")
LARGEST = 2**30
"""Bytes of the largest value that is read."""


class CodecError(FLFLError, ValueError):
    """Bytes that are not in this form, or a value that has none."""


def pack(value: Any) -> bytes:
    """The byte form of a value.

    Examples
    --------
    >>> unpack(pack({"name": "z", "values": np.array([1.0, 2.0])}))["values"].tolist()
    [1.0, 2.0]
    """
    try:
        return bytes(msgpack.packb(value, default=_packed, use_bin_type=True, strict_types=True))
    except (TypeError, ValueError, OverflowError) as error:
        raise CodecError(f"this has no byte form: {error}") from None


def unpack(data: bytes | memoryview) -> Any:
    """The value back; refuses anything that :func:`pack` does not write.

    Examples
    --------
    >>> unpack(b"\\xc1")
    Traceback (most recent call last):
    flfl.codec.CodecError: the bytes are damaged or were cut short
    """
    if len(data) > LARGEST:
        raise CodecError(f"{len(data)} bytes are more than {LARGEST}")
    try:
        return msgpack.unpackb(data, ext_hook=_array, raw=False, strict_map_key=True)
    except CodecError:
        raise
    except (ValueError, TypeError, RecursionError, msgpack.exceptions.UnpackException):
        raise CodecError("the bytes are damaged or were cut short") from None


def wrap(form: bytes, version: int, value: Any) -> bytes:
    """The byte form of a value under a four-byte mark, a version and a CRC-32 against accidents.

    Examples
    --------
    >>> unwrap(b"TEST", 1, wrap(b"TEST", 1, [1, 2]))
    [1, 2]
    """
    body = pack(value)
    return _HEAD.pack(form, version, zlib.crc32(body)) + body


def unwrap(form: bytes, version: int, data: bytes) -> Any:
    """The value back; refuses another form or version, damage, and what :func:`unpack` refuses."""
    if len(data) < _HEAD.size:
        raise CodecError("the message is cut short")
    found, other, check = _HEAD.unpack_from(data)
    if found != form:
        raise CodecError(f"this is not a message of the form {form.decode()}")
    if other != version:
        raise CodecError(f"it has version {other} of the protocol, and this program {version}")
    body = memoryview(data)[_HEAD.size :]
    if zlib.crc32(body) != check:
        raise CodecError("the check does not match: the message was damaged or cut short")
    return unpack(body)


def _packed(value: Any) -> msgpack.ExtType:
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if not isinstance(value, np.ndarray):
        raise TypeError(f"a {type(value).__name__}")
    kind = f"{value.dtype.kind}{value.dtype.itemsize}"
    if kind not in _TYPES:
        raise TypeError(f"an array of {value.dtype}")
    raw = np.ascontiguousarray(value, dtype=_TYPES[kind]).tobytes()
    return msgpack.ExtType(_ARRAY, msgpack.packb([kind, list(value.shape), raw]))


def _array(code: int, data: bytes) -> np.ndarray:
    if code != _ARRAY:
        raise CodecError(f"unknown kind of value {code}")
    kind, shape, raw = msgpack.unpackb(data)
    sizes = isinstance(shape, list) and all(type(n) is int and 0 <= n <= LARGEST for n in shape)
    if kind not in _TYPES or not sizes or len(shape) > _MOST_DIMENSIONS:
        raise CodecError("an array's type or shape is malformed")
    dtype = np.dtype(_TYPES[kind])
    # Beside a dimension of zero, others can be larger than any array may be.
    if type(raw) is not bytes or math.prod(shape) * dtype.itemsize != len(raw):
        raise CodecError("an array's shape does not fit its bytes")
    if math.prod(max(n, 1) for n in shape) > LARGEST:
        raise CodecError("an array's shape is too large")
    if kind == "b1" and raw.translate(None, b"\0\1"):
        raise CodecError("an array of truth values holds something else")
    return np.frombuffer(raw, dtype).reshape(shape)
