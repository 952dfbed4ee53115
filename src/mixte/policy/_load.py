"""A policy as it is named on a command line: a preset or a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from mixte._errors import PolicyError
from mixte.policy._nearest import did_you_mean
from mixte.policy._policy import Policy
from mixte.policy._presets import PRESET_NAMES
from mixte.policy._toml_read import read_policy

if TYPE_CHECKING:
    from mixte.policy._presets import Recommendation


def load_policy(text: str, *, recommendation: Recommendation | None = None) -> Policy:
    """Return the policy that a command line names.

    Args:
        text: The name of a preset, or the path of a ``policy.toml``. A preset's name wins over a file of that
            name (``./mixed_float16`` is the file).
        recommendation: What ``"auto"`` stands for; see ``Policy.named``.

    Raises:
        PolicyError: There is neither such a preset nor such a file, or the file is wrong.
    """
    if text in PRESET_NAMES:
        return Policy.named(text, recommendation=recommendation)
    file = Path(text).expanduser()
    if file.suffix == ".toml" or file.is_file():
        return read_policy(file, recommendation=recommendation)
    if os.sep in text:
        raise PolicyError(
            f"there is no policy file {text!r}; give the path of a policy.toml or a preset's name"
        )
    raise PolicyError(
        f"no policy is called {text!r}, and there is no file of that name.{did_you_mean(text, PRESET_NAMES)} "
        f"The presets are {', '.join(PRESET_NAMES)}; any other policy is a path to a policy.toml."
    )
