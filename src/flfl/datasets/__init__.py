"""Bundled data, data of your own, made-up data, and masks that hide known readings."""
