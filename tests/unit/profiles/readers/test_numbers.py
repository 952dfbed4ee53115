"""Numbers of every locale and unit."""

from __future__ import annotations

import pytest

from mixte.profiles.readers._numbers import count, decimal_mark, duration_ns, nanoseconds_per, number


@pytest.mark.parametrize(
    ("samples", "mark"),
    [
        (["47.2", "1,570,803,442"], "."),
        (["19,0", "285 118 634"], ","),
        (["1,234.5"], "."),
        (["1.234,5"], ","),
        (["1,570,803"], "."),
        (["1.570.803"], ","),
        (["105", "1,234", "0,123"], ","),
        (["1234,567"], ","),
        (["803\u202f151,1"], ","),
        (["803\u00a0151.1"], "."),
        (["1'234.5"], "."),
        (["1,234"], "."),  # can be read either way: nothing else in the file decides
        ([], "."),
    ],
)
def test_decimal_mark_is_told_from_the_numbers_themselves(samples, mark):
    assert decimal_mark(samples) == mark


@pytest.mark.parametrize(
    ("text", "mark", "value"),
    [
        ("1,570,803,442", ".", 1570803442),
        ("785,401.7", ".", 785401.7),
        ("285 118 634", ",", 285118634),
        ("285\u202f118\u202f634", ",", 285118634),
        ("2\u00a0134\u00a0211,5", ",", 2134211.5),
        ("1.234,5", ",", 1234.5),
        ("1'234.5", ".", 1234.5),
        (" 12 ", ".", 12),
        ("-3.5", ".", -3.5),
        ("1e3", ".", 1000),
    ],
)
def test_numbers_are_read_in_the_locale_of_the_file(text, mark, value):
    assert number(text, mark) == value


@pytest.mark.parametrize("text", ["", "-", "n/a", "nan", "inf", "1e999", "Max (10)", "(132, 1, 1)"])
def test_what_is_no_finite_number_is_none(text):
    assert number(text) is None


@pytest.mark.parametrize(
    ("text", "value"), [("12", 12), ("1,200", 1200), ("12.5", None), ("-1", None), ("", None)]
)
def test_a_count_is_whole_and_not_negative(text, value):
    assert count(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("463.99us", 463_990),
        ("2.41277s", 2_412_770_000),
        ("889ns", 889),
        ("1.5210ms", 1_521_000),
        ("1e+03ns", 1000),
        ("463,99us", 463_990),
        ("12.5 µs", 12_500),
        ("12.5 \u03bcs", 12_500),
    ],
)
def test_a_duration_carries_its_unit(text, value):
    assert duration_ns(text) == pytest.approx(value, rel=3e-16)  # reading and multiplying round once each


@pytest.mark.parametrize("text", ["100.00%", "12", "us", "1.2.3us", ""])
def test_what_has_no_unit_of_time_is_no_duration(text):
    assert duration_ns(text) is None


def test_nsight_computes_long_unit_names_are_known():
    assert [nanoseconds_per(unit) for unit in ("nsecond", "usecond", "msecond", "second")] == [1, 1e3, 1e6, 1e9]
    assert nanoseconds_per("inst") is None
