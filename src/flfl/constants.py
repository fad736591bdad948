"""Fitted constants, each with what it rules and where it was chosen.

A constant belongs here when it was chosen on data or by measurement: another value would give other
results. Limits of formats and protocols stay where they are used. Lengths of time are in hours or
in periods (days, years), never in slots.
"""

# --- copies and release (protocol) ----------------------------------------------------------------
# Chosen with the prototypes of the noisy copy (one or two seeds on D1 to D4 and germany_pm10), and
# in docs/decisions/0018-noisy-copy.md ("decision 18"). Where no data are named, no comparison of
# other values is on record.

FEWEST_READINGS = 100
"""Readings below which a sensor's own error in time is not known."""
ERROR_CLIP = 4 * 1.4826
"""Errors in time count up to so many median sizes (four sigmas): spikes make no noise loud."""
RUNGS = 4
"""Rungs to a factor of two: noise is 9 % louder than need be, with two 19 % (decision 18)."""
LIMIT_REACH = 3.0
"""Deviations of the forecast within which a reading enters its copy. No cost on the prototypes."""
LIMIT_STEP = 2.0
"""Variance of a step of the random walk in that forecast, in squares of the error in time."""
COPY_GRAINS = 64
"""Copies are multiples of their added error over this: finer digits would carry noise only."""
LONGEST_MEAN = 48
"""Longest running mean, in readings, that is looked for."""
MEAN_DIP, MEAN_REST, MEAN_RISE = -0.4, 0.25, 0.3
"""What shows a running mean of w readings in the autocorrelation of second differences (in theory
-1/2 at lag w and small elsewhere): most at lag w, most elsewhere, least rise from w to w + 1."""
COMMON_STAMPS, EQUAL_SHARE = 20, 0.8
"""Sensors with equal readings at more than this share of at least so many stamps are one sensor."""
SEASON_GAIN = 0.98
"""A season must lower the interpolation error to this share to be voted for."""
MOST_SPREADS = 10.0
"""In that vote an error counts for so many spreads at the most: a few spikes do not decide."""
PILOT_SHARE = 0.1
"""Share of the slots that are released first, to learn how little noise is enough. germany_pm10."""
PILOT_SLOTS, PILOT_LEAST = 400, 100
"""Slots in all below which a pilot is not worth its exchanges, and least slots of a pilot."""
PILOT_ROUNDS, PILOT_COPIES = 4, 30
"""Rounds of a pilot, and copies of a sensor without which it says nothing of its noise."""
PILOT_LOWEST = 0.5
"""Least share of noise after a pilot: a coordinator could make its sums fit (decision 18)."""
LATER_ROUNDS = 1
"""Rounds when slots are added to a finished run."""
WINDOW_SLOTS = 2000
"""Least slots that a night looks at, and that an owner estimates anew: what lies further back is
forgotten by the factors, and models at home learn from so many slots (``LEARN_SLOTS``)."""
MOST_NUMBERS = 64
"""Numbers that a slot releases at the most, however many sensors there are: it bounds the work."""
CORRECTED_NUMBERS = 16
"""Numbers a slot from which on a lone sensor's part is taken out by a correction (for speed)."""
QUIETEST_WEIGHT = 0.5
"""In the sums no sensor counts as quieter than this share of the median error in time."""
FIRST_RESIDUAL, LEAST_FIRST_RESIDUAL = 2.0, 0.05
"""First residual variance: in squared errors in time, and least in the network's squared scale."""
SHORT_SLOTS, SHORT_PASSES = 4000, 3
"""Below so many slots (a bound on work) a round learns the dynamics so often (decision 18)."""
BAD_SLOT = 25.0
"""A slot whose chi^2 is so many times its numbers is left out: real slots stay below 11."""
WORST_FIT = 2.0
"""Median of chi^2 over numbers beyond which a release is not used: real ones are .4 to .9. No
lower limit: few numbers and many factors make it small."""
CLEAN_SHARE = 0.15
"""Least share of a copy's residual variance that a clean reading keeps in the finish at home."""
PUBLISHED_DIGITS = 6
"""Significant digits of a published table: more than the noise leaves of any copy."""

