"""The run record on disk: write it while a script runs, read it back anywhere, summarise it."""

from mixte.records._directory import (
    OUTPUT_FILE as OUTPUT_FILE,
    PROFILE_DIRECTORY as PROFILE_DIRECTORY,
    RUN_FILE as RUN_FILE,
    RUNS_DIRECTORY as RUNS_DIRECTORY,
    STEPS_FILE as STEPS_FILE,
    new_run_directory as new_run_directory,
)
from mixte.records._json import (
    decode_json as decode_json,
    encode_json as encode_json,
    indent_json as indent_json,
)
from mixte.records._lines import (
    Evaluation as Evaluation,
    Line as Line,
    OptimizerState as OptimizerState,
    OptimizerStep as OptimizerStep,
    State as State,
    Step as Step,
)
from mixte.records._profile import (
    CapturedProfile as CapturedProfile,
    CpuTime as CpuTime,
    KernelShares as KernelShares,
    LayerTime as LayerTime,
    OperationTime as OperationTime,
    StepRange as StepRange,
)
from mixte.records._reader import Record as Record, read_record as read_record
from mixte.records._schema import (
    SCHEMA_VERSION as SCHEMA_VERSION,
    Device as Device,
    LayerPrecision as LayerPrecision,
    Model as Model,
    Optimizer as Optimizer,
    Policy as Policy,
    Process as Process,
    Run as Run,
    RunStatus as RunStatus,
)
from mixte.records._step_clock import StepClock as StepClock, StepEnd as StepEnd
from mixte.records._stopped import StopCause as StopCause, Stopped as Stopped
from mixte.records._summarise import (
    steady_step_times_ns as steady_step_times_ns,
    summarise as summarise,
)
from mixte.records._summary import (
    Change as Change,
    OptimizerSummary as OptimizerSummary,
    RunSummary as RunSummary,
    Scores as Scores,
)
from mixte.records._writer import RecordWriter as RecordWriter
