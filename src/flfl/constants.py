"""Fitted constants, each with what it rules and where it was chosen.

A constant belongs here when it was chosen on data or by measurement: another value would give other
results. Limits of formats and protocols stay where they are used. Lengths of time are in hours or
in periods (days, years), never in slots.
"""

# --- copies and release (protocol) ----------------------------------------------------------------

# --- shared model (model) -------------------------------------------------------------------------

# --- finish at home (ensemble) --------------------------------------------------------------------

# --- recovery, self-test, evaluation --------------------------------------------------------------

# --- reading tables (io) --------------------------------------------------------------------------

# --- the paper's method ---------------------------------------------------------------------------

# The paper gives no settings. These were chosen once on a tenth of the training entries of
# D2_sst_70x1733 and D3_beijing_pm25 at rates 0.1, 0.5 and 0.9 (docs/decisions/0003).
PAPER_RANK = 10
"""Latent factors (k)."""
PAPER_ROUNDS = 600
"""Rounds at most."""
PAPER_LEARNING_RATE = 0.4
"""Step, relative to the inverse curvature of a balanced start."""
PAPER_RIDGE, PAPER_SPATIAL, PAPER_TEMPORAL = 1e-3, 0.1, 0.3
"""Weights lambda, z1 and z2 of the objective."""
PAPER_NEIGHBORS = 3
"""Neighbours of a sensor in its region's graph (Top_k)."""
PAPER_P_SPREAD = 0.05
"""P starts at ``s (1 + spread * noise)``: sensors of one city start alike."""
PAPER_Q_SPREAD = 0.02
"""Q starts at ``spread / s * noise``: a slot that nobody observed stays at the sensors' means."""
PAPER_HELD_OUT = 0.05
"""Share of each sensor's readings that is held out, to stop by."""
PAPER_CHECK_EVERY, PAPER_PATIENCE, PAPER_TOLERANCE = 10, 10, 1e-3
"""Rounds between two checks, checks without a gain before a stop, and the least relative gain."""
PAPER_DIVERGED = 4.0
"""A training error this many times the lowest so far: the step is too long, and halved."""

# --- audit ----------------------------------------------------------------------------------------
