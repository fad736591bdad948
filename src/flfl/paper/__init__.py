"""The paper's method, ``flfl-paper``: objective, gradients, federation, estimator."""
