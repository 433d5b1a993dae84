"""Streams of LZO1X: those of ORC's writer, generated ones of each command, and damaged ones."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.table.lzo import lzo_decompressed

NOISE: Final = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(20))
CONTENTS: Final = {
    "empty": b"",
    "one byte": b"a",
    "short": b"America/New_York",
    "noise": NOISE[:300],
    "zeros": bytes(1000),
    "text": b"".join(b"column %d of type %d, " % (n, n % 7) for n in range(40)),
    "near": NOISE[:60] + NOISE[7:50] + NOISE[:9],
    "middle": NOISE[:60] + bytes(5000) + NOISE[:60],
    "far": NOISE[:60] + bytes(20_000) + NOISE[:60] + bytes(18_000) + NOISE[:60],
    "farther": NOISE[:60] + bytes(40_000) + NOISE[:60],
    "short matches": b"".join(NOISE[n % 300 : n % 300 + 3 + n % 9] for n in range(0, 2000, 37)),
}
STREAMS: Final = {
    "empty": b"",
    "one byte": b"5@8Vl00",
    "short": b"Awg|ra%p2>FHU85Us-Q*YY_kd",
    "noise": (
        b"000|qGz*;nvwE1Er9|etcnU0dkR3m>H#l~M5u*kdub>@E^%5^MMO4K*-Y&b0(zoN$U<%eT!-b{S%;G$Eg+-d%!L-"
        b"Q$|KyEVTV18bI0OMD_Fb_4J|sy?cIud9SJ{RLPwfb~c&|-"
        b";8ESM!sB2gNo?~la9kF5&wpyC4|0%`gEu2t{P$Ne)O^gSvk;~Qwiu`r|Vv_J;pq!(D$ewZMdzzZ*;|mSFw)GIAWbd8lflwWLYm%;"
        b"s>jj)zw?o@!SZ<j5(tV)0mW#kSq3<-"
        b"wIk~vyBdEUkokxZU#q9RVHHTRC(td38QgV}dcc)1Gh&dg$dCuB>$G;x{Ug&wg>eqRc&sQ@+>=(6*zkah#ClSe$!P$1PD6<%i!GfA"
        b"AOf)Z4GwbD%q1ty5000"
    ),
    "zeros": b"5&$3o006`Q00IC20000H000",
    "text": (
        b"C1Y=Fb!~1SFd%PcAar?fWgsvtAk6|XCrtn`Crtn{Crtn{Crtn|Crtn|Crtn}Crtn}Crtn~Crtn~Crto0Crto0Crto1Crkh+Edn?v"
        b"OaLe?0y!s404Oa2F(@DdC@}&tC?o?YH3BgxC<7=t0x>8o11LQLF(@ztC_w@-"
        b"C^Q2oMglQ5GDrd_JOe360w_QODM$h+L<1;E0x~E>11L!XGAKj?C`ke`C`1D&Ndht`L<1<51TrW@11L%YGBqdg0w_uXGBzhr04YcU"
        b"C`1D(NCGHC11U%XC`1D&Ndhw{L<1;E0y8K?11L!XGbls@C`ke{C`1D&Ndhw{L<1;E0y8K?11L!XGbls@DM$h+L<1>E0w_cSDM$k3"
        b"8Uke?G%O$y000"
    ),
    "near": (b"O>Q&`od2_Wn4G0V=DT<bEO?L|KeIPDc7+k61{bfO9ZU5RFEm9|#XH_EyNuGe<I!LW)-l6{rPs{jJRl0t00wR}3!MM6dYGIM000"),
    "middle": (
        b"PHr>{od2_Wn4G0V=DT<bEO?L|KeIPDc7+k61{bfO9ZU5RFEm9|#XH_EyNuGe<I!LW)-"
        b"l6{rPs{jJOCg700000000000000000000004Oa03a3&PXeXa%;G!|000"
    ),
    "far": (
        b"PHr>{od2_Wn4G0V=DT<bEO?L|KeIPDc7+k61{bfO9ZU5RFEm9|#XH_EyNuGe<I!LW)-"
        b"l6{rPs{jJOCg7000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        b"00000000089V?5C8xG0000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        b"02Va5)ezFd71-*UaKP5dZ)"
    ),
    "farther": (
        b"PHr>{od2_Wn4G0V=DT<bEO?L|KeIPDc7+k61{bfO9ZU5RFEm9|#XH_EyNuGe<I!LW)-"
        b"l6{rPs{jJOCg7000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        b"0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        b"0000002G000;+@NojA*UaKP5dZ)"
    ),
    "short matches": (
        b"b#62ZMO4K*U8Tl21Xuu`V{2jmVv_J;pq%RkoLaX-"
        b"+h^?d$~A{r_R@ZNl+RZ)LF^Z`i;<z)ci<Dzw<L8|^%5`SjaOTAMyP9828#T3|6*&Bu8HdfoJWQT#q9RVHF>`3*MtWFR5R=4pa%dR"
        b"ub>@E^%5^MMO4MK$pB4#8EUPO%hm>gP#t?~lBmA;okxZU9{^tHdA{n`D@-&mga-"
        b"i;qXrkC2LK*Ln%lv&$pHW4jaLY{cr;Cn2W0P^=YhGn<s+!R+I`2r9{^sB!GfAAOf)YyICh1E2La+dcZHw_03L=2Pwfb~c&|-"
        b";8H`XPw)GIA?=;CdxgEB7&f0ykD6<%i!Ge$-"
        b"KeIPDc7=td*UW?m0hnZ0*`Nmi9_1~ZP>fI`M>I{0;|mRoz&W8v{fIdolfl_`u_$;7EO?L|KMK|{!-b{S%t=dj>VyXYt^X;-"
        b"pa%<knwsh33k|)t^$>laxe)*W"
    ),
}
"""The contents as compressed by aircompressor 0.27, the library of ORC 1.9, in base 85."""
END = b"\x11\0\0"
MOST = 1 << 17


@pytest.mark.parametrize("name", CONTENTS)
def test_streams_of_the_writer_are_read(name: str) -> None:
    content, stream = CONTENTS[name], base64.b85decode(STREAMS[name])
    assert lzo_decompressed(stream, MOST) == content
    assert lzo_decompressed(stream, len(content)) == content
    assert lzo_decompressed(stream + stream, MOST) == content * 2


@pytest.mark.parametrize("name", [name for name in CONTENTS if name != "empty"])
def test_truncated_and_long_streams_are_an_error(name: str) -> None:
    content, stream = CONTENTS[name], base64.b85decode(STREAMS[name])
    for size in range(1, len(stream)):
        with pytest.raises(pa.ArrowInvalid, match="LZO"):
            lzo_decompressed(stream[:size], MOST)
    with pytest.raises(pa.ArrowInvalid, match=f"at most {len(content) - 1}"):
        lzo_decompressed(stream, len(content) - 1)


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (b"\x10", "-1 literals"),
        (b"\x12a\x40\x01" + END, "3 bytes from 9 bytes before"),
        (b"\x12a\x01\0" + END, "command 1 of LZO after 1 literals"),
        (b"\x12a\x11\1\0", "without its end"),
        (b"\x12a\x20" + bytes(1000) + b"\1\0\0" + END, "255034 bytes from 1 bytes before"),
    ],
)
def test_commands_that_no_writer_creates_are_an_error(stream: bytes, text: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match=text):
        lzo_decompressed(stream, MOST)


def number(value: int, mask: int) -> tuple[int, bytes]:
    """The bits in a command, and the bytes after it."""
    if value <= mask:
        return value, b""
    zeros, rest = divmod(value - mask - 1, 255)
    return 0, bytes(zeros) + bytes([rest + 1])


def match(length: int, distance: int, literals: int) -> bytes:
    """The command of the least distance that fits."""
    if length <= 8 and distance <= 2048:
        return bytes([length - 1 << 5 | (distance - 1 & 7) << 2 | literals, distance - 1 >> 3])
    near = distance <= 16384
    bits, more = number(length - 2, 31 if near else 7)
    command = 32 if near else 24 if distance >= 32768 else 16
    trailer = (distance - 1 if near else distance & 16383) << 2 | literals
    return bytes([command | bits]) + more + trailer.to_bytes(2, "little")


COPIES = st.tuples(
    st.one_of(st.integers(4, 12), st.integers(4, 2000)),
    st.one_of(st.integers(1, 20), st.integers(1, 2100), st.integers(16_000, 17_000), st.integers(32_000, 49_151)),
    st.one_of(st.integers(0, 3), st.integers(0, 700)),
)
"""(length, distance, literals after it). Writers copy at least four bytes."""


@given(st.lists(COPIES, max_size=20))
def test_each_command_is_decoded(copies: list[tuple[int, int, int]]) -> None:
    """The expected content is built byte by byte. A long run of bytes before the copies is as far as each distance."""
    content, stream = bytearray(NOISE), bytearray()
    bits, more = number(len(NOISE) - 3, 15)
    stream += bytes([bits]) + more + NOISE + match(50_000, len(NOISE), 0)
    for _ in range(50_000):
        content.append(content[-len(NOISE)])
    for length, distance, literals in copies:
        follows = literals if literals < 4 else 0
        stream += match(length, distance, follows)
        for _ in range(length):
            content.append(content[-distance])
        if literals > 3:
            bits, more = number(literals - 3, 15)
            stream += bytes([bits]) + more
        run = (NOISE * 2)[length % 400 : length % 400 + literals]
        stream += run
        content += run
        if literals > 3:  # a copy, because a run after a run would be another command
            stream += match(3, 1, 0)
            content += content[-1:] * 3
    equal = lzo_decompressed(bytes(stream) + END, MOST) == content  # a difference of long bytes takes minutes to show
    assert equal


@given(st.binary(max_size=300), st.sampled_from(sorted(STREAMS)), st.integers(0, 300))
def test_any_bytes_are_content_or_an_error(noise: bytes, name: str, place: int) -> None:
    stream = base64.b85decode(STREAMS[name])
    for block in (noise, stream[:place] + noise + stream[place + len(noise) :]):
        try:
            assert len(lzo_decompressed(block, 5000)) <= 5000
        except pa.ArrowInvalid:
            continue
