"""Nsight Systems databases: schemas of several releases, NVTX ranges, steps, graphs, damage."""

from __future__ import annotations

import sqlite3

import pytest

from mixte import ProfileError
from mixte.profiles import _limits, read_profile
from mixte.profiles.readers._nsys_links import operator_of
from mixte.profiles.readers._sqlite import Database

STRINGS = {1: "void gemm<(int)4>(T1 *)", 2: "gemm", 3: "void add(float *)", 4: "layer 1"}
KERNEL_COLUMNS = ", ".join(
    f"{column} INT"
    for column in (
        *("start", "end", "deviceId", "streamId", "correlationId", "globalPid", "demangledName", "shortName"),
    )
)
PROCESS = 7 << 24
THREAD = PROCESS | 42


@pytest.fixture
def database(tmp_path):
    """Build a database; `tables` maps a table's definition to its rows."""

    def build(tables, name="report.sqlite", strings=STRINGS):
        path = tmp_path / name
        with sqlite3.connect(path) as connection:
            connection.execute("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)")
            connection.executemany("INSERT INTO StringIds VALUES (?, ?)", strings.items())
            for definition, rows in tables.items():
                connection.execute(f"CREATE TABLE {definition}")
                table = definition.split(" ")[0]
                for row in rows:
                    marks = ", ".join("?" * len(row))
                    connection.execute(f"INSERT INTO {table} VALUES ({marks})", row)  # noqa: S608 - our own words
        connection.close()
        return path

    return build


def kernels(*rows):
    return {f"CUPTI_ACTIVITY_KIND_KERNEL ({KERNEL_COLUMNS})": rows}


def calls(*rows):
    return {"CUPTI_ACTIVITY_KIND_RUNTIME (start INT, end INT, globalTid INT, correlationId INT)": rows}


def ranges(*rows):
    definition = "NVTX_EVENTS (start INT, end INT, eventType INT, text TEXT, globalTid INT, textId INT)"
    return {definition: rows}


def test_kernels_add_up_by_name_device_and_stream(database):
    path = database(
        kernels(
            (0, 10, 0, 7, 1, PROCESS, 1, 2),
            (10, 25, 0, 7, 2, PROCESS, 1, 2),
            (0, 5, 1, 7, 3, PROCESS, 1, 2),
            (0, 4, 0, 13, 4, PROCESS, 3, 3),
        )
    )
    assert [(k.name, k.device, k.stream, k.count, k.duration_ns) for k in read_profile(path).kernels] == [
        ("void gemm<(int)4>(T1 *)", 0, 7, 2, 25),
        ("void gemm<(int)4>(T1 *)", 1, 7, 1, 5),
        ("void add(float *)", 0, 13, 1, 4),
    ]


def test_short_names_are_taken_only_where_there_are_no_others(database):
    path = database(
        {"CUPTI_ACTIVITY_KIND_KERNEL (start INT, end INT, deviceId INT, shortName INT)": [(0, 10, 0, 2)]}
    )
    (row,) = read_profile(path).kernels
    assert (row.name, row.stream) == ("gemm", None)


def test_more_rows_than_one_piece_holds_add_up(database):
    rows = [(n, n + 1 + n % 3, n % 2, 7, n, PROCESS, 1 + 2 * (n % 2), 2) for n in range(50_001)]
    found = {k.name: (k.count, k.duration_ns) for k in read_profile(database(kernels(*rows))).kernels}
    expected = {}
    for start, end, _, _, _, _, name, _ in rows:
        count, time = expected.get(STRINGS[name], (0, 0))
        expected[STRINGS[name]] = (count + 1, time + end - start)
    assert found == expected


def test_a_kernel_belongs_to_the_operator_and_the_ranges_around_its_launch(database):
    path = database(
        kernels((500, 600, 0, 7, 1, PROCESS, 1, 2))
        | calls((50, 55, THREAD, 1))
        | ranges(
            (0, 1000, 59, "iteration 12", THREAD, None),
            (10, 100, 59, None, THREAD, 4),
            (20, 90, 59, "aten::linear, seq = 3, op_id = 8, sizes = [[4, 8], [16, 8]]", THREAD, None),
            (40, 60, 59, "aten::mm, op_id = 9, sizes = [[4, 8], [8, 16], []]", THREAD, None),
            (45, 58, 59, "elsewhere", THREAD + 1, None),
            (48, None, 34, "a mark", THREAD, None),
        )
    )
    profile = read_profile(path)
    (row,) = profile.kernels
    assert (row.op, row.layer, row.step) == ("aten::mm", "layer 1", 12)
    assert row.input_shapes == ((4, 8), (8, 16))
    assert profile.steps == (12,)


