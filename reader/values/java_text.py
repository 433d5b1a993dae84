"""Numbers as Java writes them (`Double.toString`, `Float.toString`), and text as decimals.

As in Java 8 to 18, on which Spark 3.5 runs: outside 0.001 to 10^7 (doubles: 10^15) those releases print digits that a
shortest text does not have. Distinct values in that range are written one by one, all others at once. Source: the rules
of `FloatingDecimal`. `widening` decides which columns become text.
"""

from __future__ import annotations

import decimal
import functools
import math
import re
import struct
from typing import Final

import pyarrow as pa

from penstock.table.arrow_arrays import arrow_array
from penstock.table.arrow_compute import pc

_PLAIN_FROM: Final = 1e-3
_PLAIN_BELOW: Final = 1e7
_SHORT_BELOW: Final = 1e15
_FRACTION: Final = 52
_POWER_BITS: Final = tuple((5**n).bit_length() if n else 0 for n in range(27))
_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?")
_DIGITS: Final = r"^(-?[0-9])([0-9]*)(?:[.]([0-9]*))?(?:e.*)?$"
_EXACT: Final = decimal.Context(prec=200, Emin=-10_000, Emax=10_000)
_LONGEST: Final = 150
"""The most characters of a number's text: more digits than any decimal has, and no exponent that needs excessive
memory."""


def float_texts(array: pa.Array) -> pa.Array:
    """Floats or doubles as `Float.toString` or `Double.toString` writes them; nulls stay null."""
    size = pc.abs(array)
    plain = pc.or_(pc.equal(size, 0), pc.and_(pc.greater_equal(size, _PLAIN_FROM), pc.less(size, _PLAIN_BELOW)))
    texts = array.cast(pa.string())
    texts = pc.if_else(pc.match_substring(texts, "."), texts, pc.binary_join_element_wise(texts, ".0", ""))
    if pc.all(plain).as_py() is not False:
        return texts
    single = pa.types.is_float32(array.type)
    if not single:
        short = pc.and_(pc.greater_equal(size, _PLAIN_BELOW), pc.less(size, _SHORT_BELOW))
        texts = pc.if_else(short, _short_texts(pc.if_else(short, array, pa.scalar(_PLAIN_BELOW)), texts), texts)
        plain = pc.or_(plain, short)
    by_value = pc.if_else(plain, pa.scalar(None, array.type), array)  # 0.0 and -0.0 are one value of a dictionary
    encoded = pc.dictionary_encode(by_value)
    java = [None if value is None else java_text(value, single=single) for value in encoded.dictionary.to_pylist()]
    return pc.if_else(plain, texts, arrow_array(java, pa.string()).take(encoded.indices))


def _short_texts(doubles: pa.Array, texts: pa.Array) -> pa.Array:
    """Java's texts of doubles of 10^7 to 10^15 from Arrow's `texts`.

    Both have the shortest digits there, because no decimal so short lies halfway between two doubles, and whole numbers
    are written in full.
    """
    digits = pc.utf8_rtrim(pc.replace_substring_regex(texts, _DIGITS, r"\1.\2\3"), "0")
    digits = pc.if_else(pc.ends_with(digits, "."), pc.binary_join_element_wise(digits, "0", ""), digits)
    whole = pc.trunc(pc.abs(doubles)).cast(pa.int64()).cast(pa.string())
    exponents = pc.subtract(pc.utf8_length(whole), 1).cast(pa.string())
    return pc.binary_join_element_wise(digits, exponents, "E")


def exponent_texts(array: pa.Array) -> pa.Array:
    """As Arrow writes them, but numbers that Java writes with an exponent as in `float_texts`."""
    size = pc.abs(array)
    plain = pc.and_(pc.greater_equal(size, _PLAIN_FROM), pc.less(size, _PLAIN_BELOW))
    texts = array.cast(pa.string())
    if pc.all(plain).as_py() is not False:
        return texts
    by_value = pc.and_not(pc.and_(pc.is_finite(array), pc.not_equal(array, 0)), plain).fill_null(False)
    return pc.replace_with_mask(texts, by_value, float_texts(array.filter(by_value))) if by_value.true_count else texts


def rounded_decimals(texts: pa.Array, target: pa.DataType) -> pa.Array:
    """Texts as `new BigDecimal(text).setScale(scale, HALF_UP)`. ValueError, naming the text, if it is not a number or
    has more digits than `target`."""
    encoded = texts.dictionary_encode()
    values = [_rounded(text, target) for text in encoded.dictionary.to_pylist()]
    return arrow_array(values, target).take(encoded.indices)


