"""Amounts of a machine's resources as Kubernetes writes them: whole units, else thousandths of one."""

from __future__ import annotations


def cores(amount: float) -> str:
    """2 is "2", 0.5 is "500m"."""
    return _thousandths(amount, "", "m")


def gigabytes(amount: float) -> str:
    """GB of 1e9 bytes: 4 is "4G", 0.5 is "500M"."""
    return _thousandths(amount, "G", "M")


def _thousandths(amount: float, unit: str, thousandth: str) -> str:
    return f"{amount:.0f}{unit}" if amount == int(amount) else f"{amount * 1000:.0f}{thousandth}"