def test_the_same_correlation_id_in_two_processes_is_two_launches(database):
    other = 9 << 24
    path = database(
        kernels((500, 600, 0, 7, 1, PROCESS, 1, 2), (500, 700, 1, 7, 1, other, 3, 3))
        | calls((50, 55, THREAD, 1), (60, 65, other | 1, 1))
        | ranges((0, 100, 59, "first", THREAD, None), (0, 100, 59, "second", other | 1, None))
    )
    assert {k.name: k.layer for k in read_profile(path).kernels} == {
        "void gemm<(int)4>(T1 *)": "first",
        "void add(float *)": "second",
    }


@pytest.mark.parametrize(
    ("text", "operator"),
    [
        ("aten::mm, op_id = 5", ("aten::mm", None)),
        ("aten::mm, seq = 5, op_id = 7, sizes = [[2, 3], [3, 4]]", ("aten::mm", ((2, 3), (3, 4)))),
        ("AddmmBackward0, seq = 12, op_id = 9", ("AddmmBackward0", None)),
        ("autograd::engine::evaluate_function: X, op_id = 9", ("autograd::engine::evaluate_function: X", None)),
        ("TSL:Thunk:#hlo_op=fusion.3,hlo_module=jit_step#", ("fusion.3", None)),
        ("forward, backward", (None, None)),
        ("ncclAllReduce", (None, None)),
        ("aten::cat, sizes = [[[2, 3], [4, 3]], []]", ("aten::cat", None)),
    ],
)
def test_operators_are_told_from_the_texts_of_ranges(text, operator):
    assert operator_of(text) == operator


@pytest.mark.parametrize(
    ("text", "step"),
    [
        *(("ProfilerStep#7", 7), ("step 3", 3), ("Iteration: 12", 12), ("train_step=5", 5), ("batch_9", 9)),
        *(("iter#4", 4), ("step", None), ("stepwise 3", None), ("layer 3", None)),
    ],
)
def test_steps_are_told_from_the_texts_of_ranges(database, text, step):
    path = database(
        kernels((500, 600, 0, 7, 1, PROCESS, 1, 2))
        | calls((50, 55, THREAD, 1))
        | ranges((0, 100, 59, text, THREAD, None))
    )
    profile = read_profile(path)
    assert profile.kernels[0].step == step
    assert profile.steps == (() if step is None else (step,))


def test_too_many_launches_to_link_are_summed_up_with_a_note(database, monkeypatch):
    monkeypatch.setattr(_limits, "MAX_LINKED_LAUNCHES", 2)
    path = database(
        kernels(*((500 + n, 510 + n, 0, 7, n, PROCESS, 1, 2) for n in range(3)))
        | calls(*((50, 55, THREAD, n) for n in range(3)))
        | ranges((0, 100, 59, "forward", THREAD, None))
    )
    profile = read_profile(path)
    (row,) = profile.kernels
    assert (row.count, row.duration_ns, row.layer) == (3, 30, None)
    assert profile.notes[0].startswith(
        "operators and steps are left out: the file has 3 kernels, 1 NVTX ranges"
    )


def test_gpus_use_compute_and_not_sm(database):
    definition = (
        "TARGET_INFO_GPU (id INT, name TEXT, chipName TEXT, cuDevice INT, computeMajor INT, computeMinor INT, "
        "smMajor INT, smMinor INT)"
    )
    path = database({definition: [(3, "NVIDIA GeForce RTX 5060 Ti", "GB206", 0, 12, 0, 10, 4)]})
    (gpu,) = read_profile(path).gpus
    assert (gpu.index, gpu.name, gpu.chip, gpu.compute_capability) == (
        0,
        "NVIDIA GeForce RTX 5060 Ti",
        "GB206",
        (12, 0),
    )