@functools.lru_cache(maxsize=4096)
def java_text(value: float, *, single: bool) -> str:
    """One value; `single` if it is a 32-bit float."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1, value) < 0 else ""
    if math.isinf(value) or value == 0:
        return f"{sign}{'Infinity' if value else '0.0'}"
    digits, exponent = _digits(*_parts(abs(value), single))
    if 0 < exponent < 8:
        whole = digits.ljust(exponent, "0")
        return f"{sign}{whole[:exponent]}.{whole[exponent:] or '0'}"
    if -3 < exponent <= 0:
        return f"{sign}0.{'0' * -exponent}{digits}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent - 1}"


def _parts(value: float, single: bool) -> tuple[int, int, int]:
    """(binary exponent, 53 bits with the highest set, how many of them are significant)."""
    shift, bias = (23, 127) if single else (_FRACTION, 1023)
    code = ">f", ">I"
    bits: int = struct.unpack(code[1] if single else ">Q", struct.pack(code[0] if single else ">d", value))[0]
    exponent, fraction = bits >> shift, bits & ((1 << shift) - 1)
    if exponent:
        return exponent - bias, (fraction | 1 << shift) << (_FRACTION - shift), shift + 1
    length = fraction.bit_length()
    return length - shift - bias, fraction << (_FRACTION + 1 - length), length


def _digits(binary: int, fraction: int, significant: int) -> tuple[str, int]:
    """Digits without trailing zeros, and the exponent e of 0.digits * 10^e."""
    zeros = (fraction & -fraction).bit_length() - 1
    length = _FRACTION + 1 - zeros
    tiny = max(0, length - binary - 1)
    if tiny == 0 and -21 <= binary <= 62 and length < 64:
        return _whole_digits(binary, fraction, significant)
    return _fraction_digits(binary, fraction >> zeros, significant, length, tiny, _estimate(binary, fraction))


def _whole_digits(binary: int, fraction: int, significant: int) -> tuple[str, int]:
    """A whole number below 2^63, rounded half up where its bits are not significant."""
    number = fraction << (binary - _FRACTION) if binary >= _FRACTION else fraction >> (_FRACTION - binary)
    spare = binary - significant - 1
    cut = int(spare * math.log10(2)) if spare > 1 else 0
    number, rest = divmod(number, 10**cut)
    number += bool(cut and rest >= 10**cut // 2)
    text = str(number)
    return text.rstrip("0") or "0", len(text) + cut


def _estimate(binary: int, fraction: int) -> int:
    """The decimal exponent, or one too many."""
    mantissa = fraction / (1 << _FRACTION)
    return math.floor((mantissa - 1.5) * 0.289529654 + 0.176091259 + binary * 0.301029995663981)


def _fraction_digits(
    binary: int, by_value: int, significant: int, length: int, tiny: int, exponent: int
) -> tuple[str, int]:
    """Digit by digit, until the rest is less than half of the last bit."""
    five_b, five_s = max(0, -exponent), max(0, exponent)
    two_b, two_s = five_b + tiny + binary, five_s + tiny
    two_m = two_b - significant
    two_b -= length - 1
    common = min(two_b, two_s)
    two_b, two_s, two_m = two_b - common, two_s - common, two_m - common
    if length == 1:
        two_m -= 1
    if two_m < 0:
        two_b, two_s, two_m = two_b - two_m, two_s - two_m, 0
    bits = (
        length + two_b + (_POWER_BITS[five_b] if five_b < 27 else five_b * 3),
        two_s + 1 + (_POWER_BITS[five_s + 1] if five_s + 1 < 27 else (five_s + 1) * 3),
    )
    width = next((size for size in (32, 64) if max(bits) < size), 0)
    rest, unit, margin = by_value * 5**five_b << two_b, 5**five_s << two_s, 5**five_b << two_m
    tens, digits = unit * 10, ""

    def step() -> tuple[int, bool, bool]:
        nonlocal rest, margin
        digit, left = divmod(rest, unit)
        rest, margin = left * 10, margin * 10
        if not width:
            return digit, rest < margin, rest + margin >= tens
        margin = _wrapped(margin, width)
        if margin <= 0:
            return digit, True, True
        return digit, rest < margin, _wrapped(rest + margin, width) > tens

    digit, low, high = step()
    if digit == 0 and not high:
        exponent -= 1
    else:
        digits += str(digit)
    if exponent < -3 or exponent >= 8:
        low = high = False
    while not (low or high):
        digit, low, high = step()
        digits += str(digit)
    twice = rest * 2 - tens
    if high and (not low or twice > 0 or (twice == 0 and int(digits[-1]) % 2)):
        return _rounded_up(digits, exponent + 1)
    return digits.rstrip("0") or "0", exponent + 1


def _wrapped(number: int, width: int) -> int:
    """The number as an int or long of Java, which overflows."""
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number


def _rounded_up(digits: str, exponent: int) -> tuple[str, int]:
    more = str(int(digits) + 1).rjust(len(digits), "0")
    return more.rstrip("0") or "0", exponent + len(more) - len(digits)


def _rounded(text: str | None, target: pa.DataType) -> decimal.Decimal | None:
    if text is None:
        return None
    if len(text) > _LONGEST or not _DECIMAL.fullmatch(text):
        raise ValueError(f"{text[:60]!r} is not a number")
    number = decimal.Decimal(text)
    if number and number.adjusted() >= target.precision - target.scale + 1:
        raise ValueError(f"{text[:60]!r} has more digits than {target}")
    if number.adjusted() < -target.scale - 2:
        return decimal.Decimal(0).scaleb(-target.scale)
    rounded = number.quantize(decimal.Decimal(1).scaleb(-target.scale), decimal.ROUND_HALF_UP, _EXACT)
    if rounded.adjusted() >= target.precision - target.scale and rounded:
        raise ValueError(f"{text[:60]!r} has more digits than {target}")
    return rounded
