"""Elements of a long JSON array, window by window; the oracle is the standard library's parser."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from mixte import ProfileError
from mixte.profiles import _limits
from mixte.profiles.readers._json_array import JsonArray
from mixte.profiles.readers._source import Source


class Element(msgspec.Struct):
    n: int
    name: str = ""
    args: Any = None


def read(tmp_path, text: str | bytes, key: str | None = "events", window: int = 64):
    path = tmp_path / "trace.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    source = Source(path)
    whole = source.windows
    source.windows = lambda size=window: whole(window)  # type: ignore[method-assign] - small windows find more
    array = JsonArray(source, key, Element)
    return [element for batch in array.batches() for element in batch], array


def elements(rng, count: int) -> list[dict[str, Any]]:
    """Elements with everything that could be taken for the gap between two of them."""
    texts = ["}, {", '"}', "],[", "\\", "{", 'a"b', "é…", "}},\n{{", "", "x" * 90]
    return [
        {
            "n": number,
            "name": rng.choice(texts),
            "args": rng.choice([None, {}, [{}, {"n": 1}], {"a": [[1, 2], [{"b": "}, {"}]]}, [], 5]),
        }
        for number in range(count)
    ]


LAYOUTS = {
    "compact": {"separators": (",", ":")},
    "spaced": {},
    "indented": {"indent": 2},
    "wide": {"indent": 4, "separators": (" , ", " : ")},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("window", [16, 61, 1024, 100_000])
def test_all_elements_are_found_in_any_layout_and_window(tmp_path, seeded, layout, window):
    rng = seeded(f"{layout} {window}")
    for count in (0, 1, 2, 57):
        wanted = elements(rng, count)
        text = json.dumps({"first": {"a": [1]}, "events": wanted, "last": [{}, {"n": 5}]}, **LAYOUTS[layout])
        found, array = read(tmp_path, text, window=window)
        assert [msgspec.to_builtins(element) for element in found] == wanted
        assert array.complete
        assert array.skipped == 0
        assert json.loads(array.before + b'"events":[]}')["first"] == {"a": [1]}
        assert json.loads(b'{"events":[]' + array.after)["last"] == [{}, {"n": 5}]


def test_a_bare_list_is_an_array_too(tmp_path, seeded):
    wanted = elements(seeded(4), 20)
    found, array = read(tmp_path, "\n " + json.dumps(wanted), key=None)
    assert [msgspec.to_builtins(element) for element in found] == wanted
    assert array.complete


def test_gaps_that_differ_within_the_array_are_found(tmp_path, seeded):
    wanted = elements(seeded(5), 40)
    gaps = [",", ", ", " ,\n", "\n,\t"]
    text = json.dumps(wanted[0]) + "".join(
        gaps[number % 4] + json.dumps(element) for number, element in enumerate(wanted[1:])
    )
    found, _ = read(tmp_path, f'{{"events": [{text}]}}')
    assert [msgspec.to_builtins(element) for element in found] == wanted


def test_a_file_cut_anywhere_gives_the_elements_before_the_cut(tmp_path, seeded):
    wanted = elements(seeded(6), 30)
    text = json.dumps({"events": wanted}, indent=1)
    ends = [json.dumps({"events": wanted[:count]}, indent=1).rfind("}", 0, -2) for count in range(31)]
    for cut in seeded(7).sample(range(len('{\n "events": ['), len(text) - 4), 150):
        found, array = read(tmp_path, text[:cut])
        # An element is complete when the cut lies behind its closing brace.
        complete = sum(1 for end in ends[1:] if end < cut)
        assert [element.n for element in found] == list(range(complete))
        assert not array.complete


def test_a_damaged_element_is_skipped_and_counted(tmp_path, seeded):
    wanted = elements(seeded(8), 60)
    pieces = [json.dumps(element) for element in wanted]
    pieces[10] = '{"n": 10, "name": "unfinished}'
    pieces[20] = '{"n": "not a number"}'
    pieces[30] = '{"n": 30, "name": "\\ud800 \\x"}'
    found, array = read(tmp_path, f'{{"events": [{", ".join(pieces)}]}}')
    assert {element.n for element in found} >= set(range(60)) - {9, 10, 11, 20, 30}
    assert array.skipped >= 3
    assert array.complete


def test_bytes_that_are_no_utf8_cost_their_element_only(tmp_path):
    pieces = [json.dumps({"n": number, "name": "x"}).encode() for number in range(20)]
    pieces[7] = b'{"n": 7, "name": "\xff\xfe"}'
    found, array = read(tmp_path, b'{"events": [' + b", ".join(pieces) + b"]}")
    assert [element.n for element in found if element.n != 7] == [n for n in range(20) if n != 7]
    assert array.complete


def test_an_element_nested_without_end_is_skipped(tmp_path):
    deep = "[" * 100_000 + "]" * 100_000
    text = f'{{"events": [{{"n": 1}}, {{"n": 2, "args": {deep}}}, {{"n": 3}}]}}'
    found, array = read(tmp_path, text, window=4096)
    assert [element.n for element in found] in ([1, 3], [1, 2, 3])
    assert array.complete or array.skipped


def test_tensorflows_empty_object_at_the_end_is_no_damage(tmp_path):
    found, array = read(tmp_path, '{"events": [{"n": 1}, {}]}')
    assert [element.n for element in found] == [1]
    assert array.skipped == 0


def test_utf16_is_read_as_utf8_is(tmp_path):
    found, array = read(tmp_path, '{"events": [{"n": 1, "name": "é"}, {"n": 2}]}'.encode("utf-16"))
    assert [(element.n, element.name) for element in found] == [(1, "é"), (2, "")]
    assert array.complete


def test_a_file_without_the_array_is_refused(tmp_path):
    with pytest.raises(ProfileError, match="ends before its list of events begins"):
        read(tmp_path, '{"other": [1, 2]}')


def test_an_event_beyond_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(_limits, "MAX_ELEMENT_BYTES", 2000)
    with pytest.raises(ProfileError, match="has an event of more than"):
        read(tmp_path, '{"events": [{"n": 1, "name": "' + "x" * 5000 + '"}]}')
