"""`mixte formats` as a user meets it."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from mixte.cli import main
from mixte.cli._formats_plot import bars
from mixte.formats import BLOCK_FORMATS, FORMATS, decode, magnitude_ranges, round_to


def out(capsys, *arguments):
    assert main(["formats", *arguments]) == 0
    return capsys.readouterr().out


def cells(text, name):
    """The columns of the last table row that starts with a format's name."""
    rows = [line.split()[1:] for line in text.splitlines() if line.split()[:1] == [name]]
    return rows[-1]


def test_all_formats_are_shown_in_80_columns(capsys):
    text = out(capsys)
    assert max(map(len, text.splitlines())) <= 80
    for name in (*FORMATS, *BLOCK_FORMATS):
        assert name in text.split()


def test_output_shown_in_the_documentation_is_the_commands(capsys):
    page = Path(__file__).parents[3] / "docs" / "commands" / "formats.md"
    shown = page.read_text(encoding="utf-8").split("    $ mixte formats ", 1)[1].split("\n\n|", 1)[0]
    command, _, expected = shown.partition("\n")
    assert out(capsys, *command.split()) == dedent(expected) + "\n"


def test_limits_of_float16_and_what_the_two_default_numbers_become(capsys):
    lines = out(capsys).splitlines()
    limits = next(line for line in lines if line.startswith("float16 "))
    assert limits.split() == [
        "float16",
        "5",
        "+10",
        "65504",
        "6.104e-05",
        "5.96e-08",
        "0.0009766",
        "inf",
        "nan",
        "-0",
    ]
    assert cells("\n".join(lines), "float16") == ["0", "inf"]
    assert cells("\n".join(lines), "bfloat16") == ["1.00117e-08", "65536"]
    assert cells("\n".join(lines), "float8_e4m3fn") == ["0", "nan"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2^-24", "5.96046e-08"),
        ("2**-25", "0"),
        ("0x1.8p-3", "0.1875"),
        ("inf", "inf"),
        ("nan", "nan"),
        ("1e-400", "0"),
        ("0.1", "0.0999756"),
        ("65519", "65504"),
    ],
)
def test_numbers_are_read_as_people_write_them(capsys, text, shown):
    assert cells(out(capsys, text), "float16") == [shown]


def test_negative_numbers_follow_two_dashes(capsys):
    assert cells(out(capsys, "--format", "float16", "--", "-1e-9", "-2^1"), "float16") == ["-0", "-2"]


def test_many_numbers_wrap_into_further_tables(capsys):
    text = out(capsys, "1", "2", "3", "4", "5", "6", "7", "123456789012345")
    assert max(map(len, text.splitlines())) <= 80
    assert sum(line.startswith("becomes") for line in text.splitlines()) == 2
    assert cells(text, "float32") == ["5", "6", "7", "1.23457e+14"]


def test_rounding_and_saturation_are_chosen(capsys):
    assert cells(out(capsys, "70000", "0.1", "--saturate"), "float16") == ["65504", "0.0999756"]
    assert cells(out(capsys, "0.1", "--rounding", "toward_positive"), "float16") == ["0.100037"]


def test_formats_are_chosen_in_order(capsys):
    text = out(capsys, "--format", "bfloat16,float16")
    assert text.index("bfloat16 ") < text.index("\nfloat16 ")
    assert "float32" not in text
    assert "float8" not in out(capsys, "--format", "mxfp4").replace("float8_e8m0fnu", "")


def test_json_is_strict_and_holds_the_limits_and_the_codes(capsys):
    def refuse(name):
        raise AssertionError(name)

    document = json.loads(out(capsys, "--json", "65520", "0.1"), parse_constant=refuse)
    assert [entry["name"] for entry in document["formats"]] == list(FORMATS)
    assert [entry["name"] for entry in document["block_formats"]] == list(BLOCK_FORMATS)
    half = next(entry for entry in document["formats"] if entry["name"] == "float16")
    assert (half["max"], half["min_subnormal"], half["zero_until"]) == (65504.0, 2.0**-24, 2.0**-25)
    assert half["nan_codes"] == [[0x7C01, 0x7FFF], [0xFC01, 0xFFFF]]
    assert half["becomes"] == [
        {"number": "65520", "value": "inf", "code": "0x7c00"},
        {"number": "0.1", "value": float(np.float16(0.1)), "code": "0x2e66"},
    ]
    for entry in document["formats"]:
        for number in entry["becomes"]:
            assert str(float(decode(int(number["code"], 16), entry["name"]))) == str(float(number["value"]))


