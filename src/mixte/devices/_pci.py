"""Look for graphics and accelerator cards on the PCI bus: a card can be there although no driver answers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PCI_DEVICES: Final = Path("/sys/bus/pci/devices")

# Vendor numbers of the PCI registry.
_VENDORS: Final = {"0x10de": "NVIDIA", "0x1002": "AMD"}

# Beginnings of the PCI class: display controllers (03) and processing accelerators (12). Without this, the sound
# device of a graphics card would count too.
_CLASSES: Final = ("0x03", "0x12")


def card_vendors(root: Path = PCI_DEVICES) -> frozenset[str]:
    """Return whose graphics cards and accelerators are on the bus: of ``"NVIDIA"`` and ``"AMD"``.

    Args:
        root: The directory of devices; empty or missing in some containers and outside Linux.
    """
    try:
        devices = list(root.iterdir())
    except OSError:
        return frozenset()
    found = (_vendor(device) for device in devices)
    return frozenset(vendor for vendor in found if vendor is not None)


def _vendor(device: Path) -> str | None:
    try:
        if not (device / "class").read_text().startswith(_CLASSES):
            return None
        return _VENDORS.get((device / "vendor").read_text().strip())
    except OSError:
        return None
