"""The contract check: every method passes it, and it finds every law that is broken."""

import numpy as np
import pytest

from flfl.errors import InputError
from flfl.estimators.interpolation import Interpolation as Linear
from flfl_bench.baselines.lfa import LFA
from flfl_bench.testing import LAWS, check_recoverer
from quick import EVERY_METHOD, quick

SLOW = {
    "flfl", "alone", "pooled", "dynamic-factor", "iterative", "trmf", "metamf", "fesog", "fedgnn"
}  # fmt: skip
"""Methods that take seconds, or that are compiled anew for every shape of a table."""


@pytest.mark.parametrize("name", [p for p in EVERY_METHOD if p.values[0] not in SLOW])
def test_every_method_obeys(name):
    check_recoverer(quick(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", [p for p in EVERY_METHOD if p.values[0] in SLOW])
def test_every_slow_method_obeys(name):
    check_recoverer(quick(name))


class Transposed(Linear):
    def _estimate(self, Y, positions, sensors):
        return super()._estimate(Y, positions, sensors).T


class LeavesGaps(Linear):
    def _estimate(self, Y, positions, sensors):
        return Y


class SmoothsReadings(Linear):
    def transform(self, X):
        filled = super().transform(X)
        return filled + 0.1


class ForgetsFrames(Linear):
    def transform(self, X):
        return np.asarray(super().transform(X))


class ForgetsTheIndex(Linear):
    def transform(self, X):
        here = self.estimates_[: len(X)]
        return X.where(X.notna(), here) if hasattr(X, "where") else np.where(np.isnan(X), here, X)


class DislikesArrays(Linear):
    def fit(self, X, y=None, **given):
        super().fit(X, **given)
        self.estimates_ = self.estimates_ + isinstance(X, np.ndarray)
        return self


class WritesIntoInput(Linear):
    def fit(self, X, y=None, **given):
        super().fit(X, **given)
        if isinstance(X, np.ndarray) and X.flags.writeable:
            X[np.isnan(X)] = 0.0
        return self


class WritesIntoOneColumn(Linear):
    """``Y`` of a single sensor may be the caller's own memory."""

    def _estimate(self, Y, positions, sensors):
        out = super()._estimate(Y, positions, sensors)
        if Y.flags.writeable:
            Y[np.isnan(Y)] = 0.0
        return out


class WritesIntoFrames(Linear):
    def fit(self, X, y=None, **given):
        super().fit(X, **given)
        if not isinstance(X, np.ndarray):
            X.fillna(0.0, inplace=True)
        return self


class ChangesItsMind(LFA):
    def fit(self, X, y=None, **given):
        self.rank = min(self.rank, len(X.columns) if hasattr(X, "columns") else X.shape[1])
        return super().fit(X, **given)


class ForgetsTheEmptyInItsBounds(Linear):
    def _estimate(self, Y, positions, sensors):
        out = super()._estimate(Y, positions, sensors)
        self.lower_, self.upper_ = out.T - 1, out.T + 1
        return out


class KnowsNoBounds(Linear):
    _by_sensor = ("lower_", "upper_")

    def _estimate(self, Y, positions, sensors):
        out = super()._estimate(Y, positions, sensors)
        self.lower_ = self.upper_ = np.full_like(out.T, np.nan)
        return out


class NeedsPlaces(Linear):
    def _estimate(self, Y, positions, sensors):
        return super()._estimate(Y, positions, sensors) + 0 * sensors.coordinates.sum()


class DividesByDistance(Linear):
    def _estimate(self, Y, positions, sensors):
        out = super()._estimate(Y, positions, sensors)
        if sensors.coordinates is None or len(Y) == 1:
            return out
        away = np.abs(sensors.coordinates - sensors.coordinates[:1]).sum(axis=1)[1:]
        return out + 0 * (1 / away).sum()


class Restless(Linear):
    def _estimate(self, Y, positions, sensors):
        return super()._estimate(Y, positions, sensors) + np.random.default_rng().random(Y.shape)


class Capped(Linear):
    def _estimate(self, Y, positions, sensors):
        return np.minimum(super()._estimate(Y, positions, sensors), 60.0)


class Remembers(Linear):
    def _estimate(self, Y, positions, sensors):
        self.level_ = max(getattr(self, "level_", 0.0), np.nanmax(Y))
        return np.where(np.isnan(Y), self.level_, Y)


class LearnsInTransform(Linear):
    def transform(self, X):
        filled = super().transform(X)
        self.estimates_ = np.asarray(filled)
        return filled


class InventsSensors(Linear):
    def fit(self, X, y=None, **given):
        super().fit(X, **given)
        self.estimates_ = np.nan_to_num(self.estimates_, nan=0.0)
        return self


class CountsTheEmpty(Linear):
    def fit(self, X, y=None, **given):
        super().fit(X, **given)
        empty = np.isnan(self.estimates_).all(axis=0).sum()
        self.estimates_ = self.estimates_ + empty * np.nanstd(self.estimates_)
        return self


class NeedsTwoReadings(Linear):
    def _estimate(self, Y, positions, sensors):
        if ((~np.isnan(Y)).sum(axis=1) < 2).any():
            raise IndexError("too few readings")
        return super()._estimate(Y, positions, sensors)


class NeedsThreeRows(Linear):
    def _estimate(self, Y, positions, sensors):
        return super()._estimate(Y, positions, sensors) / min(1, max(0, Y.shape[1] - 2))


class DividesBySpread(Linear):
    def _estimate(self, Y, positions, sensors):
        spread = np.nanstd(Y, axis=1, keepdims=True)
        with np.errstate(invalid="ignore"):
            return super()._estimate(Y / spread, positions, sensors) * spread


class NeedsSomebody(Linear):
    def _estimate(self, Y, positions, sensors):
        level = np.where(np.isnan(Y).all(axis=0), np.nan, 0.0)
        return super()._estimate(Y, positions, sensors) + level


class NeedsCompany(Linear):
    def _estimate(self, Y, positions, sensors):
        return super()._estimate(Y, positions, sensors) + (0.0 if len(Y) > 1 else np.nan)


class FitsNothing(Linear):
    def fit(self, X, y=None, **given):
        return self if np.isnan(np.asarray(X)).all() else super().fit(X, **given)


BROKEN = {
    Transposed: "every entry has an estimate: Transposed gave .8, 120. estimates",
    LeavesGaps: "every gap is filled: LeavesGaps left [0-9]+ gaps",
    SmoothsReadings: "known readings are untouched: SmoothsReadings altered",
    ForgetsFrames: "a DataFrame comes back as it is.*: ForgetsFrames gave a ndarray",
    ForgetsTheIndex: "a DataFrame comes back as it is.*: ForgetsTheIndex fills some of the rows",
    DislikesArrays: "counts as its array: DislikesArrays estimates otherwise for an array",
    WritesIntoInput: "the input is left alone: WritesIntoInput wrote into the table of 8 sensors",
    WritesIntoOneColumn: "the input is left alone: .* wrote into the table of 1 sensors",
    WritesIntoFrames: "the input is left alone: .* wrote into the DataFrame of 8 sensors",
    ChangesItsMind: "settings are left alone: ChangesItsMind set rank itself",
    ForgetsTheEmptyInItsBounds: "intervals have the shape of the table: .* raised ValueError",
    KnowsNoBounds: "intervals have the shape of the table: .* has 1920 bounds that are no numbers",
    NeedsPlaces: "sensors without coordinates are survived: NeedsPlaces raised",
    DividesByDistance: "two sensors at one place are survived: DividesByDistance gave 960",
    Restless: "the same seed gives the same bits: Restless gave other estimates",
    Capped: "other units give the same estimates in those units: Capped is off by",
    Remembers: "only the table that was fitted matters: Remembers remembers the table",
    LearnsInTransform: "only the table that was fitted matters: LearnsInTransform learned",
    InventsSensors: "stays NaN and hurts nobody: InventsSensors made up values",
    CountsTheEmpty: "stays NaN and hurts nobody: CountsTheEmpty estimates the others otherwise",
    NeedsTwoReadings: "one reading is enough: NeedsTwoReadings raised IndexError: too few readings",
    NeedsThreeRows: "two rows are enough: NeedsThreeRows ",
    DividesBySpread: "a constant sensor is survived: DividesBySpread ",
    NeedsSomebody: "slots that nobody observed are survived: NeedsSomebody gave",
    NeedsCompany: "a single sensor is survived: NeedsCompany gave 120 estimates",
    FitsNothing: "a table without readings is refused: FitsNothing fitted it",
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # what broken methods divide by zero
@pytest.mark.parametrize(("broken", "words"), BROKEN.items(), ids=[c.__name__ for c in BROKEN])
def test_a_broken_law_is_named(broken, words):
    with pytest.raises(AssertionError, match=words):
        check_recoverer(broken())


@pytest.mark.parametrize("law", list(LAWS))
def test_every_law_has_somebody_who_breaks_it(law):
    assert any(words.split(":")[0].replace(".*", "") in law for words in BROKEN.values())


def test_a_method_may_declare_that_units_matter():
    class Declares(Capped):
        _unit_free = False

    check_recoverer(Declares())


def test_options_belong_to_a_name():
    with pytest.raises(InputError, match="options are for a name"):
        check_recoverer(Linear(), rank=3)
    with pytest.raises(InputError, match="has no option rank"):
        check_recoverer("linear", rank=3)


def test_the_estimator_itself_is_not_fitted():
    model = Linear()
    check_recoverer(model)
    assert not hasattr(model, "estimates_")
