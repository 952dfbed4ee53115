"""Take a kernel's name apart: which function it is, and whether the profiler cut the name short.

The same kernel is spelled differently by every tool (``void f<int=4>(...)``, ``void f<(int)4>(...)``, ``f<4>``,
``_Z1fILi4EEvv``, ``f.kd``), and template arguments name other functions that are only passed along. So the
rules look at three things: the whole name, its *subject*, the function that runs, without return type,
arguments and template arguments, and the subject's last part, the function without its namespaces.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Functions that only launch the kernel given as their template argument: there the subject goes on into it.
_LAUNCHERS = re.compile(
    r"(?:^|::)(?:kernel2?|device_kernel|kentry|globalkernel|kernel_wrapper|kernel_entry|generic_kernel)$"
)
_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|\{anonymous\}::|<unnamed>::|^unnamed>::|_global__n_\w*?::")
_ANONYMOUS_MARKS = ("anonymous", "unnamed", "_global_")  # a quick look before the expression
_MANGLED_START = re.compile(r"_ZN?[KVr]*")
# The longest real name at hand has 5123 characters; what follows the limit is data gone astray, and expressions
# take time by the square of its length.
_MAX_LENGTH = 8192
_SAYING_NOTHING = frozenset({"kernel", "run", "forward", "backward", "impl", "operator", "main", "device"})
_CUT = ("...", "\N{HORIZONTAL ELLIPSIS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelName:
    """A kernel's name, ready for matching.

    Attributes:
        whole: The whole name in lower case.
        subject: The function that runs, in lower case, with its namespaces; for a launcher such as
            ``cutlass::Kernel2<...>`` also the function launched.
        function: The last part of the subject, without namespaces; with the last namespace if that part says
            nothing, as in ``softmax::kernel``.
        cut: Whether the profiler cut the name, so that the absence of a word proves nothing.
    """

    whole: str
    subject: str
    function: str
    cut: bool


def parse(name: str) -> KernelName:
    """Take a name apart.

    Args:
        name: As a profiler wrote it: demangled, mangled or cut.
    """
    text = _without_hip_suffix(name.strip())
    cut = text.endswith(_CUT) or len(text) > _MAX_LENGTH
    text = text[:_MAX_LENGTH]
    whole = text.lower()
    subject = _mangled_subject(text).lower() if text.startswith("_Z") else _plain_subject(whole)
    return KernelName(whole=whole, subject=subject, function=_function(subject), cut=cut)


def _function(subject: str) -> str:
    namespaces, _, function = subject.rpartition("::")
    if namespaces and function in _SAYING_NOTHING:
        return f"{namespaces.rpartition('::')[2]}::{function}"
    return function


def _without_hip_suffix(text: str) -> str:
    """Drop what HIP appends: ``.kd`` (kernel descriptor) and `` [clone .kd]``."""
    if text.endswith("]"):
        text = text.partition(" [clone ")[0]
    return text.removesuffix(".kd")


def _plain_subject(whole: str) -> str:
    text = whole.removeprefix("void ")
    if text.startswith("std::enable_if<"):  # a return type; its condition may hold a bare ">"
        text = text.partition(">::type ")[2]
    if any(mark in text for mark in _ANONYMOUS_MARKS):
        text = _ANONYMOUS.sub("", text)
    head = _until_arguments(text, 0)
    if _LAUNCHERS.search(head) and text.startswith("<", len(head)):
        return _until_arguments(text, len(head) + 1)
    return head


def _until_arguments(text: str, start: int) -> str:
    """Give the text up to the first bracket at or after `start`."""
    ends = [end for end in (text.find("<", start), text.find("(", start)) if end >= 0]
    return text[: min(ends)] if ends else text


def _mangled_subject(text: str) -> str:
    """Join the identifiers of an Itanium-mangled name up to its template arguments.

    Only ``<length><identifier>`` parts are read (Itanium C++ ABI, section 5.1.2); that is all a subject needs.
    """
    prefix = _MANGLED_START.match(text)
    position = prefix.end() if prefix else 0
    parts: list[str] = []
    launchers_left = 1
    while position < len(text):
        if length := re.match(r"\d+", text[position:]):
            start = position + length.end()
            parts.append(text[start : start + int(length[0])])
            position = start + int(length[0])
        elif text[position] == "I" and launchers_left and _LAUNCHERS.search("::".join(parts).lower()):
            launchers_left -= 1
            position += 1
        elif skipped := re.match(r"L[a-z]\w*?E|N?S[a-z0-9]?_?|N|St", text[position:]):
            position += skipped.end()
        else:
            break
    return "::".join(part for part in parts if not part.startswith("_GLOBAL__N_"))