def test_nan_in_a_format_without_nan_has_no_code(capsys):
    document = json.loads(out(capsys, "--json", "nan", "--format", "float4_e2m1fn"))
    assert document["formats"][0]["becomes"] == [{"number": "nan", "value": "nan", "code": None}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["abc"], "'abc' is not a number"),
        (["1,5"], "'1,5' is not a number"),
        (["0xzz"], "'0xzz' is not a number"),
        (["2^99999"], "'2^99999' is not a number that float64 holds"),
        (["1e999"], "'1e999' is too large for float64"),
        (["--format", "float15"], "unknown format 'float15'. The formats are: float32"),
        (["--format", ","], "--format needs a name"),
        (["--rounding", "up"], "unknown rounding 'up'"),
        (["--rounding", "stochastic"], "no single result"),
        (["--format", "mxfp4", "--plot", "x.png"], "--plot draws number formats"),
    ],
)
def test_bad_input_is_one_paragraph_and_exit_code_2(capsys, arguments, message):
    assert main(["formats", *arguments]) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.out == ""
    assert "Traceback" not in captured.err


def test_plot_without_matplotlib_names_the_extra(capsys, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    assert main(["formats", "--plot", str(tmp_path / "x.png")]) == 2
    assert "pip install 'mixte[plot]'" in capsys.readouterr().err


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_bars_change_where_rounding_does(name):
    fmt = FORMATS[name]
    drawn = bars(magnitude_ranges(fmt), -200.0, 200.0)
    assert drawn[-1][2] == 200.0
    for (_, _, stop), (_, start, _) in pairwise(drawn):
        assert stop == start
    edges = {kind: start for kind, start, _ in drawn}
    too_large = np.exp2(edges["too large"])
    assert round_to(too_large * (1 - 1e-9), fmt) == fmt.max
    above = round_to(too_large * (1 + 1e-9), fmt, overflow=None)
    assert not np.isfinite(above) or not fmt.has_nan
    if fmt.has_zero:
        subnormal = np.exp2(edges["subnormal"])
        assert round_to(subnormal, fmt) == 0
        assert round_to(subnormal * (1 + 1e-9), fmt) == fmt.min_subnormal
        assert np.exp2(edges["normal"]) == fmt.min_normal


def test_zero_of_float16_ends_at_2_to_minus_25_and_not_at_its_smallest_normal_number():
    zero, subnormal, normal, _ = bars(magnitude_ranges(FORMATS["float16"]), -40.0, 40.0)
    assert zero == ("zero", -40.0, -25.0)
    assert subnormal == ("subnormal", -25.0, -14.0)
    assert normal[1] == -14.0


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_plot_is_written(capsys, tmp_path, ending):
    pytest.importorskip("matplotlib", reason="drawing needs the extra 'plot'")
    path = tmp_path / f"ranges.{ending}"
    assert main(["formats", "--format", "float16,bfloat16", "--plot", str(path)]) == 0
    assert path.read_bytes()[:5] == (b"\x89PNG\r" if ending == "png" else b"<?xml")
    assert "drawn" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "message"), [("x.doc", "must end in one of"), ("missing/x.png", "cannot write")]
)
def test_plot_that_cannot_be_written_is_refused(capsys, tmp_path, path, message):
    pytest.importorskip("matplotlib", reason="drawing needs the extra 'plot'")
    assert main(["formats", "--plot", str(tmp_path / path)]) == 2
    assert message in capsys.readouterr().err
