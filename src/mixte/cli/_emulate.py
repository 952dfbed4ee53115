"""The options of ``mixte run`` that emulate Tensor Cores, checked before the script runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mixte._errors import InputError

if TYPE_CHECKING:
    import argparse

    from mixte.policy import Policy, Recommendation

# The policies that only emulation knows: dense layers multiply in float8, all else follows the policy named here.
# mixte.keras knows the same, and cannot be asked before the script has imported Keras.
FLOAT8_BASES: Final = {
    "float8": "mixed_bfloat16",
    "float8_from_mixed_bfloat16": "mixed_bfloat16",
    "float8_from_mixed_float16": "mixed_float16",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulationOptions:
    """What is to be emulated.

    Attributes:
        arch: The architecture.
        exact: Path patterns of the layers that are computed bit for bit.
        float8: Whether dense layers multiply in float8.
    """

    arch: str
    exact: tuple[str, ...]
    float8: bool


def add_emulation_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--emulate",
        metavar="ARCH",
        help="compute as the Tensor Cores of volta (V100), turing (T4), ampere (A100), ada (L4), hopper (H100) or "
        "blackwell (B200) do, on any machine; adds the policies float8 and float8_from_mixed_float16",
    )
    parser.add_argument(
        "--exact",
        metavar="LAYER",
        action="append",
        default=[],
        help="with --emulate: compute this layer's products bit for bit, much slower; a path or pattern "
        "(encoder/**); may be repeated",
    )


def emulation_options(arguments: argparse.Namespace) -> EmulationOptions | None:
    """Check the options; return None where nothing is to be emulated.

    Raises:
        InputError: An architecture that does not exist, one without float8 where that is asked for, or ``--exact``
            without ``--emulate``.
        PolicyError: A pattern is none.
    """
    float8 = arguments.policy in FLOAT8_BASES
    if arguments.emulate is None:
        if arguments.exact:
            raise InputError(
                "--exact says which layers to compute as a Tensor Core does: add --emulate ARCH, such as "
                "--emulate volta."
            )
        if float8:
            raise InputError(
                f"the policy {arguments.policy} is emulated only: add --emulate ada, hopper or blackwell."
            )
        return None
    # Not earlier: a run without emulation is to load neither numpy nor us more than it needs.
    from mixte.policy import ByPath
    from mixte.tensorcore import dot_unit, inputs_of

    inputs_of(arguments.emulate)
    for pattern in arguments.exact:
        ByPath(pattern)
    if float8:
        dot_unit(arguments.emulate, "float8_e4m3fn", "float8_e5m2")
    return EmulationOptions(arch=arguments.emulate, exact=tuple(arguments.exact), float8=float8)


def emulated_policy(text: str, recommendation: Recommendation) -> Policy:
    """Load a policy, or the one that a policy with float8 products follows elsewhere, under the name asked for."""
    from mixte.policy import load_policy

    loaded = load_policy(FLOAT8_BASES.get(text, text), recommendation=recommendation)
    return replace(loaded, name=text) if text in FLOAT8_BASES else loaded


def check_format(policy: Policy | None, options: EmulationOptions | None) -> None:
    """Raise ``InputError`` if the policy's default computes in a 16-bit format that the architecture lacks."""
    if policy is not None and options is not None and policy.default.compute_dtype in ("float16", "bfloat16"):
        from mixte.tensorcore import dot_unit

        dot_unit(options.arch, policy.default.compute_dtype)


def announcement(options: EmulationOptions) -> list[str]:
    """Return what the user should know beforehand: of the emulation, and of GPUs that this machine has."""
    from mixte.devices import inspect_machine

    exact = f", {', '.join(options.exact)} bit for bit" if options.exact else ""
    lines = [f"emulating the Tensor Cores of {options.arch}{exact}; times are this machine's."]
    names = dict.fromkeys(gpu.device.name for gpu in inspect_machine().visible_gpus)
    if names:
        lines.append(
            f"this machine has a GPU ({', '.join(names)}): without --emulate the script runs on its own arithmetic."
        )
    return lines