# --- shared model (model) -------------------------------------------------------------------------

LARGEST_FACTOR = 1e6
"""Factors, in units of the network's scale, and dynamics beyond which a release is nonsense."""
SLOTS_A_FACTOR = 20
"""Slots that the network needs for each factor: with 10 short tables gain less (california)."""
HARMONICS = 6
"""Harmonics of a season: those of twelve months are a mean for every month."""
SEASON_RIDGE = 2.0
"""Ridge on a season's first harmonic, in readings; it grows with the order."""
LARGEST_RADIUS = 0.999
"""Largest spectral radius of the dynamics: variances stay finite."""
LEAST_FACTOR_STEP = 1e-5
"""Least variance of a factor's step, relative to the mean one. For conditioning."""
LEAST_SITE_NOISE = 1e-4
"""Least noise and process variance in a site's Kalman-EM, relative to the sensor's mean square."""
RELEASE_RIDGE = 1e-9
"""Ridge on the noise of the release, relative to its mean diagonal. For conditioning."""
LEAST_RESIDUAL = 1e-3
"""Least residual variance of a sensor, relative to the mean square of its series."""
SAVED_NUMBERS = 3.0
"""Fractions of released numbers that are saved up for later slots, at the most."""

# --- finish at home (ensemble) --------------------------------------------------------------------

# Chosen on D1_beijing_co, D2_sst_70x1733, D3_beijing_pm25 and D4_chongqing_so2 at rates 0.1, 0.5
# and 0.9, scattered and in blocks (docs/decisions/0008), unless said otherwise. Hours become slots
# by the table's step, and count as slots where a slot is longer than an hour.

HELD_OUT, MOST_HELD_OUT, ENOUGH_HELD_OUT = 0.05, 0.15, 1500
"""Share of readings held out to judge by; the most of a small owner, to have so many."""
HELD_OUT_IN_ALL, MOST_DRAWS, READINGS_A_DRAW = 400, 4, 100
"""Held-out readings that an owner judges by, drawn so often at the most; readings of a sensor for
each further draw. Random tables (seeds below 200, 1550 to 1679); lone sensors in blocks, seed 0."""
LONGEST_HELD_OUT_HOURS = 48
"""Longest run that is hidden: a few very long ones would be a noisy hold-out."""
SILENT_SHARE, SILENT_HOURS = 0.9, 24
"""A site is silent when this share of its sensors is, for more than so long: shorter is chance."""
DISTANCE_EDGES = (1, 2, 3, 5, 8, 12, 20, 40)
"""Upper edges of the classes of distance to the nearest reading, in readings not made."""

KERNELS = (
    *((length, 0.5) for length in (2.0, 8.0, 32.0)),
    *((length, 1.5) for length in (1.5, 3.0, 6.0, 12.0, 24.0)),
    *((length, 2.5) for length in (1.5, 3.0, 6.0, 12.0)),
)
"""Matern kernels (length relative to a slot, smoothness) whose mixture describes a sensor."""
KERNEL_REACH, KERNEL_LAGS = 300, 48
"""Slots from which on two readings are unrelated, and lags at which autocorrelation is measured."""
KERNEL_SHRINK, KERNEL_CLIP, KRIGE_NUGGET = 200.0, 5.0, 0.003
"""Pairs that the pooled curve counts for; deviations of a clipped reading; noise for solving."""
FADE_HOURS = 24.0
"""Time after which a sensor's last residual is forgotten, where none follows."""
SPIKE_DEVIATIONS, SPIKE_RISE, SPIKE_PEAKS = 7.0, 0.3, 0.2
"""Robust deviations of a spike; the share of it by which a neighbour of a real peak has risen; the
share of real peaks among all that stand out from which on they are believed (D4, and D1 to D4 with
1 % of the readings multiplied by ten)."""
SITE_STEPS, SITE_STEPS_SHORT, SITE_LONG = 6, 12, 3000
"""Steps of the joint model of a site; of one with fewer slots than the third."""
SITE_FACTOR, SITE_CHUNK, SITE_OVERLAP = 2.5, 64, 12
"""How far such a step overshoots, and the pieces of a series that run side by side (for speed)."""

