"""Reading and expanding sweep files: cells, names, tests, and what is refused."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.registry import Registry
from harness.sweep.cells import Cell, recipe_text, slug
from harness.sweep.file import read_sweep
from harness.training.recipe import flat, read_config
from harness.types import HarnessError

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
TRAIN = '[train]\ntask = "gamesolve"\nmodel = "base"\n'
GRPO = '[train]\nmethod = "grpo"\ntask = "gamesolve"\nmodel = "base"\n'


@pytest.fixture(scope="module")
def registry():
    return Registry.load()


def read(tmp_path, text, registry, given=None, **schedule):
    path = tmp_path / "s.toml"
    path.write_text(text)
    return read_sweep(path, registry, given, **schedule)


def test_a_grid_is_every_combination(tmp_path, registry):
    text = """
    baseline = "grpo, learning_rate=0.1"
    seeds = [0, 5]
    [train]
    task = "gamesolve"
    model = "base"
    [grid]
    method = ["grpo", "sft"]
    learning_rate = [0.1, 0.2, 0.3]
    """
    sweep = read(tmp_path, text, registry)
    assert len(sweep.cells) == 12
    assert len(sweep.conditions) == 6
    assert sweep.panels == ("",)
    cell = sweep.cells[-1]
    assert (cell.train["method"], cell.train["learning_rate"]) == ("sft", 0.3)
    assert cell.train["seed"] == 5
    assert cell.name == "sft,-learning_rate=0.3--seed5"


def test_listed_conditions_at_each_point_of_a_grid_are_compared_there(tmp_path, registry):
    text = f"""
    baseline = "plain"
    {TRAIN}
    [[condition]]
    name = "plain"
    method = "grpo"
    [[condition]]
    name = "probe"
    method = "grpo-probe"
    probe.layers = "6"
    [grid]
    model = ["a", "b"]
    """.replace("    ", "")
    sweep = read(tmp_path, text, registry)
    assert [(c.condition, c.panel) for c in sweep.cells] == [
        ("plain", "a"), ("probe", "a"), ("plain", "b"), ("probe", "b"),
    ]  # fmt: skip
    assert [c.train["model"] for c in sweep.cells] == ["a", "a", "b", "b"]


def test_a_recipe_is_overridden_by_train_and_that_by_set(tmp_path, registry):
    (tmp_path / "r.toml").write_text(
        'method = "grpo"\nmodel = "of the recipe"\nsteps = 3\nbatch_size = 2\nout = "x"\n'
        "gpus = 8\nseed = 42\n"
        '[task]\nname = "gamesolve-skills"\nformat = "json"\n[data]\nlimit = 7\n'
    )
    text = '[train]\nrecipe = "r.toml"\nsteps = 9\ntask.format = "story"\n'
    (cell,) = read(tmp_path, text, registry, {"model": "given"}).cells
    train = dict(cell.train)
    assert train["model"] == "given"
    assert (train["steps"], train["batch_size"], train["data.limit"]) == (9, 2, 7)
    assert train["task"] == "gamesolve-skills"
    assert train["task.format"] == "story"
    assert "out" not in train
    assert (train["gpus"], train["seed"]) == (0, 0), "the sweep's own, whatever the recipe says"
    assert cell.tests[0].task == "gamesolve-skills"
    assert cell.tests[0].options == {"format": "story"}, "tested as it was trained"


def test_settings_by_method(tmp_path, registry):
    text = f"""
    baseline = "grpo"
    {TRAIN}
    [method.grpo-probe]
    probe.layers = "6"
    probe.coef = 0.5
    [grid]
    method = ["grpo", "grpo-probe"]
    """.replace("    ", "")
    one, other = read(tmp_path, text, registry).cells
    assert "probe.coef" not in one.train
    assert other.train["probe.coef"] == 0.5
    with pytest.raises(HarnessError, match=r"\[method.grpo-prob\].*grpo-probe"):
        read(tmp_path, text.replace("[method.grpo-probe]", "[method.grpo-prob]"), registry)


def test_tests_of_several_tasks(tmp_path, registry):
    text = GRPO + (
        '[test]\ntasks = ["gamesolve", "gamesolve-ood"]\nlimit = 5\ntemperature = 0\n'
        '[test.set]\nformat = "json"\ngamesolve-ood.format = "math"\n[test.model]\nmemory = 0.5\n'
    )
    (cell,) = read(tmp_path, text, registry).cells
    one, other = cell.tests
    assert (one.options, other.options) == ({"format": "json"}, {"format": "math"})
    assert one.arguments == {"limit": 5, "temperature": 0}
    assert one.model_options == {"memory": 0.5}


def test_a_trend_takes_numbers_only(tmp_path, registry):
    rows = ["6", "6,17", "critical:probes.json"]
    text = 'baseline = "0"\n' + TRAIN + '[statistics]\ntrend = "probe.layers"\n'
    for i, layers in enumerate(rows):
        text += f'[[condition]]\nname = "{i}"\nmethod = "grpo-probe"\nprobe.layers = "{layers}"\n'
    assert [c.place for c in read(tmp_path, text, registry).cells] == [6.0, None, None]


def test_identity_of_a_cell(tmp_path, registry):
    """Where it runs and how often it saves do not change a training; a test changes no training."""
    (one,) = read(tmp_path, GRPO, registry).cells
    (other,) = read(tmp_path, GRPO + "save_every = 3\n", registry, gpus=4).cells
    assert one.train_hash == other.train_hash
    (other,) = read(tmp_path, GRPO + "[test]\nlimit = 3\n", registry).cells
    assert one.train_hash == other.train_hash
    assert one.test_hash != other.test_hash
    (other,) = read(tmp_path, GRPO + "steps = 3\n", registry).cells
    assert one.train_hash != other.train_hash
    assert Cell.of(one.described()) == one


REFUSED = {
    "no table": ("train = 3\n", "write \\[train\\]"),
    "unknown key": (GRPO + "[shedule]\nslots = 2\n", "unknown key 'shedule'.*schedule"),
    "unknown schedule": (GRPO + "[schedule]\nslot = 2\n", "unknown key 'slot'.*slots"),
    "no slots": (GRPO + "[schedule]\nslots = 0\n", "must be at least 1"),
    "no launcher": (GRPO + '[schedule]\nlauncher = "pbs"\n', "none of local, slurm"),
    "one Ray for two": (GRPO + '[schedule]\nslots = 2\nray = ["a"]\n', "1 clusters for 2 slots"),
    "no model": ('[train]\nmethod = "grpo"\ntask = "gamesolve"\n', "model is missing"),
    "unknown method": (GRPO.replace("grpo", "grop"), "no trainer 'grop'.*grpo"),
    "unknown option": (GRPO + "learning_rat = 1\n", "no option 'learning_rat'.*learning_rate"),
    "bad value": (GRPO + 'steps = "many"\n', "is no whole number"),
    "unknown task": (GRPO.replace("gamesolve", "gamesolv"), "no task 'gamesolv'"),
    "unknown test task": (GRPO + '[test]\ntasks = ["gam"]\n', "no task 'gam'"),
    "bad test": (GRPO + '[test]\nmax_tokens = "x"\n', "max_tokens: 'x' is of the wrong type"),
    "unknown test key": (GRPO + "[test]\nmax_token = 3\n", "unknown key 'max_token'"),
    "seed in train": (GRPO + "seed = 3\n", "write seeds"),
    "seed in grid": (GRPO + "[grid]\nseed = [1]\n", "write seeds"),
    "seeds twice": ("seeds = [1, 1]\n" + GRPO, "different whole numbers"),
    "seeds of text": ('seeds = ["a"]\n' + GRPO, "whole numbers"),
    "grid without list": (GRPO + "[grid]\nsteps = 3\n", "give a list"),
    "condition without name": (GRPO + "[[condition]]\nsteps = 3\n", "has no name"),
    "condition as table": (GRPO + "[condition]\nsteps = 3\n", "\\[\\[condition\\]\\]"),
    "varied twice": (
        GRPO + '[grid]\nsteps = [3]\n[[condition]]\nname = "a"\nsteps = 2\n', "steps is varied"),
    "no baseline": (GRPO + "[grid]\nsteps = [1, 2]\n", "baseline is missing; name one of steps=1"),
    "other baseline": ('baseline = "x"\n' + GRPO, "baseline 'x' is no condition"),
    "same name": (
        'baseline = "a@"\n' + GRPO + '[[condition]]\nname = "a@"\n[[condition]]\nname = "a-"\n',
        "two cells are named a"),
    "no validation": (GRPO + "validation.limit = -1\n", "leaves nothing to choose"),
    "other GPUs": (GRPO + "gpus = 2\n[schedule]\ngpus = 4\n", "gpus is 2, but a slot has 4"),
    "no trend": (GRPO + '[statistics]\ntrend = "probe.layer"\n', "no condition sets"),
    "no test": (GRPO + '[statistics]\ntest = "anova"\n', "none of welch, paired"),
    "no checkpoint": ('checkpoint = "first"\n' + GRPO, "none of best, last"),
    "infinite": (GRPO + "learning_rate = inf\n", "finite"),
    "no TOML": ("a = [", "not valid TOML"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_work_is_told_in_one_line(tmp_path, registry, case):
    text, told = REFUSED[case]
    with pytest.raises(HarnessError, match=told) as error:
        read(tmp_path, text, registry)
    assert "\n" not in str(error.value)


def test_set_does_not_reach_what_is_varied(tmp_path, registry):
    text = 'baseline = "steps=1"\n' + GRPO + "[grid]\nsteps = [1, 2]\n"
    with pytest.raises(HarnessError, match="the sweep varies it"):
        read(tmp_path, text, registry, {"steps": "3"})


def test_a_missing_file_or_recipe_is_told(tmp_path, registry):
    with pytest.raises(HarnessError, match="cannot be read"):
        read_sweep(tmp_path / "none.toml", registry)
    with pytest.raises(HarnessError, match=r"none\.toml: cannot be read"):
        read(tmp_path, '[train]\nrecipe = "none.toml"\n', registry)
    with pytest.raises(HarnessError, match="null byte"):
        read(tmp_path, '[train]\nrecipe = "a\\u0000b"\n', registry)
    with pytest.raises(HarnessError, match="too deeply"):
        read(tmp_path, "seeds = " + "[" * 5_000, registry)


@pytest.mark.parametrize("value", ["12:00:00", "1979-05-27", '"x"', "9" * 400, "{ a = 1 }"])
def test_what_is_no_place_on_an_axis_has_none(tmp_path, registry, value):
    text = f'{GRPO}steps = {value}\n[statistics]\ntrend = "steps"\n'
    try:
        places = [cell.place for cell in read(tmp_path, text, registry).cells]
    except HarnessError as error:
        places, said = None, str(error)
        assert_one_line(said)
    assert places in (None, [None], [float("inf")])


def assert_one_line(text):
    assert text
    assert "\n" not in text


values = st.one_of(
    st.booleans(), st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False),
    st.text(), st.lists(st.text(), max_size=3), st.lists(st.integers(-9, 9), max_size=3),
)  # fmt: skip


@given(st.dictionaries(st.text(min_size=1), values, max_size=5))
def test_a_recipe_reads_back_as_it_was(settings):
    """Every text, quotes and control characters and all."""
    assert flat(tomllib.loads(recipe_text(settings))) == settings


@given(st.text())
def test_a_slug_is_one_part_of_a_path(text):
    made = slug(text)
    assert made
    assert "/" not in made
    assert "@" not in made
    assert made not in (".", "..")


def test_the_presets(registry):
    sweep = read_sweep(CONFIGS / "sweeps" / "reference-ablation.toml", registry)
    assert len(sweep.cells) == 15
    assert sweep.schedule.slots == 2
    assert sweep.schedule.gpus == 4
    assert sweep.conditions == ("no_probe", "probe@6", "probe@17", "probe@30", "probe@35")
    assert [c.place for c in sweep.cells[::3]] == [None, 6, 17, 30, 35]
    train = dict(sweep.cells[3].train)
    of_record = {
        "learning_rate": 1e-6, "batch_size": 16, "rollouts": 5, "steps": 240, "max_prompt": 1024,
        "max_reply": 512, "temperature": 0.7, "top_p": 0.9, "micro_batch": 10, "eval_every": 40,
        "clip_low": 0.2, "clip_high": 0.2, "clip_dual": 3.0, "kl": "", "probe.coef": 0.1,
        "probe.learning_rate": 1e-3, "gpus": 4, "seed": 0, "model": "Qwen/Qwen2.5-3B-Instruct",
    }  # fmt: skip
    assert {k: train[k] for k in of_record} == of_record
    tiny = read_sweep(CONFIGS / "sweeps" / "tiny-cpu.toml", registry, {"model": "x"})
    assert len(tiny.cells) == 6
    assert tiny.schedule.slots == 2
    assert tiny.schedule.gpus == 0


def test_a_cell_is_a_recipe_of_train(tmp_path, registry):
    text = (
        '[train]\nmethod = "grpo"\nmodel = "base"\n[train.task]\nname = "gamesolve"\n'
        'format = "json"\n'
    )
    (cell,) = read(tmp_path, text, registry).cells
    path = tmp_path / "train.toml"
    path.write_text(recipe_text(cell.train))
    top, settings = read_config(path)
    assert top == {"method": "grpo", "task": "gamesolve", "model": "base"}
    assert settings == {"task.format": "json", "seed": 0, "gpus": 0}
