"""Cards on the PCI bus are found by vendor and class, in a copy of Linux's directory of devices."""

from __future__ import annotations

import pytest

from mixte.devices._pci import card_vendors


@pytest.fixture
def bus(tmp_path):
    def make(*devices: tuple[str, str]):
        for number, (vendor, kind) in enumerate(devices):
            directory = tmp_path / f"0000:00:{number:02x}.0"
            directory.mkdir()
            (directory / "vendor").write_text(f"{vendor}\n")
            (directory / "class").write_text(f"{kind}\n")
        return tmp_path

    return make


@pytest.mark.parametrize(
    ("devices", "found"),
    [
        ([("0x10de", "0x030200")], {"NVIDIA"}),  # 3D controller: a data-centre card
        ([("0x10de", "0x030000")], {"NVIDIA"}),  # VGA controller: a GeForce
        ([("0x1002", "0x120000")], {"AMD"}),  # processing accelerator: an Instinct
        ([("0x10de", "0x040300")], set()),  # the sound device of a graphics card
        ([("0x8086", "0x030000"), ("0x1af4", "0x020000")], set()),
        ([("0x10de", "0x030200"), ("0x1002", "0x030000")], {"NVIDIA", "AMD"}),
        ([], set()),
    ],
)
def test_cards_are_told_from_other_devices(bus, devices, found) -> None:
    assert card_vendors(bus(*devices)) == found


def test_a_missing_directory_or_an_unreadable_entry_is_no_card(tmp_path) -> None:
    assert card_vendors(tmp_path / "missing") == frozenset()
    (tmp_path / "0000:00:00.0").mkdir()
    assert card_vendors(tmp_path) == frozenset()