SITE_GROUP = 16
"""Sensors of a joint model, where an owner has many."""
SITE_MOST, SITE_WORK = 128, 1e9
"""Sensors that one group may have where their cube times the slots is below the second: by groups
of 16 one owner of all 53 sensors of germany_pm10 errs 10 % more, one of all 70 of D2 33 %."""
LEARN_SLOTS = 2000
"""Slots of a longer table on which models are learned at home (for speed)."""
FOLLOW_STEPS = 2
"""Regressions of clean readings on what the network says, each with the noise of the last."""
PERSONAL_STEPS, PERSONAL_FACTOR = 5, 3.0
"""Smoothing passes of the personal model; how far each refit overshoots (EM steps are short)."""
PERSONAL_MANY, PERSONAL_FEW_STEPS = 4, 3
"""An owner of fewer sensors refits its loadings only so often, and plainly."""
PERSONAL_LEAST_NOISE = 2e-3
"""Least noise of a sensor relative to its mean square."""
PULL_REACH = 6
"""Slots to either side to which the pull of a reading on the curve is followed."""

TREES, TREE_LEAVES, TREE_RATE, TREE_LEAST_IN_LEAF = 80, 15, 0.12, 40
"""Size of the boosted model: larger ones gain nothing and cost more."""
TREE_ROWS, TREE_LEAST_ROWS = 700, 1500
"""Rows for each sensor on which trees are trained, and the fewest of a site."""
TREE_FAR = 100.0
"""Slots beyond which a neighbour is just far."""

NEAR_WEIGHTS = {
    "pchip": 0.1, "kriged": 0.1, "site": 0.1, "factors": 0.05, "shared": 0.4,
    "shared+pchip": 0.4, "factors+site": 0.2, "site+pchip": 0.05, "boosted": 0.8,
}  # fmt: skip
FAR_WEIGHTS = {
    "kriged": 0.05, "site": 0.1, "factors": 0.5, "shared": 0.3,
    "shared+pchip": 0.06, "factors+site": 0.1, "boosted": 0.15,
}  # fmt: skip
"""Default relative weights of the candidates next to a reading and far from any."""
WEIGHT_POWER, WEIGHT_SHRINK = 3.0, 0.25
"""How a candidate's weight falls with its squared error; how far a class borrows from others."""
COMMON_STRENGTH, CLASS_STRENGTH = 20.0, 100.0
"""Independent held-out readings that weigh as much as the defaults, and as the common weights."""
SITE_STRENGTH, SENSOR_STRENGTH = 20.0, 40.0
"""The same for the step from all classes to the site's own, and from the site to a sensor."""
CLASS_LEAST = 60.0
"""Held-out readings that a class of distance needs; classes with fewer are judged together."""
ERROR_KNEE, ERROR_LEAST_KNEE, ERROR_FARTHEST = 0.2, 1e-3, 5.0
"""Errors below this share of the mean absolute error count as squares, above as absolutes; an error
counts for so many spreads at the most."""
HALF_HOURS = 48
"""Length of one half when held-out readings are judged by weights from the other half."""

