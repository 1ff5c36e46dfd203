"""Programs on emulated Cortex-M and RISC-V cores: how they are built
and run (emulator.py), and what is tested so."""
