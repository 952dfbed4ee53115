"""``mixte run --profile`` profiles the steps asked for, changes no result, and says what there is to say.

One script trains the same network twice, and the window lies in the second training: the losses must be the same.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

from mixte.cli import main
from mixte.cli._profile import judged
from mixte.profiles import read_profile
from mixte.profiles._cpu_work import Work, read_cpu_operations
from mixte.profiles._verdict import judge
from mixte.records import CapturedProfile, StepRange

from .conftest import MIXTE, Ended, execute

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import Run

BACKENDS = ["tensorflow", "jax", "torch"]
STEPS = 8  # of each training: two epochs of four
TWICE = """
import json, keras, numpy as np
inputs = np.random.default_rng(1).random((64, 8, 8, 3), dtype="float32")
targets = inputs.mean(axis=(1, 2))

def train():
    keras.utils.set_random_seed(3)
    model = keras.Sequential([
        keras.Input((8, 8, 3)),
        keras.layers.Conv2D(16, 3, name="conv"),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu", name="hidden"),
        keras.layers.Dense(3, name="answer"),
    ], name="net")
    model.compile("adam", "mse", steps_per_execution=2 if keras.backend.backend() == "tensorflow" else 1)
    fitted = model.fit(inputs, targets, batch_size=16, epochs=2, verbose=0, validation_data=(inputs, targets))
    return [fitted.history["loss"], fitted.history["val_loss"]]

print(json.dumps([train(), train()]))
"""
ASKED = StepRange(first=11, end=15)  # across the end of an epoch

# A callback starts the backend's own profiler, as keras.callbacks.TensorBoard(profile_batch=...) does.
RIVAL = """
import keras, numpy as np, tensorflow as tf

class Rival(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if batch == 4:
            tf.profiler.experimental.start("mine")
        if batch == 6:
            tf.profiler.experimental.stop()

model = keras.Sequential([keras.layers.Dense(4)])
model.compile("sgd", "mse")
inputs = np.ones((32, 8), "float32")
model.fit(inputs, inputs[:, :4], batch_size=4, verbose=0, callbacks=[Rival()])
"""

INTERRUPTED_LOOP = """
import keras, numpy as np, torch
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, name="answer")])
optimizer = keras.optimizers.SGD()
inputs = torch.ones((32, 8))
for step in range(1, 9):
    if step == 5:
        raise KeyboardInterrupt
    model.zero_grad()
    model(inputs).square().mean().backward()
    with torch.no_grad():
        optimizer.apply([weight.value.grad for weight in model.trainable_weights], model.trainable_weights)