CHOICE_DOUBT, CHOICE_RUNS = (1.5, 3.0), 4.0
"""Standard errors of a gain from which on a better estimate is used at all, and wholly; runs of
hidden readings that are added to an owner's own when chance is estimated. These and the next were
chosen on random tables of every kind, and on D3 (blocks, one sensor an owner), germany_pm10
(outages) and california_pm25, seed 1."""
CHOICE_CLASS, CHOICE_SENSOR = 60.0, 40.0
"""Held-out readings that weigh as much as the owner's share for a class of distance, and as the
class's for a sensor."""
CHOICE_ERRORS, CHOICE_WHOLE = 1.0, (0.25, 0.75)
"""Standard errors that a sensor's share may be too low by chance; shares below which a better
estimate is left out, and above which it is all."""
MARGIN_PARTS = 10
"""Parts of a sensor's history, of which one may go beyond the rest: the margin of what is
plausible."""
NEAR_ZERO = 0.02
"""Readings whose least is so small a share of the largest come close to zero."""

SNAP_WIDTHS, SNAP_RMSE = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5), 1.001
"""How near to a multiple of the resolution a value is moved there; how far the RMSE may rise."""
RESOLUTION_STEPS = (10.0, 5.0, 1.0, 0.5, 0.1, 0.05, 0.01, 0.005, 0.001)
RESOLUTION_SHARE = 0.98
"""Resolutions to look for, relative to the readings' spread, and the share that must fit."""

QUANTILE_LEAST = 150
"""Held-out readings that a quantile needs; a class of distance with fewer borrows."""
SCALE_STRENGTH = 3.0
"""Held-out readings that weigh as much as the belief that all features of a scale matter alike."""
QUANTILE_UNKNOWN = 3.0
"""Mean deviations to either side where too few errors tell of a quantile."""

# --- recovery, self-test, evaluation --------------------------------------------------------------

SELF_TEST_SHARE, SELF_TEST_COVERAGE = 0.1, 0.9
"""Share hidden from a method that holds none out, and its intervals' coverage (decision 15)."""
GAP_CLASSES = (1, 3, 6, 12, 24, 48)
"""Longest gaps of the classes by which the self-test is told, in slots, as ``max_gap`` counts."""
BLOCK_SLOTS, MONTHLY_BLOCK_SLOTS = 24, 12
"""Slots of a hidden block, a day of hours, and of one in monthly readings, a year."""
RUNAWAY = 100.0
"""An estimate this many ranges outside all that was observed is no estimate."""
TUNING_SLOTS, TUNING_SHARE = 2000, 0.1
"""Tuning looks at so many slots at the most, from the middle, and hides this share of readings."""

# --- the paper's method ---------------------------------------------------------------------------

# The paper gives no settings. Those of its loop as printed were chosen once on a tenth of the
# training entries of D2_sst_70x1733 and D3_beijing_pm25 at rates 0.1, 0.5 and 0.9; the grid and
# the steps of the synchronous schedule on other masks of the paper's four data sets than those of
# docs/reproduction.md (docs/decisions/0003).
PAPER_RANK, PAPER_WEIGHTS = 10, (1e-3, 0.1, 0.3)
"""As printed: latent factors (k), and the weights lambda, z1 and z2 of the objective."""
PAPER_FULL_WEIGHTS = (
    (1e-3, 0.1, 0.03),
    (1e-5, 0.003, 0.03),
    (1e-5, 0.003, 0.1),
    (1e-4, 0.03, 0.03),
    (1e-3, 0.3, 0.03),
)
"""Weights that are tried with a factor for each sensor; the first where nothing can be tried."""
PAPER_THIN_RANK, PAPER_THIN_WEIGHTS = 0.8, ((0.01, 0.003, 0.01), (0.006, 0.003, 0.005))
"""Weights that are tried with so many factors for each reading of a slot."""
PAPER_MOST_FACTORS = 70
"""Factors at most where nobody asks for more: a Newton step costs their square a reading."""
PAPER_LEARNING_RATE = 0.4
"""As printed: step, relative to the inverse curvature of a balanced start."""
PAPER_MOMENTUM = 0.95
"""Share of the last move that is made again, at most."""
PAPER_MOVE_EVERY = 3
"""Rounds from one Newton step of the sensors to the next: in every round they follow Q too closely
(MAE on D3 at 0.1: 17.2 against 16.7), and cost as much as all else."""
PAPER_P_SPREAD = 0.05
"""P starts at ``s (1 + spread * noise)``: sensors of one city start alike. (With a Newton step: at
``s`` times a row of the identity, and the noise.)"""
PAPER_Q_SPREAD = 0.02
"""Q starts at ``spread / s * noise``: a slot that nobody observed stays at the sensors' means."""
PAPER_HELD_OUT = 0.05
"""Share of each sensor's readings that is held out, to stop by."""
PAPER_CHECK_EVERY, PAPER_PATIENCE, PAPER_TOLERANCE = 10, 10, 1e-3
"""Rounds between two checks, checks without a gain before a stop, and the least relative gain."""
PAPER_DIVERGED = 4.0
"""A training error this many times the lowest so far: the step is too long, and halved."""

