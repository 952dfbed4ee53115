"""Under ``mixte run`` a script behaves as under ``python``: the oracle of these tests is Python itself."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from .conftest import Ended, Run

    RunTwice = Callable[..., tuple[Ended, Ended]]


def own_lines(stderr: str) -> str:
    """What the script itself wrote to standard error: all before we say something."""
    return stderr.partition("mixte: ")[0]


def assert_same(plain: Ended, ours: Ended) -> None:
    assert ours.stdout == plain.stdout
    assert own_lines(ours.stderr) == plain.stderr
    assert ours.returncode == plain.returncode


def test_a_script_finds_the_world_that_python_gives_it(run_twice: RunTwice) -> None:
    script = """
        import sys
        import neighbour  # beside the script
        names = sorted(n for n in globals() if n.startswith("__"))
        print(names, __name__, __file__, __doc__, __package__, __spec__, __cached__, __annotations__)
        print(type(__builtins__), type(__loader__), __loader__.path)
        print(sys.argv, sys.path[0], neighbour.VALUE, sys.stdin.read())
        print(sys.modules["__main__"].names is names, "numpy" in sys.modules)
        """
    plain, ours = run_twice(
        dedented(script),
        arguments=("--", "a b", "--policy"),
        text_in="typed",
        files={"neighbour.py": "VALUE = 7"},
    )
    assert "'--', 'a b', '--policy'] " in plain.stdout
    assert_same(plain, ours)


@pytest.mark.parametrize(
    "script",
    [
        "print('a')",
        "raise SystemExit",
        "import sys; sys.exit(3)",
        "import sys; sys.exit(-1)",
        "import sys; sys.exit(256)",
        "import sys; sys.exit('a text')",
        "import sys; sys.exit(('a', 'tuple'))",
        "import atexit, sys; atexit.register(print, 'last words'); sys.exit(True)",
        "1 / 0",
        "raise KeyboardInterrupt",
        "import atexit; atexit.register(print, 'last words'); raise KeyboardInterrupt",
        "assert False, 'two\\nlines'",
        "def f(:\n    pass",
        "import no_such_module",
        "import sys\nsys.excepthook = lambda *e: print('mine:', e[1])\nraise ValueError('x')",
        "import sys\nsys.excepthook = lambda: None\nraise ValueError('x')",
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('from') from e",
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('during')",
        "def f():\n    raise ExceptionGroup('several', [ValueError(1), TypeError(2)])\nf()",
        "import functools\nfunctools.reduce(lambda a, b: a / b, [1, 0])",
        "class E(Exception):\n    def __str__(self): raise ValueError\nraise E",
        "import warnings\nwarnings.warn('look here')\ndef f(): warnings.warn('and here', stacklevel=2)\nf()",
        "import warnings; warnings.simplefilter('error'); warnings.warn('as an error')",
        "import os, shutil; d = os.getcwd(); os.chdir('/'); shutil.rmtree(d); print('gone')",
        "import sys; sys.stdout.close()",
        "import os; os._exit(5)",
        "import os; os.abort()",
    ],
)
def test_output_errors_and_exit_code_are_those_of_python(run_twice: RunTwice, script: str) -> None:
    plain, ours = run_twice(script)
    assert_same(plain, ours)


def test_an_interrupted_script_dies_of_the_signal_so_that_a_shells_loop_ends(run: Run) -> None:
    ended = run("raise KeyboardInterrupt")
    assert ended.returncode == -signal.SIGINT
    assert ended.record.status == "interrupted"


def test_functions_of_the_script_can_be_pickled_into_other_processes(run_twice: RunTwice) -> None:
    script = """
        import multiprocessing, pickle
        def square(x):
            return x * x
        if __name__ == "__main__":
            print(pickle.dumps(square))
            for method in ("spawn", "fork"):
                with multiprocessing.get_context(method).Pool(1) as pool:
                    print(method, pool.map(square, [2, 3]))
        """
    plain, ours = run_twice(dedented(script))
    assert "[4, 9]" in plain.stdout
    assert_same(plain, ours)


def test_a_forked_child_that_reaches_the_end_leaves_the_record_to_its_parent(run: Run) -> None:
    ended = run("import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('end')")
    assert ended.stdout == "end\nend\n"
    assert ended.stderr.count("mixte: train.py finished") == 1
    assert ended.record.status == "finished"


def test_output_that_nobody_reads_any_more_is_the_scripts_affair(run: Run) -> None:
    ended = run("import os, sys\nos.close(2)\nprint('out')")
    assert (ended.returncode, ended.stdout) == (0, "out\n")
    assert ended.record.status == "finished"


def test_an_exception_is_recorded_with_its_message(run: Run) -> None:
    ended = run("raise ValueError('no\\ndata')")
    assert ended.record.run.exception == "ValueError: no\ndata"
    assert "mixte: train.py failed after" in ended.stderr
    assert ": ValueError: no data\n" in ended.stderr


def test_a_script_without_keras_is_told_that_there_was_nothing_to_do(run: Run) -> None:
    ended = run("print(1)", "--policy", "float32", "--seed", "3")
    assert (ended.returncode, ended.stdout) == (0, "1\n")
    assert "never imported Keras" in ended.stderr
    assert "never imported Keras" in ended.record.run.warnings[0]
    assert (ended.record.run.policy.name, ended.record.run.seed) == ("float32", 3)


def test_a_quiet_run_writes_nothing_of_its_own(run_twice: RunTwice) -> None:
    plain, ours = run_twice("import sys; print(1); print(2, file=sys.stderr)", "--quiet")
    assert (ours.stdout, ours.stderr) == (plain.stdout, plain.stderr)


def test_the_record_stays_where_the_run_began_when_the_script_goes_elsewhere(run: Run) -> None:
    ended = run("import os, tempfile; os.chdir(tempfile.mkdtemp())", "--record", "here")
    assert ended.record.directory == ended.folder / "here"
    assert "  record       here\n" in ended.stderr


def test_a_record_that_the_script_deletes_is_missed_and_the_exit_code_kept(run: Run) -> None:
    ended = run("import shutil, sys; shutil.rmtree('here'); sys.exit(4)", "--record", "here")
    assert ended.returncode == 4
    assert "mixte: warning: the record in '" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_seed_covers_what_is_drawn_before_keras_is_imported(run: Run) -> None:
    script = "import random, numpy\nprint(random.random(), numpy.random.rand(), numpy.random.rand())"
    first, second, other = (run(script, "--seed", seed, "--record", f"r{n}") for n, seed in enumerate("778"))
    assert first.stdout == second.stdout != other.stdout


def dedented(script: str) -> str:
    import textwrap

    return textwrap.dedent(script).lstrip()
