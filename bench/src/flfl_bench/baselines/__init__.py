"""Every other method, one file each, behind the estimator's contract."""
