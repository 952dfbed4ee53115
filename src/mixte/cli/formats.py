"""``mixte formats``: range and precision of the number formats, and what given numbers become in each."""

from __future__ import annotations

import json
import math
import re
import sys
from typing import TYPE_CHECKING, Any

from mixte._errors import InputError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator, Sequence

    from mixte.formats import BlockFormat, FloatFormat

_DEFAULT_NUMBERS = ["1e-8", "65520"]
_NAME_WIDTH = 18  # float8_e4m3b11fnuz
_NUMBER_WIDTH = 12  # six digits and an exponent; five such columns fit beside the name in 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "numbers",
        metavar="NUMBER",
        nargs="*",
        help="numbers to round to each format: 1e-8, 65520, 2^-24, 0x1p-24, inf (default: 1e-8 65520); "
        "put -- before negative ones",
    )
    parser.add_argument("--format", metavar="NAME[,NAME...]", help="only these formats, in this order")
    parser.add_argument(
        "--rounding",
        default="nearest_even",
        help="nearest_even (default), nearest_away, toward_zero, toward_positive or toward_negative",
    )
    parser.add_argument(
        "--saturate", action="store_true", help="what is too large becomes the largest number of each format"
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw the ranges (.png, .svg, .pdf); needs the extra 'plot'"
    )
    parser.add_argument(
        "--json", action="store_true", help="print JSON (described in docs/commands/formats.md)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the tables or the JSON document, and draw the plot where asked for."""
    chosen, blocks = _chosen(arguments.format)
    if arguments.rounding == "stochastic":
        raise InputError("stochastic rounding has no single result to print: choose another --rounding.")
    numbers = {text: _number(text) for text in arguments.numbers or _DEFAULT_NUMBERS}
    overflow = "saturate" if arguments.saturate else None
    results = _results(chosen, numbers, arguments.rounding, overflow)
    if arguments.plot is not None:
        from mixte.cli._formats_plot import draw

        draw(chosen, arguments.plot)
    if arguments.json:
        print(json.dumps(_document(chosen, blocks, numbers, results), indent=2, allow_nan=False))
    else:
        print("\n".join(_report(chosen, blocks, results, arguments)))
    if arguments.plot is not None:
        print(f"drawn: {arguments.plot}", file=sys.stderr)
    return 0


def _chosen(names: str | None) -> tuple[list[FloatFormat], list[BlockFormat]]:
    """The formats to show: all, or the named ones."""
    from mixte.formats import BLOCK_FORMATS, FORMATS

    if names is None:
        return list(FORMATS.values()), list(BLOCK_FORMATS.values())
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    known = [*FORMATS, *BLOCK_FORMATS]
    for name in wanted:
        if name not in known:
            raise InputError(f"unknown format '{name}'. The formats are: {', '.join(known)}.")
    if not wanted:
        raise InputError("--format needs a name, for example: mixte formats --format float16,bfloat16")
    return [FORMATS[n] for n in wanted if n in FORMATS], [
        BLOCK_FORMATS[n] for n in wanted if n in BLOCK_FORMATS
    ]


def _number(text: str) -> float:
    """Read a number as people write it: decimal, hexadecimal, or a power of two."""
    power = re.fullmatch(r"(-?)2(?:\^|\*\*)(-?\d{1,5})", text)
    try:
        if power:
            return math.ldexp(-1.0 if power[1] else 1.0, int(power[2]))
        value = float.fromhex(text) if "0x" in text.lower() else float(text)
    except (ValueError, OverflowError):
        raise InputError(
            f"'{text}' is not a number that float64 holds. Write 1e-8, 65520, 2^-24, 0x1p-24 or inf."
        ) from None
    if math.isinf(value) and "inf" not in text.lower():
        raise InputError(f"'{text}' is too large for float64 (largest: 1.8e308). Write inf for infinity.")
    return value


def _results(
    formats: Sequence[FloatFormat], numbers: dict[str, float], rounding: Any, overflow: Any
) -> dict[str, dict[str, float]]:
    """What each number becomes in each format: format name -> number as typed -> value."""
    from mixte.formats import round_scalar

    return {
        fmt.name: {
            text: round_scalar(value, fmt, rounding=rounding, overflow=overflow)
            for text, value in numbers.items()
        }
        for fmt in formats
    }


def _report(
    formats: Sequence[FloatFormat],
    blocks: Sequence[BlockFormat],
    results: dict[str, dict[str, float]],
    arguments: argparse.Namespace,
) -> Iterator[str]:
    if formats:
        yield from _range_table(formats)
        yield ""
        yield from _number_tables(formats, results)
        yield ""
        yield f"Rounded from float64 ({arguments.rounding.replace('_', ' ')}). What is too large becomes"
        yield (
            "the largest number (--saturate)."
            if arguments.saturate
            else "inf; nan where a format has no inf; the largest number where it has neither."
        )
    if formats and blocks:
        yield ""
    if blocks:
        yield from _block_table(blocks)


def _range_table(formats: Iterable[FloatFormat]) -> Iterator[str]:
    yield f"{'':{_NAME_WIDTH}}  bits            smallest  smallest   step at"
    yield f"{'format':{_NAME_WIDTH}} e + m   largest    normal subnormal         1  has"
    for fmt in formats:
        layout = f"{fmt.exponent_bits:>2} +{fmt.mantissa_bits:>2}"
        subnormal = "-" if fmt.min_subnormal is None else _short(fmt.min_subnormal)
        columns = (_short(fmt.max), _short(fmt.min_normal), subnormal, _short(fmt.epsilon))
        yield f"{fmt.name:{_NAME_WIDTH}} {layout} {' '.join(f'{x:>9}' for x in columns)}  {_specials(fmt)}"


def _specials(fmt: FloatFormat) -> str:
    owned = (
        ("inf", fmt.has_infinity),
        ("nan", fmt.has_nan),
        ("-0", fmt.has_negative_zero),
        ("no 0", not fmt.has_zero),
    )
    return " ".join(name for name, has in owned if has)


def _number_tables(formats: Sequence[FloatFormat], results: dict[str, dict[str, float]]) -> Iterator[str]:
    texts = list(results[formats[0].name])
    per_table = (80 - _NAME_WIDTH) // (_NUMBER_WIDTH + 1)
    for start in range(0, len(texts), per_table):
        part = texts[start : start + per_table]
        if start:
            yield ""
        yield f"{'becomes':{_NAME_WIDTH}}{''.join(f' {_clipped(text):>{_NUMBER_WIDTH}}' for text in part)}"
        for fmt in formats:
            values = (f" {_long(results[fmt.name][text]):>{_NUMBER_WIDTH}}" for text in part)
            yield f"{fmt.name:{_NAME_WIDTH}}{''.join(values)}"


def _block_table(blocks: Iterable[BlockFormat]) -> Iterator[str]:
    yield f"{'block format':12} {'elements':14} {'scale of a block':19} {'bits / element':>14} {'largest':>9}"
    for fmt in blocks:
        scale = f"{fmt.block_size:>2} x {fmt.scale.name}"
        note = "  x a float32 scale of the tensor" if fmt.has_tensor_scale else ""
        line = f"{fmt.name:12} {fmt.element.name:14} {scale:19} {fmt.bits_per_element:>14} {_short(fmt.max):>9}"
        yield line
        if note:
            yield f"{'':12}{note}"


def _clipped(text: str) -> str:
    return text if len(text) <= _NUMBER_WIDTH else f"{text[: _NUMBER_WIDTH - 1]}…"


def _short(value: float) -> str:
    """Four digits, or an exact integer of up to six."""
    return f"{value:.0f}" if value == int(value) and abs(value) < 1e6 else f"{value:.4g}"


def _long(value: float) -> str:
    """Six digits, or an exact integer of up to nine."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e9:
        return "-0" if value == 0 and math.copysign(1, value) < 0 else f"{value:.0f}"
    return f"{value:.6g}"


def _document(
    formats: Iterable[FloatFormat],
    blocks: Iterable[BlockFormat],
    numbers: dict[str, float],
    results: dict[str, dict[str, float]],
) -> dict[str, Any]:
    return {
        "formats": [_format_entry(fmt, numbers, results[fmt.name]) for fmt in formats],
        "block_formats": [
            {
                "name": fmt.name,
                "element": fmt.element.name,
                "scale": fmt.scale.name,
                "block_size": fmt.block_size,
                "has_tensor_scale": fmt.has_tensor_scale,
                "bits_per_element": fmt.bits_per_element,
                "max": fmt.max,
                "source": fmt.source,
            }
            for fmt in blocks
        ],
    }


def _format_entry(fmt: FloatFormat, numbers: dict[str, float], becomes: dict[str, float]) -> dict[str, Any]:
    return {
        "name": fmt.name,
        "bits": fmt.bits,
        "exponent_bits": fmt.exponent_bits,
        "mantissa_bits": fmt.mantissa_bits,
        "bias": fmt.bias,
        "max": fmt.max,
        "min_normal": fmt.min_normal,
        "min_subnormal": fmt.min_subnormal,
        "epsilon": fmt.epsilon,
        "zero_until": fmt.zero_boundary,
        "overflow_boundary": fmt.overflow_boundary,
        "overflow_boundary_overflows": fmt.overflow_boundary_overflows,
        "has_infinity": fmt.has_infinity,
        "has_nan": fmt.has_nan,
        "has_zero": fmt.has_zero,
        "has_negative_zero": fmt.has_negative_zero,
        "nan_codes": [[codes.start, codes.stop - 1] for codes in fmt.nan_codes],
        "source": fmt.source,
        "becomes": [
            {"number": text, "value": _strict(becomes[text]), "code": _code(becomes[text], fmt)}
            for text in numbers
        ],
    }


def _strict(value: float) -> float | str:
    """JSON has no infinities and no NaN: they become the strings "inf", "-inf" and "nan"."""
    return value if math.isfinite(value) else str(value)


def _code(value: float, fmt: FloatFormat) -> str | None:
    """The bit pattern in hexadecimal; None for a NaN that the format cannot encode."""
    from mixte.formats import encode

    if math.isnan(value) and not fmt.has_nan:
        return None
    return f"0x{int(encode(value, fmt)):0{-(-fmt.bits // 4)}x}"
