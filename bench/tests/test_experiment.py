"""Experiments as TOML: what is meant is run, what cannot be is said before any work."""

from dataclasses import replace
from pathlib import Path

import pytest
from sklearn.impute import KNNImputer

from flfl.datasets.catalogue import list_datasets
from flfl.errors import InputError
from flfl.estimators.interpolation import Interpolation
from flfl.evaluation import evaluate
from flfl.methods import find, methods
from flfl_bench.cells import load
from flfl_bench.experiment import make_experiment, read_experiment
from flfl_bench.methods import metamf
from flfl_bench.runner import run_cells
from flfl_bench.store import Store

SHIPPED = Path(__file__).parents[2] / "experiments"
DATA = '[[data]]\nname = "made"\nmade = {sensors = 6, slots = 60}\n'
RUN = '[[run]]\ndata = ["made"]\nrates = [0.5, 0.8]\nmethods = ["linear", "lfa"]\nseeds = 2\n'


@pytest.fixture
def read(tmp_path):
    def call(text, **options):
        path = tmp_path / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return read_experiment(path, **options)

    return call


def test_a_run_is_a_product(read):
    experiment = read(DATA + RUN)
    assert (experiment.name, experiment.title, experiment.views) == ("mine", "mine", ())
    assert [(c.rate, c.label, c.seed) for c in experiment.cells] == [
        (rate, label, seed) for rate in (0.5, 0.8) for label in ("linear", "lfa") for seed in (0, 1)
    ]


def test_runs_add_up_and_a_cell_that_occurs_twice_is_run_once(read):
    more = RUN.replace("seeds = 2", "seeds = [1, 4]")
    both = read(DATA + RUN + more)
    assert len(both.cells) == 8 + 4
    assert {c.seed for c in both.cells} == {0, 1, 4}


def test_a_variant_has_its_options_and_those_of_the_run(read):
    variant = '[[variant]]\nlabel = "small"\nmethod = "lfa"\noptions = {rank = 2}\n'
    run = RUN.replace('"linear", "lfa"', '"small"') + "options = {ridge = 0.5}\n"
    cells = read(DATA + variant + run).cells
    assert {(c.label, c.method, c.options) for c in cells} == {
        ("small", "lfa", '{"rank": 2, "ridge": 0.5}')
    }


def test_a_place_is_a_method(read):
    imputer = "sklearn.impute:KNNImputer"
    variant = f'[[variant]]\nlabel = "near"\nmethod = "{imputer}"\n'
    variant += "options = {imputer__n_neighbors = 2}\n"
    run = RUN.replace('"linear", "lfa"', f'"{imputer}", "near"')
    assert {c.method for c in read(DATA + variant + run).cells} == {imputer}
    for place in ("sklearn.impute:Nothing", "no.such.module:Class"):
        with pytest.raises(InputError, match=r"number 1.*no method at"):
            read(DATA + RUN.replace("lfa", place))
    with pytest.raises(InputError, match="no option"):
        read(DATA + variant.replace("n_neighbors", "neighbours") + run)


def test_objects_and_classes_from_python(tmp_path):
    """They run in workers, each with what it was made with."""
    methods = ["linear", KNNImputer(n_neighbors=2), KNNImputer, Interpolation(kind="mean")]
    made = {"name": "made", "made": {"sensors": 6, "slots": 60}}
    asked = make_experiment("mine", data=[made], rates=[0.5], methods=methods)
    assert asked.labels == ("linear", "KNNImputer", "KNNImputer'", "Interpolation")
    run_cells(asked.cells, store := Store(tmp_path), workers=1)
    rows = store.write(asked).to_pandas().set_index("label")
    assert rows["failed"].isna().all()
    (row,) = evaluate(
        *load(asked.cells[0].source), rates=[0.5], methods=[KNNImputer(n_neighbors=2)]
    )
    assert rows.loc["KNNImputer", "mae"] == row.mae != rows.loc["KNNImputer'", "mae"]
    (row,) = evaluate(*load(asked.cells[0].source), rates=[0.5], methods=["mean"])
    assert rows.loc["Interpolation", "mae"] == row.mae

    class Hidden(Interpolation):
        """In no module."""

    with pytest.raises(InputError, match="a worker cannot find"):
        make_experiment("mine", data=[made], rates=[0.5], methods=[Hidden])


def test_the_key_follows_the_definition_and_nothing_else(read):
    base = read(DATA + RUN).cells[0]
    slower = read(DATA + RUN + "seconds = 99\n").cells[0]
    other_readings = read(DATA.replace("60", "61") + RUN).cells[0]
    other_block = read(DATA + RUN + "block_length = 5\n").cells[0]
    assert base.key == slower.key
    assert len({base.key, other_readings.key, other_block.key}) == 3