@pytest.mark.parametrize("table", ["META_DATA_EXPORT", "EXPORT_META_DATA"])
def test_the_producer_is_the_release_that_exported(database, table):
    path = database({f"{table} (name TEXT, value TEXT)": [("EXPORT_PRODUCT_VERSION", "2024.5.1.113")]})
    assert read_profile(path).producer == "Nsight Systems 2024.5.1.113"


def test_graphs_traced_as_a_whole_are_missing(database):
    graphs = {
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INT, end INT, graphId INT)": [
            (0, 1_500_000, 1),
            (0, 500_000, 1),
        ]
    }
    profile = read_profile(database(kernels((0, 10, 0, 7, 1, PROCESS, 1, 2)) | graphs))
    (sentence,) = profile.missing
    assert sentence.startswith("2 CUDA graphs (2.000 ms) were traced as a whole")
    assert sentence.endswith("profile with --cuda-graph-trace=node")


def test_why_there_are_no_kernels(database):
    assert read_profile(database(kernels(), "a")).no_kernels_reason == "the file's table of kernels is empty"
    assert "CUDA calls only" in read_profile(database(calls(), "b")).no_kernels_reason
    assert "--trace=cuda" in read_profile(database({}, "c")).no_kernels_reason


def test_a_view_in_place_of_a_table_is_not_run(database):
    path = database({})
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
            "SELECT x AS start, x AS end, 0 AS deviceId, 0 AS streamId, 1 AS demangledName FROM n"
        )
    connection.close()
    assert read_profile(path).kernels == ()


def test_a_damaged_table_gives_what_stands_before_the_damage(database):
    rows = [(n, n + 2, 0, 7, n, PROCESS, 1, 2) for n in range(120_000)]
    path = database(kernels(*rows))
    data = bytearray(path.read_bytes())
    middle = len(data) // 2 // 4096 * 4096
    data[middle : middle + 4096] = b"\xff" * 4096
    path.write_bytes(data)
    profile = read_profile(path)
    (row,) = profile.kernels
    assert 20_000 <= row.count < 120_000
    assert row.duration_ns == 2 * row.count
    assert "the table CUPTI_ACTIVITY_KIND_KERNEL is damaged after" in profile.missing[0]


def test_a_database_whose_last_pages_are_cut_off_says_so(shared, tmp_path):
    path = tmp_path / "cut.sqlite"
    path.write_bytes((shared / "data/profiles/nsys_sqlite/h100_fp32_simt_2gpu.sqlite").read_bytes()[:-5000])
    profile = read_profile(path)
    assert profile.kernels
    assert profile.missing[0] == "the database is cut off: 2.2 of 2.2 MiB are there"


def test_rows_out_of_order_do_not_go_on_for_ever(database, monkeypatch):
    """Damage can put pages of another table where this one's should be."""
    path = database(kernels((0, 10, 0, 7, 1, PROCESS, 1, 2)))
    execute = Database._execute

    def out_of_order(self, query, values):
        return [(5,)] if query.startswith("SELECT max(r)") else execute(self, query, values)

    monkeypatch.setattr(Database, "_execute", out_of_order)
    assert "its rows are out of order" in read_profile(path).missing[0]


def test_errors_of_sqlite_become_one_line(database, monkeypatch):
    """SQLite quotes the schema, line ends included; Python fails on bytes in the quotation that are no text."""
    path = database(kernels((0, 10, 0, 7, 1, PROCESS, 1, 2)))
    for error in (
        sqlite3.DatabaseError("malformed schema: x\n  y"),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
    ):

        def fails(*_args, error=error):
            raise error

        monkeypatch.setattr(Database, "_execute", fails)
        with pytest.raises(ProfileError, match="is a damaged SQLite file") as caught:
            read_profile(path)
        assert "\n" not in str(caught.value)


def test_kernels_whose_names_are_lost_are_missing(database):
    profile = read_profile(database(kernels((0, 10, 0, 7, 1, PROCESS, 1, 2)), strings={}))
    assert profile.missing == ("the names of 1 kernel launches are not in the file",)


def test_nothing_is_written_beside_the_database(database):
    path = database(kernels((0, 10, 0, 7, 1, PROCESS, 1, 2)))
    before = path.read_bytes()
    read_profile(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == before
