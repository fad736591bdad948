"""Regions of the map."""

import numpy as np

from flfl.model.geometry import find_regions


def test_regions_do_not_tear_at_the_date_line():
    points = np.array([[0.0, 179.9], [0.0, -179.9], [0.0, 10.0], [0.0, 11.0]])
    labels = find_regions(points, "latlon", 2, np.random.default_rng(0))
    assert labels.tolist() == [0, 0, 1, 1]


def test_no_more_regions_than_places():
    labels = find_regions(np.zeros((4, 2)), "metric", 3, np.random.default_rng(0))
    assert labels.tolist() == [0, 0, 0, 0]
