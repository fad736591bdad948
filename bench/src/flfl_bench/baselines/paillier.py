"""Paillier's cryptosystem, small: sums of ciphertexts decrypt to sums of numbers.

**For measuring and for proof, not for production**: it shows that adding encrypted moves gives
what adding plain ones gives, and what that costs. It is not hardened: plain Python integers take
times that depend on the secrets.

With ``n = p q`` for two primes, a number m in 0..n-1 and a fresh random r::

    c = (1 + n m) r^n  mod n^2          c c' mod n^2  decrypts to  m + m' mod n

Real numbers are whole multiples of :data:`UNIT`: one exponent for all, so that any two can be
added; negative ones are the upper half of 0..n-1.
"""

from __future__ import annotations

import math
import secrets
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flfl.errors import OutOfRangeError

UNIT = 2.0**-32
"""The step of the fixed-point form."""
_LARGEST = 2.0**60
"""Far below half of the shortest key's range: thousands of sums stay in range."""
_SHORTEST = 128
_WITNESSES = 40
_SMALL_PRIMES = tuple(
    n for n in range(3, 2000, 2) if all(n % d for d in range(3, math.isqrt(n) + 1, 2))
)


@dataclass(frozen=True)
class Ciphertext:
    """One encrypted number; two under the same key add up."""

    value: int = field(repr=False)
    square: int = field(repr=False)

    def __add__(self, other: Ciphertext) -> Ciphertext:
        return Ciphertext(self.value * other.value % self.square, self.square)

    @property
    def nbytes(self) -> int:
        """Bytes on the wire: twice the key's length."""
        return (self.square.bit_length() + 7) // 8


@dataclass(frozen=True)
class PublicKey:
    """Encrypts; what the server has."""

    n: int

    def seal(self, values: NDArray[np.float64]) -> NDArray[Any]:
        """Ciphertexts of every entry, each with a fresh r: two zeros do not look alike.

        Raises
        ------
        OutOfRangeError
            For a number that is not finite, or too large.
        """
        flat = np.asarray(values, dtype=np.float64).ravel()
        if not (np.abs(flat) < _LARGEST).all():
            raise OutOfRangeError("a number is too large to be encrypted")
        sealed = np.empty(flat.size, dtype=object)
        sealed[:] = [self._encrypt(round(value / UNIT)) for value in flat.tolist()]
        return sealed.reshape(np.shape(values))

    def _encrypt(self, message: int) -> Ciphertext:
        n, square = self.n, self.n**2
        r = secrets.randbelow(n - 1) + 1
        return Ciphertext((1 + n * (message % n)) % square * pow(r, n, square) % square, square)


@dataclass(frozen=True)
class PrivateKey:
    """Decrypts; what the clients share and the server must not have."""

    p: int = field(repr=False)
    q: int = field(repr=False)

    def open(self, sealed: NDArray[Any]) -> NDArray[np.float64]:
        """The numbers again."""
        n = self.p * self.q
        halves = [_Half.of(prime, n) for prime in (self.p, self.q)]
        inverse = pow(self.p, -1, self.q)
        opened = np.empty(sealed.size)
        for at, item in enumerate(sealed.flat):
            low, high = (half.decrypt(item.value) for half in halves)
            message = low + self.p * ((high - low) * inverse % self.q)
            opened[at] = (message if message <= n // 2 else message - n) * UNIT
        return opened.reshape(sealed.shape)


@dataclass(frozen=True)
class _Half:
    """Decryption modulo one of the two primes: four times as fast as modulo n."""

    prime: int
    factor: int

    @classmethod
    def of(cls, prime: int, n: int) -> _Half:
        return cls(prime, pow(cls._log(pow(1 + n, prime - 1, prime**2), prime), -1, prime))

    @staticmethod
    def _log(power: int, prime: int) -> int:
        return (power - 1) // prime

    def decrypt(self, value: int) -> int:
        power = pow(value, self.prime - 1, self.prime**2)
        return self._log(power, self.prime) * self.factor % self.prime


@dataclass(frozen=True)
class KeyPair:
    """Both keys, as every client has them."""

    public: PublicKey
    private: PrivateKey

    @classmethod
    def generate(cls, bits: int) -> KeyPair:
        """Fresh keys with a modulus of that many bits; 2048 is the least that is called safe.

        Examples
        --------
        >>> keys = KeyPair.generate(256)
        >>> sealed = keys.public.seal(np.array([1.5, -4.0]))
        >>> keys.private.open(sealed[:1] + sealed[1:]).tolist()
        [-2.5]
        """
        if bits < _SHORTEST:
            raise OutOfRangeError(f"a key of {bits} bits cannot hold the sums")
        while True:
            p, q = _prime(bits // 2), _prime(bits - bits // 2)
            if p != q and math.gcd(p * q, (p - 1) * (q - 1)) == 1:
                return cls(PublicKey(p * q), PrivateKey(p, q))


def _prime(bits: int) -> int:
    """A random prime with its two top bits set."""
    while True:
        candidate = secrets.randbits(bits) | (3 << (bits - 2)) | 1
        if _is_prime(candidate):
            return candidate


def _is_prime(n: int) -> bool:
    """Miller and Rabin's test of an odd n > 2000: wrong with a chance below 4^-40.

    >>> _is_prime(2**61 - 1), _is_prime(2**67 - 1)
    (True, False)
    """
    if any(n % small == 0 for small in _SMALL_PRIMES):
        return False
    twos = ((n - 1) & -(n - 1)).bit_length() - 1
    odd = (n - 1) >> twos
    return all(_passes(n, secrets.randbelow(n - 3) + 2, twos, odd) for _ in range(_WITNESSES))


def _passes(n: int, witness: int, twos: int, odd: int) -> bool:
    power = pow(witness, odd, n)
    if power in (1, n - 1):
        return True
    for _ in range(twos - 1):
        power = power * power % n
        if power == n - 1:
            return True
    return False
