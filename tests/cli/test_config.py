"""``flfl.toml``: every option of every verb, checked, and second to the command line."""

import json

import click
import pytest

from flfl.cli import SUMMARIES, load_verb
from flfl.cli.options import read_config


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_settings_are_found_in_the_working_directory(run, files, here):
    (here / "flfl.toml").write_text(
        'method = "linear"\n[recover]\nmax-gap = 1\nout = "filled.csv"\nsensors = "sensors.csv"\n'
        "min_readings = 3\nbounds = [0, 1e9]\n"
    )
    result = run("recover", "readings.csv", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["method"] == "linear"
    assert "gap longer than 1 slot" in found["refusals"]
    assert (here / "filled.csv").exists()
    assert "Settings: flfl.toml" in result.stderr


def test_the_command_line_comes_first(run, files, here):
    (here / "mine.toml").write_text('seed = 3\n[recover]\nmethod = "mean"\nmax-gap = "6h"\n')
    given = ("--config", "mine.toml", "recover", "readings.csv", "--out", "o.csv", "--json")
    assert json.loads(run(*given).stdout)["method"] == "mean"
    found = json.loads(run(*given, "--method", "linear", "--max-gap", 500).stdout)
    assert (found["method"], found["refused"]) == ("linear", 0)


def test_one_key_for_every_verb_and_one_for_each(run, here):
    (here / "flfl.toml").write_text(
        "[defaults]\nseed = 7\n[data.synth]\nsensors = 3\nslots = 30\nout = 'made'\n"
    )
    assert run("data", "synth").exit_code == 0
    first = (here / "made" / "readings.csv").read_text()
    assert len(first.splitlines()) == 31
    run("data", "synth", "--seed", 7, "--out", "same")
    run("data", "synth", "--seed", 8, "--out", "other")
    assert (here / "same" / "readings.csv").read_text() == first
    assert (here / "other" / "readings.csv").read_text() != first


EXAMPLES = {
    click.types.IntParamType: 2,
    click.types.FloatParamType: 0.5,
    click.types.StringParamType: "a",
    click.Path: "somewhere",
}


def verbs(commands, above=()):
    for name, command in commands.items():
        if isinstance(command, click.Group):
            yield from verbs(command.commands, (*above, name))
        else:
            yield (*above, name), command


VERBS = dict(verbs({name: load_verb(name) for name in SUMMARIES}))


@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
def test_every_option_of_every_verb_may_be_set(verb, here):
    command = VERBS[verb]
    lines, names = [f"[{'.'.join(verb)}]"], []
    for option in command.params:
        if not isinstance(option, click.Option):
            continue
        value = next((v for kind, v in EXAMPLES.items() if isinstance(option.type, kind)), None)
        if option.is_flag:
            value = True
        elif isinstance(option.type, click.Choice):
            value = option.type.choices[0]
        elif value is None:
            examples = {
                "max_gap": "6h",
                "bounds": [0, 5],
                "missing": [-99, "--"],
                "method": "linear",
                "methods": "flfl,linear",
                "pattern": ["random", "block"],
                "rate": [0.5],
            }
            value = examples.get(option.name, 1)
        lines.append(f"{option.opts[0].lstrip('-')} = {json.dumps(value)}")
        names.append(option.name)
    (here / "all.toml").write_text("\n".join(lines))
    found = read_config(here / "all.toml")
    for name in verb:
        found = found[name]
    assert sorted(found) == sorted(names)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[recover]\nmax_gpa = 3", ["'max_gpa'", "flfl.toml, [recover]", "Did you mean 'max-gap'"]),
        ("sede = 3", ["'sede'", "flfl.toml", "Did you mean 'seed'"]),
        ("[recovr]\nseed = 3", ["'recovr'", "Did you mean 'recover'"]),
        ("[data.snyth]\nseed = 3", ["'snyth'", "Did you mean 'synth'"]),
        ("[data]\nseed = 3", ["'seed'", "flfl.toml, [data]"]),
        ("[data]\nlist = 3", ["[data], [list]", "is a verb"]),
        ('[recover]\nseed = "3"', ["flfl.toml, [recover], seed", "integer"]),
        ("seed = 1.5", ["flfl.toml, seed", "integer"]),
        ("seed = true", ["flfl.toml, seed", "integer"]),
        ("[recover]\nmethod = 3", ["[recover], method", "3"]),
        ('[recover]\nshare = "low"', ["share", "low"]),
        ("[recover]\nshare = 2", ["share", "2"]),
        ('[recover]\nadded-error = "low"', ["added-error", "low"]),
        ("[recover]\ncomplete-grid = 1", ["complete-grid", "boolean"]),
        ('[recover]\nlayout = "tall"', ["layout", "tall"]),
        ("[recover]\nmissing = [1, true]", ["missing", "True"]),
        ('[recover]\nmax-gap = "soon"', ["max-gap", "soon"]),
        ("[recover]\nbounds = [5, 0]", ["bounds", "[5, 0]"]),
        ("[recover\n", ["not TOML"]),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text, words, run, files, here):
    (here / "flfl.toml").write_text(text)
    result = run("recover", "readings.csv", "--out", "o.csv")
    assert result.exit_code == 2, result.output
    for word in words:
        assert word in result.stderr
    assert "Traceback" not in result.output
    assert not (here / "o.csv").exists()


def test_a_file_that_is_not_there(run):
    result = run("--config", "no.toml", "methods")
    assert result.exit_code == 2
    assert "no.toml" in result.stderr
