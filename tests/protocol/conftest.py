"""The fixtures that run a test on every transport."""

from carriers import every_engine, mosquitto

__all__ = ["every_engine", "mosquitto"]
