"""zstd, the one file that needs it. Masked numbers do not shrink; questions do, a little."""

from __future__ import annotations

from typing import Any

from flfl.errors import FLFLError, InputError


def compress(data: bytes) -> bytes:
    """zstd at its quick level."""
    return _zstd().ZstdCompressor(level=1).compress(data)


def expand(data: bytes, size: int) -> bytes:
    """The bytes back; refuses what does not expand to exactly ``size`` bytes."""
    try:
        stream = _zstd().ZstdDecompressor().stream_reader(data)
        out = bytes(stream.read(size + 1))
    except _zstd().ZstdError:
        raise FLFLError("compressed bytes were damaged on the way") from None
    if len(out) != size:
        raise FLFLError("compressed bytes have another size than was said")
    return out


def _zstd() -> Any:
    try:
        import zstandard
    except ImportError:
        raise InputError(
            "compressed messages need zstandard",
            where="compress",
            remedy="pip install 'flfl[mqtt]', or set compress = false",
        ) from None
    return zstandard