"""


@pytest.fixture(scope="module")
def runs() -> dict[str, Ended]:
    return {}


@pytest.fixture(params=BACKENDS)
def profiled(
    request: pytest.FixtureRequest, runs: dict[str, Ended], tmp_path_factory: pytest.TempPathFactory
) -> Ended:
    """Both trainings on a backend, run when the first test asks for them."""
    backend: str = request.param
    if backend not in runs:
        folder = tmp_path_factory.mktemp(backend)
        (folder / "train.py").write_text(TWICE)
        options = ("--backend", backend, "--profile", f"{ASKED.first}:{ASKED.end}")
        runs[backend] = execute(folder, (*MIXTE, *options, "train.py"))
    assert runs[backend].returncode == 0, runs[backend].stderr
    return runs[backend]


def profile_file(ended: Ended) -> Path:
    profile = ended.record.run.profile
    assert profile is not None
    return ended.record.directory / profile.files[0]


def spoken(ended: Ended) -> str:
    return " ".join(ended.stderr.split())


def test_profiling_changes_no_loss(profiled: Ended) -> None:
    before, meanwhile = json.loads(profiled.stdout.splitlines()[-1])
    assert meanwhile == before


def test_the_steps_asked_for_are_marked_in_the_profile_and_in_the_record(profiled: Ended) -> None:
    record = profiled.record
    assert record.run.profile is not None
    assert record.run.profile.steps == ASKED
    assert record.run.profile.problem is None
    together = 2 if record.run.backend == "tensorflow" else 1  # its steps_per_execution
    marked = [ASKED.first + step for step in range(0, ASKED.end - ASKED.first, together)]
    if record.run.backend == "torch":
        assert [*read_profile(profile_file(profiled)).steps] == marked
    assert [step.step - together + 1 for step in record.steps if step.profiled] == marked


def test_step_times_are_those_of_other_steps(profiled: Ended) -> None:
    record = profiled.record
    steady = [step for step in record.steps if not step.first and not step.profiled and step.step_time_ns]
    assert record.run.summary is not None
    assert record.run.summary.steady_steps == len(steady)
    assert any(step.profiled for step in record.steps)


def test_each_layer_multiplies_once_forward_and_at_least_once_backward_in_each_step(profiled: Ended) -> None:
    operations = [each for each in read_cpu_operations(profile_file(profiled)) if each.work is Work.MATRIX]
    for layer in ("conv", "hidden", "answer"):
        own = [each for each in operations if layer in (each.scope or "")]
        # XLA may lose the name of a convolution's gradient.
        times = 1 if layer == "conv" and profiled.record.run.backend == "jax" else 2
        assert sum(each.count for each in own) >= times * (ASKED.end - ASKED.first), layer


def test_the_verdict_says_that_no_gpu_worked_and_which_layers_multiply(profiled: Ended) -> None:
    profile = profiled.record.run.profile
    assert profile is not None
    assert profile.cpu is not None
    assert (profile.shares, profile.device) == (None, None)
    assert profile.no_kernels_reason
    assert 0 < profile.cpu.matrix < 1
    assert sum(layer.share for layer in profile.cpu.layers) == pytest.approx(profile.cpu.matrix)
    assert {"conv", "hidden", "answer"} <= {layer.layer for layer in profile.cpu.layers}
    assert "steps 11 to 14; nothing ran on a GPU, so Tensor Cores had no part" in spoken(profiled)
    assert f"matrix work {profile.cpu.matrix:.1%} of the CPU's time in operations" in spoken(profiled)


def test_the_profile_is_read_by_mixte_verify(profiled: Ended, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(profiled.record.directory / "profile")]) == 0
    assert "No kernels" in capsys.readouterr().out


def test_a_profiler_of_the_scripts_own_wins(run: Run) -> None:
    ended = run(RIVAL, "--backend", "tensorflow", "--profile", "3:7")
    assert ended.returncode == 0, ended.stderr
    assert [*(ended.folder / "mine").rglob("*.xplane.pb")]
    profile = ended.record.run.profile
    assert profile is not None
    assert profile.steps == StepRange(first=3, end=5)
    assert "The script started a profiler of its own in step 4" in spoken(ended)
    assert read_cpu_operations(profile_file(ended))


def test_an_interrupted_loop_leaves_a_readable_profile(run: Run) -> None:
    ended = run(INTERRUPTED_LOOP, "--backend", "torch", "--profile", "1:9")
    assert ended.record.status == "interrupted"
    profile = ended.record.run.profile
    assert profile is not None
    # The first step of a loop is seen when it ends; the fifth never began.
    assert profile.steps == StepRange(first=2, end=5)
    assert profile.problem == "Not the steps up to 8: the training was broken off after step 4."
    (product,) = [each for each in read_cpu_operations(profile_file(ended)) if each.op == "aten::mm"]
    # In three steps, once forward and once backward each; the input has no gradient.
    assert (product.count, product.scope) == (6, "sequential/answer")


@pytest.mark.parametrize(
    "value", ["20:10", "10:10", "a:b", "0:5", "-3:5", "5", "5:", ":5", "1:2:3", "1.5:3", "", "\u0661:5"]
)
def test_a_wrong_window_is_one_line_that_says_what_is_allowed(
    value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("raise SystemExit('the script must not run')")
    assert main(["run", f"--profile={value}", "train.py"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith(f"mixte run: error: --profile {value}: give a range of steps A:B with 1 <= A < B.")
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_the_verdict_on_a_gpus_kernels_is_that_of_mixte_verify(shared: Path, tmp_path: Path) -> None:
    name = "h100_timesformer_bf16_align1.json.gz"
    (tmp_path / "profile").mkdir()
    shutil.copy(shared / "data/profiles/kineto" / name, tmp_path / "profile")
    captured = CapturedProfile(asked=StepRange(first=2, end=4), steps=StepRange(first=2, end=4))
    profile = judged(captured, tmp_path, [])
    verdict = judge(read_profile(tmp_path / "profile" / name))
    assert verdict.shares is not None
    assert profile.shares is not None
    assert structs.asdict(profile.shares) == asdict(verdict.shares)
    assert profile.gpu_time_ns == verdict.profile.gpu_time_ns
    assert (profile.device, profile.files) == ("NVIDIA H100 80GB HBM3", (f"profile/{name}",))
    assert (profile.cpu, profile.no_kernels_reason, profile.problem) == (None, None, None)


def test_a_profile_that_has_gone_or_is_damaged_is_a_problem_and_no_error(tmp_path: Path) -> None:
    captured = CapturedProfile(asked=StepRange(first=2, end=4), steps=StepRange(first=2, end=4))
    assert "profile does not exist" in (judged(captured, tmp_path, []).problem or "")
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "trace.json").write_text("{")
    assert "no profile in the directory" in (judged(captured, tmp_path, []).problem or "")


class FakeProfiler:
    """Notes what it is told; may be busy, or fail."""

    def __init__(self, *, busy: bool = False, fails: str | None = None) -> None:
        self.calls: list[object] = []
        self._busy = busy
        self._fails = fails

    def is_busy(self) -> bool:
        return self._busy

    def start(self, directory: Path, give_way: Any) -> None:
        self._do("start")
        directory.mkdir()

    def stop(self) -> None:
        self._do("stop")

    def wait(self) -> None:
        pass

    def mark(self, step: int | None) -> None:
        self.calls.append(step)

    def _do(self, what: str) -> None:
        self.calls.append(what)
        if what == self._fails:
            raise RuntimeError(f"cannot {what}:\nno driver")


def capture_of(profiler: FakeProfiler, folder: Path, first: int, end: int) -> Any:
    from mixte.keras._capture import Capture  # loads a framework

    return Capture(StepRange(first=first, end=end), folder / "profile", profiler=profiler)


def begin_steps(capture: Any, numbers: range, together: int = 1) -> list[bool]:
    return [capture.steps_begin(first=number, last=number + together - 1) for number in numbers]


def test_the_profiler_runs_between_the_first_step_and_the_one_after_the_last(tmp_path: Path) -> None:
    profiler = FakeProfiler()
    capture = capture_of(profiler, tmp_path, 3, 5)
    assert begin_steps(capture, range(1, 8)) == [False, False, True, False, True, False, False]
    assert profiler.calls == ["start", 3, 4, None, "stop"]
    assert capture.result(ended=7, finished=True).steps == StepRange(first=3, end=5)


def test_steps_that_run_as_one_are_profiled_whole(tmp_path: Path) -> None:
    capture = capture_of(FakeProfiler(), tmp_path, 3, 6)
    begin_steps(capture, range(1, 17, 4), together=4)
    assert capture.result(ended=16, finished=True).steps == StepRange(first=1, end=9)


def test_the_profiler_is_stopped_before_a_validation_that_follows_the_last_step(tmp_path: Path) -> None:
    profiler = FakeProfiler()
    capture = capture_of(profiler, tmp_path, 2, 4)
    begin_steps(capture, range(1, 3))
    capture.pause()
    assert profiler.calls == ["start", 2, None]  # step 3 is still to come
    begin_steps(capture, range(3, 4))
    capture.pause()
    assert profiler.calls == ["start", 2, None, 3, None, None, "stop"]


def test_a_window_beyond_the_end_says_so_and_leaves_no_files(tmp_path: Path) -> None:
    capture = capture_of(FakeProfiler(), tmp_path, 5, 9)
    begin_steps(capture, range(1, 6))  # a loop announces the fifth when the fourth ends
    capture.close()
    result = capture.result(ended=4, finished=True)
    assert result.steps is None
    assert result.problem == "none: the last step that was seen is 4, and the profile was to begin with 5."
    assert [*tmp_path.iterdir()] == []


def test_a_training_that_ends_within_the_window_keeps_what_was_seen(tmp_path: Path) -> None:
    profiler = FakeProfiler()
    capture = capture_of(profiler, tmp_path, 3, 9)
    begin_steps(capture, range(1, 6))
    capture.close()
    result = capture.result(ended=5, finished=True)
    assert profiler.calls[-1] == "stop"
    assert result.steps == StepRange(first=3, end=6)
    assert result.problem == "Not the steps up to 8: the training ended after step 5."


def test_an_exception_that_the_script_catches_ends_the_profile(tmp_path: Path) -> None:
    profiler = FakeProfiler()
    capture = capture_of(profiler, tmp_path, 3, 9)
    begin_steps(capture, range(1, 5))
    capture.training_broke(ValueError("bad batch"))
    assert begin_steps(capture, range(4, 12)) == [False] * 8
    result = capture.result(ended=11, finished=True)
    assert profiler.calls == ["start", 3, 4, None, "stop"]
    assert result.problem == "ValueError ended the training in step 4."


def test_a_profiler_that_is_running_already_is_left_alone(tmp_path: Path) -> None:
    profiler = FakeProfiler(busy=True)
    capture = capture_of(profiler, tmp_path, 2, 4)
    begin_steps(capture, range(1, 6))
    result = capture.result(ended=5, finished=True)
    assert (profiler.calls, result.steps) == ([], None)
    assert result.problem == (
        "none: at step 2 a profiler of the script's own was running, and there can be only one."
    )


@pytest.mark.parametrize("what", ["start", "stop"])
def test_a_profiler_that_fails_leaves_the_training_alone(what: str, tmp_path: Path) -> None:
    capture = capture_of(FakeProfiler(fails=what), tmp_path, 2, 4)
    begin_steps(capture, range(1, 6))
    result = capture.result(ended=5, finished=True)
    assert result.steps is None
    assert (result.problem or "").endswith(f"cannot {what}: no driver")
    assert [*tmp_path.iterdir()] == []
