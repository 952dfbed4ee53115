"""Paired runs of one script under several policies, and what their differences show."""

from mixte.compare._analysis import (
    final_score as final_score,
    pair_policies as pair_policies,
    score_names as score_names,
)
from mixte.compare._file import read_comparison as read_comparison, write_comparison as write_comparison
from mixte.compare._plan import Cell as Cell, plan as plan
from mixte.compare._runner import LocalRunner as LocalRunner, Runner as Runner, RunResult as RunResult
from mixte.compare._schema import (
    COMPARISON_FILE as COMPARISON_FILE,
    Comparison as Comparison,
    Difference as Difference,
    Pair as Pair,
    Ratio as Ratio,
    RunEntry as RunEntry,
)
from mixte.compare._session import (
    Observer as Observer,
    Request as Request,
    compare_results as compare_results,
    run_comparison as run_comparison,
)
