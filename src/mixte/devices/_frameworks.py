"""Which frameworks are installed, in which version and for which devices: read from files, never imported.

- TensorFlow writes how it was built into ``tensorflow/python/platform/build_info.py``.
- PyTorch writes it into ``torch/version.py``.
- JAX gets its device support from separate distributions, such as ``jax-cuda12-plugin``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from mixte.devices._build import Build, CpuBuild, CudaBuild, RocmBuild, TpuBuild, UnknownBuild

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mixte.devices._installed import Distribution, FindDistribution

_TENSORFLOW_NAMES: Final = (
    "tensorflow",
    "tensorflow-cpu",
    "tensorflow-intel",
    "tensorflow-macos",
    "tensorflow-rocm",
    "tensorflow-cpu-aws",
    "tf-nightly",
    "tf-nightly-cpu",
)
_CUDNN_NAMES: Final = ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu11")
_JAX_CUDA_PLUGINS: Final = {"13": "jax-cuda13-plugin", "12": "jax-cuda12-plugin"}
_JAX_ROCM_PLUGINS: Final = ("jax-rocm7-plugin", "jax-rocm60-plugin")


@dataclass(frozen=True, slots=True, kw_only=True)
class Framework:
    """One installed framework.

    Attributes:
        name: ``"tensorflow"``, ``"jax"`` or ``"torch"``.
        distribution: The distribution that brings it, for example ``"tensorflow-cpu"``.
        version: Its version.
        build: For which devices it was built.
        also_installed: Other distributions that install the same package and overwrite each other's files.
    """

    name: str
    distribution: str
    version: str
    build: Build
    also_installed: tuple[str, ...] = ()


def installed_frameworks(find: FindDistribution) -> tuple[Framework, ...]:
    """Return TensorFlow, JAX and PyTorch, as far as they are installed.

    Args:
        find: What finds distributions.
    """
    found = (_tensorflow(find), _jax(find), _torch(find))
    return tuple(framework for framework in found if framework is not None)


def _tensorflow(find: FindDistribution) -> Framework | None:
    installed = [(name, one) for name in _TENSORFLOW_NAMES if (one := find(name)) is not None]
    if not installed:
        return None
    # On Windows and Arm the distribution "tensorflow" only pulls in the one that holds the files.
    name, distribution = installed[0]
    others = tuple(
        other for other, _ in installed[1:] if other not in {"tensorflow-intel", "tensorflow-cpu-aws"}
    )
    return Framework(
        name="tensorflow",
        distribution=name,
        version=distribution.version,
        build=_tensorflow_build(name, distribution, find),
        also_installed=others,
    )


def _tensorflow_build(name: str, distribution: Distribution, find: FindDistribution) -> Build:
    text = distribution.read("tensorflow/python/platform/build_info.py")
    facts = None if text is None else _tensorflow_facts(text)
    if facts is None:
        if name.endswith("-cpu") or name == "tensorflow-cpu-aws":
            return CpuBuild(because=f"distribution {name}")
        return UnknownBuild(reason="tensorflow/python/platform/build_info.py cannot be read")
    if facts.get("is_rocm_build"):
        return RocmBuild(version=_version(facts.get("rocm_version")))
    if not facts.get("is_cuda_build"):
        return CpuBuild(because=f"distribution {name}")
    targets = facts.get("cuda_compute_capabilities")
    return CudaBuild(
        cuda_version=_version(facts.get("cuda_version")),
        libraries_installed=any(find(cudnn) is not None for cudnn in _CUDNN_NAMES),
        targets=tuple(cast("list[str]", targets)) if isinstance(targets, list) else None,
    )


def _tensorflow_facts(text: str) -> dict[str, object] | None:
    """The pairs in ``build_info = collections.OrderedDict([...])``."""
    for value in _assigned(text, {"build_info"}).values():
        if isinstance(value, ast.Call) and len(value.args) == 1:
            pairs = _literal(value.args[0])
            return dict(cast("list[tuple[str, object]]", pairs)) if isinstance(pairs, list) else None
    return None


def _torch(find: FindDistribution) -> Framework | None:
    distribution = find("torch")
    if distribution is None:
        return None
    return Framework(
        name="torch", distribution="torch", version=distribution.version, build=_torch_build(distribution)
    )


def _torch_build(distribution: Distribution) -> Build:
    text = distribution.read("torch/version.py")
    if text is None:
        return UnknownBuild(reason="torch/version.py cannot be read")
    facts = {name: _literal(value) for name, value in _assigned(text, {"cuda", "hip"}).items()}
    if facts.get("cuda"):
        return CudaBuild(cuda_version=_version(facts["cuda"]))
    if facts.get("hip"):
        return RocmBuild(version=_version(facts["hip"]))
    return CpuBuild(because=f"version {distribution.version}")


def _jax(find: FindDistribution) -> Framework | None:
    distribution = find("jax")
    if distribution is None:
        return None
    return Framework(name="jax", distribution="jax", version=distribution.version, build=_jax_build(find))


def _jax_build(find: FindDistribution) -> Build:
    jaxlib = find("jaxlib")
    if jaxlib is None:
        return UnknownBuild(reason="jaxlib is not installed")
    for cuda_version, plugin in _JAX_CUDA_PLUGINS.items():
        if find(plugin) is not None:
            return CudaBuild(cuda_version=cuda_version)
    # Before version 0.4.20 the device support was in jaxlib itself: 0.4.14+cuda12.cudnn89.
    local = re.search(r"\+cuda(\d+)", jaxlib.version)
    if local is not None:
        return CudaBuild(cuda_version=local[1])
    if any(find(plugin) is not None for plugin in _JAX_ROCM_PLUGINS):
        return RocmBuild()
    if find("libtpu") is not None:
        return TpuBuild()
    return CpuBuild(because="no device plugin installed")


def _assigned(text: str, names: Iterable[str]) -> dict[str, ast.expr]:
    """The expressions that a module assigns to some names at its top level."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return {}
    wanted = set(names)
    found: dict[str, ast.expr] = {}
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in wanted:
                found[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value) if name in wanted:
                found[name] = value
            case _:
                pass
    return found


def _literal(value: ast.expr) -> Any:
    try:
        return ast.literal_eval(value)
    except ValueError:
        return None


def _version(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
