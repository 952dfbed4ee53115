from __future__ import annotations

import tomllib

import pytest
from hypothesis import given, settings, strategies as st

from mixte.policy._toml_lines import key_lines

DOCUMENT = '''\
# [[rules]] in a comment; path = "not a key"
schema = 1  # [[rules]]
name = "[[rules]] # no comment \\" = "

text = """
[[rules]]
path = "not a key"
ends in two quotes"""""
raw = \'\'\'
schema = 2
\'quoted\'\'\'\'
windows.path = 'C:\\'
"quoted key" = 1
'literal "key"' = 2
"esc\\u0061ped" = 3
dotted . "in the".middle = 4
numbers = [
    1,  # ]
    [2, "]"],

    3,
]
inline = { a = 1, b.c = { d = "}" }, list = [ { e = 5 } ] }
date = 1979-05-27 07:32:00

[loss_scale]
law = "dynamic"

[[rules]]  # the first
path = "a"
[rules.more]
deep = true

[[ "rules" ]]
path = "b"
[[rules.nested]]
x = 1
[[rules.nested]]
x = 2

[last . table]
end = 0'''


def leaves_and_tables(value, path=()):
    """Every key path of a parsed document."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves_and_tables(inner, (*path, key))
    if isinstance(value, list):
        for index, inner in enumerate(value):
            yield from leaves_and_tables(inner, (*path, index))


def test_every_key_that_tomllib_finds_has_a_line_and_nothing_else_has():
    assert set(key_lines(DOCUMENT)) == set(leaves_and_tables(tomllib.loads(DOCUMENT)))


@pytest.mark.parametrize(
    ("path", "start_of_line"),
    [
        (("schema",), "schema = 1"),
        (("name",), "name ="),
        (("text",), 'text = """'),
        (("raw",), "raw ="),
        (("windows",), "windows.path"),
        (("windows", "path"), "windows.path"),
        (("quoted key",), '"quoted key"'),
        (('literal "key"',), "'literal"),
        (("escaped",), '"esc'),
        (("dotted", "in the", "middle"), "dotted ."),
        (("numbers",), "numbers = ["),
        (("numbers", 0), "    1,"),
        (("numbers", 1, 1), "    [2"),
        (("numbers", 2), "    3,"),
        (("inline", "b", "c", "d"), "inline ="),
        (("inline", "list", 0, "e"), "inline ="),
        (("date",), "date ="),
        (("loss_scale",), "[loss_scale]"),
        (("loss_scale", "law"), "law ="),
        (("rules",), "[[rules]]  # the first"),
        (("rules", 0), "[[rules]]  # the first"),
        (("rules", 0, "path"), 'path = "a"'),
        (("rules", 0, "more", "deep"), "deep"),
        (("rules", 1), '[[ "rules" ]]'),
        (("rules", 1, "path"), 'path = "b"'),
        (("rules", 1, "nested", 0, "x"), "x = 1"),
        (("rules", 1, "nested", 1, "x"), "x = 2"),
        (("last", "table", "end"), "end = 0"),
    ],
)
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_key_stands_on_the_line_where_it_is_first_written(path, start_of_line, line_end):
    line = key_lines(DOCUMENT.replace("\n", line_end))[path]
    assert DOCUMENT.splitlines()[line - 1].startswith(start_of_line)


DECOYS = ("[[rules]]", "path = 'x'", "# comment", "]", "}", '\\"', "''", "= {", "a.b")
VALUES = st.sampled_from(
    [
        "1",
        "-1.5e3",
        "true",
        "inf",
        "1979-05-27T07:32:00Z",
        "07:32:00",
        "[]",
        "{}",
        "[ 1, [2],\n # ] , }\n 3 , ]",
        '[ "]", "#",\n\n"}" ]',
        "{ x = 1, 'y.z' = [ {}, { w = '}' } ] }",
    ]
) | st.lists(st.sampled_from(DECOYS), max_size=4).flatmap(
    lambda parts: st.sampled_from(
        [
            '"' + " ".join(parts) + '"',
            '"""\n' + "\n".join(parts) + '"""',
            "'''" + "\n".join(parts).replace("''", "") + "'''",
        ]
    )
)
STATEMENTS = st.lists(
    st.tuples(st.just("key"), VALUES)
    | st.tuples(st.just("dotted"), VALUES)
    | st.tuples(st.just("quoted"), VALUES)
    | st.tuples(st.sampled_from(["table", "rules", "blank"]), st.just(""))
    | st.tuples(st.just("comment"), st.sampled_from(DECOYS)),
    max_size=12,
)


@settings(derandomize=True, deadline=None)
@given(statements=STATEMENTS)
def test_lines_are_right_by_construction_of_the_document(statements):
    lines, expected, table, rules_count = [], {}, (), 0
    for number, (kind, value) in enumerate(statements):
        line = 1 + sum(part.count("\n") + 1 for part in lines)
        match kind:
            case "key":
                lines.append(f"k{number} = {value}")
                expected[*table, f"k{number}"] = line
            case "dotted":
                lines.append(f"\td{number} . e={value} # '''")
                expected[*table, f"d{number}"] = expected[*table, f"d{number}", "e"] = line
            case "quoted":
                lines.append(f'"q = [{number}] \\t#" = {value}')
                expected[*table, f"q = [{number}] \t#"] = line
            case "table":
                lines.append(f"[t{number}]")
                table = (f"t{number}",)
                expected[table] = line
            case "rules":
                lines.append(" [[rules]]")
                table = ("rules", rules_count)
                rules_count += 1
                expected[table] = line
            case "comment":
                lines.append(f"# {value}")
            case _:
                lines.append("")
    text = "\n".join(lines)
    found = key_lines(text)
    assert set(found) == set(leaves_and_tables(tomllib.loads(text)))
    assert {path: found[path] for path in expected} == expected
