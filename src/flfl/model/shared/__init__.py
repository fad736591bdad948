"""The shared fit: a dynamic factor model that the coordinator sees through one projection."""
