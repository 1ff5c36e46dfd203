"""Programs on emulated Cortex-M and RISC-V cores: their builds and runs (emulator.py), and their tests."""