# --- audit ----------------------------------------------------------------------------------------

# Chosen on runs of experiments/privacy.toml, so that honest runs pass and each deliberate leak of
# tests/audit is found.
AUDIT_CLOSE = 0.01
"""A reading counts as exposed when it is guessed within this share of its sensor's spread."""
AUDIT_FEWEST = 20
"""A sensor with fewer guessed readings, or slow means, has no R^2."""
AUDIT_GROUPS = 20
"""Groups of slots that are left out one by one to tell the statistical error of an R^2."""
AUDIT_TOLERANCE = 0.02
"""R^2 that an attack on the messages may read more than one on the copies, beyond that error."""
AUDIT_ROUNDING = 1e-6
"""Relative error of a released sum, which travels in fixed point of 2^-30."""
AUDIT_EQUAL = 0.95
"""Share of a sensor's loadings that must be those of its copies; a few lie on a rounding's edge."""
AUDIT_CHANCE = 1e-6
"""How often noise as it should be is taken for too little."""
AUDIT_ALIKE, AUDIT_ALIKE_LATER = 0.3, 0.5
"""Correlation of two sensors' noise, or of one's noise from slot to slot, that is not chance."""
AUDIT_MEMORIES = (0.5, 0.7, 0.85, 0.93, 0.97, 0.99, 0.995)
"""Memories, a slot, of the states whose sum a residual is taken to be."""
AUDIT_WHITE = 0.02
"""Least share of a residual that has no memory."""
AUDIT_FREEDOM = 3.0
"""Degrees of freedom of heavy-tailed residuals."""
AUDIT_RIDGES = (1.0, 10.0, 100.0, 1000.0, 10000.0)
"""Ridges among which the attack with a known sample chooses."""

# --- suspicious readings (io) ---------------------------------------------------------------------
# Chosen on the eight data sets of the experiments (D1 to D4, D2 with 100 points, california_pm25,
# beijing_so2_2014, germany_pm10): every suspicion raised there was looked at. Of changes of unit by
# a factor of 10 and of 1,000 in twelve sensors of each, 90 and 94 of 96 were found.

CODE_REPEATS, CODE_OTHERS = 3, 8
"""How often a far-off value must repeat to be a code, and how many other readings it needs."""
STUCK_RUN, STUCK_TIMES, STUCK_RUNS = 12, 4.0, 20
"""Least readings of a stuck run; how many times the longest that chance gives; runs from which
chance is learnt. Plateaus of whole numbers and of detection limits reach 3.7 times."""
COMMON_SHARE = 0.1
"""A value that other sensors show in more than this share of their readings is no fault."""
STEP_BLOCKS, STEP_FEWEST, STEP_LEAST, STEP_POSITIVE = 128, 16, 8, 0.9
"""Most and fewest blocks in which levels are looked at, least slots of one, and the share of
positive readings from which logarithms are taken."""
STEP_JUMP, STEP_SPREADS = 1.5, 5.0
"""A step is larger than so many times the 95 % of other changes from block to block, and its levels
are so many spreads apart. The one that it finds in the real data is a fault to the eye."""
