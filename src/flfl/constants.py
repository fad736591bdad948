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

# --- audit ----------------------------------------------------------------------------------------
