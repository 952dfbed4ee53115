"""Profiles: one reader per profiler's format, and the verdict on what did the matrix work.

Needs no framework and no GPU. A reader turns a file into a `Profile`, rows of kernels; `judge` decides for each
kernel whether it ran on Tensor Cores; `find` says why not. `classify` decides by a kernel's name alone.
"""

from mixte.profiles._decide import Basis as Basis, Decision as Decision
from mixte.profiles._document import document as document
from mixte.profiles._findings import Finding as Finding, find as find
from mixte.profiles._model import (
    Format as Format,
    Gpu as Gpu,
    Kernel as Kernel,
    Profile as Profile,
    ProfilerStatement as ProfilerStatement,
    Progress as Progress,
    Vendor as Vendor,
    Weight as Weight,
)
from mixte.profiles._read import read_profile as read_profile
from mixte.profiles._rules import NameVerdict as NameVerdict, Verdict as Verdict, classify as classify
from mixte.profiles._totals import KernelTotal as KernelTotal, kernel_totals as kernel_totals
from mixte.profiles._verdict import (
    Group as Group,
    JudgedKernel as JudgedKernel,
    ProfileVerdict as ProfileVerdict,
    Shares as Shares,
    group as group,
    judge as judge,
)
