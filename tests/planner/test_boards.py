"""The table of boards, and the error for an unknown name."""

import pytest

from tflm_zo.planner import boards, cores
from tflm_zo.planner.boards import find_board, find_core
from tflm_zo.training import SettingsError


def test_every_board_has_a_core_and_a_source() -> None:
    assert len(boards()) >= 20
    for board in boards().values():
        assert board.core in cores()
        assert board.source and board.label and board.chip
        assert 1 <= board.clock <= 1000
        assert 8 <= board.ram <= 16_384 and 64 <= board.flash <= 65_536


def test_the_families_and_chips_that_people_have_are_there() -> None:
    for family in ("nucleo", "discovery", "nano-33", "nrf52", "nrf53", "nrf54", "pico"):
        assert any(family in name for name in boards()), family
    chips = {board.chip for board in boards().values()}
    assert {"RP2040", "RP2350", "ESP32-S3", "ESP32-C3", "Apollo3 Blue", "SSE-300"} <= chips


@pytest.mark.parametrize("name", ["nano-33-ble", "Nano_33_BLE", "NANO 33 BLE"])
def test_a_name_may_be_written_differently(name: str) -> None:
    assert find_board(name).chip == "nRF52840"


@pytest.mark.parametrize(
    ("name", "closest"),
    [
        ("nano33ble", r"nano-33-ble, .*\."),
        ("f746", r"nucleo-f746zg, discovery-f746\."),
        ("nrf52840", r"nrf52840-dk, nano-33-ble\."),
        ("corstone", r"corstone-300\."),
    ],
)
def test_an_unknown_board_is_refused_with_the_closest_names(name: str, closest: str) -> None:
    with pytest.raises(SettingsError, match=f"Received: {name!r}. The closest ones: {closest}$"):
        find_board(name)


def test_what_is_like_no_other_is_refused_with_all_names() -> None:
    with pytest.raises(SettingsError, match="`board` must be one of nucleo-f401re, nucleo-f411re"):
        find_board("qqqq")
    with pytest.raises(SettingsError, match=r"`core` must be one of cortex-m0plus, cortex-m4, cortex-m7"):
        find_core("z80")
