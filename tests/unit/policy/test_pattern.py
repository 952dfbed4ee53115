from __future__ import annotations

import glob
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

import pytest
from hypothesis import given, settings, strategies as st

from mixte import PolicyError
from mixte.policy import ByPath, LayerDescription
from mixte.policy._pattern import match_path
from mixte.policy._selectors import specificity

SEEDED = settings(derandomize=True, deadline=None)
NAMES = ("a", "b", "ab", "block_1", "block_2", "query")
SEGMENTS = st.sampled_from([*NAMES, "*", "?", "a*", "*b", "block_?", "block_[12]", "[!a]", "q*y", "[ab]"])
PATHS = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join)


def selects(pattern: str, path: str) -> bool:
    return match_path(pattern, tuple(path.split("/")) if path else ()) is not None


def grades(pattern: str, path: str):
    return specificity(ByPath(pattern), LayerDescription(path=path, class_names=("Layer",)))


@SEEDED
@given(segment=SEGMENTS, name=st.sampled_from(NAMES))
def test_one_segment_matches_one_name_as_fnmatch_does(segment, name):
    assert selects(segment, name) == fnmatchcase(name, segment)


@SEEDED
@given(segments=st.lists(SEGMENTS, min_size=1, max_size=4), path=PATHS, anchored=st.booleans())
def test_without_double_star_a_pattern_matches_as_pathlib_does(segments, path, anchored):
    root = "/" if anchored else ""
    pattern = root + "/".join(segments)
    # pathlib matches a relative pattern against the tail of a path and an absolute one against the whole.
    assert selects(pattern, path) == PurePosixPath(root + path).match(pattern)


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    root = tmp_path_factory.mktemp("tree")
    for first in NAMES:
        for second in ("a", "block_2", "query"):
            for third in ("b", "block_1", "query"):
                (root / first / second / third).mkdir(parents=True)
    return root


@settings(SEEDED, max_examples=150)
@given(segments=st.lists(SEGMENTS | st.just("**"), min_size=1, max_size=4), anchored=st.booleans())
def test_double_star_matches_as_the_standard_library_globs_a_tree_of_folders(tree, segments, anchored):
    pattern = "/".join(segments)
    whole = pattern if anchored else f"**/{pattern}"
    found = glob.glob(whole, root_dir=tree, recursive=True)  # noqa: PTH207 - the module glob is the oracle
    paths = {path.relative_to(tree).as_posix() for path in tree.rglob("*")}
    expected = {path.rstrip("/") for path in found} & paths  # glob also yields the missing folder x of "x/**"
    pattern = f"/{pattern}" if anchored else pattern
    assert {path for path in paths if selects(pattern, path)} == expected


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("block", "encoder/block", True),
        ("block", "encoder/block/dense", False),
        ("block/**", "encoder/block", True),
        ("block/**", "encoder/block/dense", True),
        ("block/**", "encoder/block/attention/query", True),
        ("block/**/*", "encoder/block", False),
        ("block/**/*", "encoder/block/dense", True),
        ("lock", "encoder/block", False),
        ("/block", "encoder/block", False),
        ("/encoder/block", "encoder/block", True),
        ("encoder/**/query", "encoder/query", True),
        ("encoder/**/query", "encoder/block/attention/query", True),
        ("Block", "block", False),
        ("/", "", True),
        ("/", "block", False),
        ("**", "", True),
        ("*", "", False),
    ],
)
def test_documented_examples_of_what_a_pattern_selects(pattern, path, expected):
    assert selects(pattern, path) is expected


@pytest.mark.parametrize(
    ("stronger", "weaker"),
    [
        ("query", "encoder/**"),  # naming the layer beats naming where it is
        ("query", "/encoder/block_2/attention/*"),
        ("block_2/**", "/encoder/**"),  # the nearer block wins
        ("encoder/block_2/**", "block_2/**"),
        ("/encoder/block_2/attention/query", "query"),
        ("que*", "qu*"),
        ("qu*", "*"),
        ("quer?", "qu*"),
        ("query", "quer?"),
        ("*", "**"),
        ("attention/*", "*"),
        ("encoder/**/query", "query"),
    ],
)
def test_the_pattern_that_says_more_about_the_layer_nearest_first_is_more_specific(stronger, weaker):
    path = "encoder/block_2/attention/query"
    assert grades(stronger, path) > grades(weaker, path)


def test_a_spelled_out_path_is_equally_specific_with_and_without_an_anchor():
    assert grades("/a/b", "a/b") == grades("a/b", "a/b")


def test_double_star_counts_in_the_way_that_says_most():
    assert grades("**/a/**", "a/a") == grades("a", "a/a")


@SEEDED
@given(path=st.lists(st.text("ab*?[]!-", min_size=1, max_size=5), min_size=1, max_size=3).map("/".join))
def test_exactly_selects_its_path_whatever_characters_it_has_and_counts_as_spelled_out(path):
    pattern = ByPath.exactly(path).pattern
    assert selects(pattern, path)
    assert not selects(pattern, f"{path}x")
    assert not selects(pattern, f"x/{path}")
    assert all(kind == 3 for kind, _ in match_path(pattern, tuple(path.split("/"))))


@pytest.mark.parametrize("pattern", ["", "a//b", "a/", "//", "block**", "a/**b/c", "***"])
def test_a_malformed_pattern_is_refused_with_advice(pattern):
    with pytest.raises(PolicyError, match=r"path pattern"):
        ByPath(pattern)


def test_the_order_of_patterns_that_the_documentation_gives():
    path = "encoder/block_2/attention/query"
    strongest_first = [
        "encoder/block_2/attention/query",
        "encoder/**/query",
        "query",
        "quer?",
        "qu*",
        "attention/*",
        "*",
        "encoder/block_2/**",
        "block_2/**",
        "encoder/**",
        "**",
    ]
    assert sorted(strongest_first, key=lambda pattern: grades(pattern, path), reverse=True) == strongest_first
    assert len({grades(pattern, path) for pattern in strongest_first}) == len(strongest_first)
