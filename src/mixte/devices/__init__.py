"""What devices there are, what each can do in which precision and why, and what this machine has.

Loads no framework. Everything but ``inspect_machine``, ``check_frameworks`` and ``recommend_precision()`` without
arguments is a pure function of its arguments and of the table of known devices.
"""

from mixte.devices._build import (
    Build as Build,
    CpuBuild as CpuBuild,
    CudaBuild as CudaBuild,
    RocmBuild as RocmBuild,
    TpuBuild as TpuBuild,
    UnknownBuild as UnknownBuild,
    build_text as build_text,
)
from mixte.devices._capability import judge as judge
from mixte.devices._cpu import Cpu as Cpu, local_cpu as local_cpu
from mixte.devices._device import (
    ComputeCapability as ComputeCapability,
    ComputeUnit as ComputeUnit,
    Device as Device,
    MixedTraining as MixedTraining,
    Peak as Peak,
)
from mixte.devices._document import (
    devices_document as devices_document,
    machine_document as machine_document,
)
from mixte.devices._figure import Figure as Figure, Source as Source
from mixte.devices._framework_check import (
    FrameworkCheck as FrameworkCheck,
    FrameworkFails as FrameworkFails,
    FrameworkSees as FrameworkSees,
    SeenDevice as SeenDevice,
    check_frameworks as check_frameworks,
)
from mixte.devices._frameworks import Framework as Framework
from mixte.devices._keras import Keras as Keras
from mixte.devices._local_gpu import (
    DriverAbsent as DriverAbsent,
    DriverAnswer as DriverAnswer,
    DriverAnswered as DriverAnswered,
    DriverSilent as DriverSilent,
    LocalGpu as LocalGpu,
)
from mixte.devices._machine import Machine as Machine, inspect_machine as inspect_machine
from mixte.devices._names import find_device as find_device, siblings as siblings
from mixte.devices._problems import (
    Problem as Problem,
    find_check_problems as find_check_problems,
    find_problems as find_problems,
)
from mixte.devices._recommendation import (
    Recommendation as Recommendation,
    recommend_precision as recommend_precision,
)
from mixte.devices._table import known_devices as known_devices
from mixte.devices._verdict import (
    POLICIES as POLICIES,
    PRECISIONS as PRECISIONS,
    Capability as Capability,
    Verdict as Verdict,
)
