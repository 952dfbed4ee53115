"""nvprof's database."""

from __future__ import annotations

import sqlite3

import pytest

from mixte import ProfileError
from mixte.profiles import read_profile

KERNEL = "(_id_ INTEGER PRIMARY KEY, start INT, end INT, deviceId INT, streamId INT, name INT)"


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "run.nvvp"
    with sqlite3.connect(path) as connection:
        connection.executescript(
            f"""
            CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY, value TEXT);
            INSERT INTO StringTable VALUES (1, 'Tesla V100'), (2, 'volta_h884gemm'), (3, '_Z3addPf');
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL {KERNEL};
            CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL {KERNEL};
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (1, 0, 10, 0, 7, 2), (2, 10, 25, 0, 7, 2);
            INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL VALUES (1, 0, 3, 0, 7, 2), (2, 0, 5, 0, 8, 3);
            CREATE TABLE CUPTI_ACTIVITY_KIND_DEVICE (id INT, name INT, computeCapabilityMajor INT,
                                                     computeCapabilityMinor INT);
            INSERT INTO CUPTI_ACTIVITY_KIND_DEVICE VALUES (0, 1, 7, 0);
            """  # noqa: S608 - our own words
        )
    connection.close()
    return path


def test_kernels_of_both_tables_add_up(database):
    profile = read_profile(database)
    assert [(k.name, k.stream, k.count, k.duration_ns) for k in profile.kernels] == [
        ("volta_h884gemm", 7, 3, 28),
        ("_Z3addPf", 8, 1, 5),
    ]
    assert [(g.name, g.compute_capability) for g in profile.gpus] == [("Tesla V100", (7, 0))]


def test_a_database_without_kernels_says_so(database):
    with sqlite3.connect(database) as connection:
        connection.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL")
        connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL")
    connection.close()
    assert read_profile(database).no_kernels_reason == "nvprof recorded no kernels"


def test_a_database_cut_in_its_first_page_is_refused(database):
    database.write_bytes(database.read_bytes()[:700])
    with pytest.raises(ProfileError, match="is an SQLite file that no profiler wrote, or a damaged one"):
        read_profile(database)