def test_files_are_read_beside_the_experiment(read, tmp_path):
    lines = ["time,a,b", *(f"2024-01-{d:02d},{d},{d * 2 % 7}" for d in range(1, 29))]
    (tmp_path / "mine.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    by_name = read(RUN.replace('"made"', '"mine.csv"'))
    named = read('[[data]]\nname = "own"\nreadings = "mine.csv"\n' + RUN.replace('"made"', '"own"'))
    assert by_name.cells[0].fingerprint == named.cells[0].fingerprint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("title = \n", "this is not TOML"),
        (DATA, "run: this setting is missing"),
        ("tittle = 'x'\n" + DATA + RUN, "tittle: there is no such setting. Did you mean 'title'"),
        (
            DATA + RUN + "sedes = 3\n",
            r"\[\[run\]\] number 1: sedes: there is no such setting. Did you mean 'seeds'",
        ),
        (
            DATA + RUN.replace("linear", "liner"),
            "unknown 'liner'. Did you mean 'linear'",
        ),
        (DATA + RUN.replace('["made"]', '["mode"]'), "there is no data set 'mode'"),
        (
            DATA + RUN.replace("0.8", "1.5"),
            "rates.*: 1.5 cannot be used. Input should be less than 1",
        ),
        (DATA + RUN.replace("0.8", "0.9999"), "keeping the share 0.9999 of"),
        (DATA + RUN + 'patterns = ["blok"]\n', "unknown 'blok'. Did you mean 'block'"),
        (DATA + RUN.replace("seeds = 2", "seeds = true"), "seeds.*: True cannot be used"),
        (DATA + RUN.replace("seeds = 2", "seeds = [-1]"), "seeds.*cannot be used"),
        (DATA + RUN.replace("seeds = 2", "audit = true"), "'linear' cannot be audited"),
        (DATA + RUN + "options = {rnak = 3}\n", "linear has no option rnak"),
        (
            DATA + RUN.replace('"linear", ', "") + "options = {rank = 0}\n",
            "LFA: rank: 0 cannot be used",
        ),
        (
            DATA.replace("slots", "slot") + RUN,
            "made.slot: there is no such setting. Did you mean 'slots'",
        ),
        (DATA.replace("60", "1") + RUN, "1 is too few"),
        ('[[data]]\nname = "made"\n' + RUN, "needs one of readings, cut and made"),
        ('[[data]]\nname = "made"\ncut = "germany_pm10"\n' + RUN, "needs cut and slots together"),
        (DATA + '[[variant]]\nlabel = "flfl"\nmethod = "lfa"\n' + RUN, "'flfl' is a method of its"),
        (
            'views = ["rate"]\n' + DATA + RUN,
            "views.*'rate' cannot be used. Input should be 'rates'",
        ),
        (DATA + RUN.replace("[0.5, 0.8]", "[]"), "rates"),
        ("run = [1]\n", "run.*: 1 cannot be used"),
        (DATA + DATA + RUN, r"\[\[data\]\] number 2: 'made' occurs twice"),
        (
            DATA + 2 * '[[variant]]\nlabel = "mine"\nmethod = "lfa"\n' + RUN,
            "'mine' occurs twice",
        ),
        (DATA.replace("60", "60, noise = nan") + RUN, "made.noise: nan cannot be used"),
        (DATA + RUN + "options = {seed = 3}\n", "seed is no option of a method"),
        (DATA + RUN + "options = {name = 3}\n", "linear has no option name"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(read, text, words):
    with pytest.raises(InputError, match=words) as caught:
        read(text)
    assert "mine.toml" in str(caught.value)


def test_labels_that_are_not_asked_for_may_be_missing(read):
    text = DATA + RUN.replace('"lfa"', '"from-the-future"')
    assert read(text, only=["linear"]).labels == ("linear",)
    with pytest.raises(InputError, match="unknown 'from-the-future'"):
        read(text, only=["from-the-future"])


def test_a_method_that_is_not_installed_is_refused_where_it_is_asked_for(read, monkeypatch):
    absent = replace(metamf, needs="flfl_has_no_such_module")
    monkeypatch.setattr("flfl_bench.methods.metamf", absent)
    text = DATA + RUN.replace('"lfa"', '"metamf"')
    assert read(text, only=["linear"]).labels == ("linear", "metamf")
    with pytest.raises(InputError, match=r"metamf needs .*pip install 'flfl-bench\[neural\]'"):
        read(text)


def test_a_choice_of_cells_names_what_is_not_there(read):
    experiment = read(DATA + RUN)
    assert len(experiment.select(labels=["lfa"], rates=[0.8])) == 2
    with pytest.raises(InputError, match=r"--only: unknown 'lfq'. Did you mean 'lfa'"):
        experiment.select(labels=["lfq"])


def test_the_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="the file cannot be read"):
        read_experiment(tmp_path / "none.toml")


def test_the_quick_experiment_needs_no_data_of_ones_own(monkeypatch, tmp_path):
    monkeypatch.delenv("FLFL_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert len(read_experiment(SHIPPED / "quick.toml").cells) > 20


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_the_shipped_experiments_can_be_run(path):
    if "D1_beijing_co" not in {dataset.name for dataset in list_datasets()}:
        pytest.skip("the paper's data are not at hand: set FLFL_DATA")
    # Methods of large packages are named, and run where these are installed.
    experiment = read_experiment(path, only=[name for name in methods() if find(name).available])
    assert experiment.views
    # The paper's own figures are about its own method.
    assert ("flfl-paper" if path.stem == "reproduction" else "flfl") in experiment.labels
