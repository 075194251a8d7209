"""The engine: determinism, retries, batches, cancellation, seats."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

import harness
from harness.batching import ModelQueue
from harness.plan import Planner, RunSettings
from harness.registry import Registry
from harness.store import read_records
from harness.types import Decoding, HarnessError, Message, ProviderError, Reply, Request


def run(toy_registry, tmp_path, task="copy", model="batched", **settings):
    settings.setdefault("out", tmp_path / "runs")
    return harness.run(task=task, model=model, registry=toy_registry, **settings)


def bytes_of(made):
    return [(made.path / name).read_bytes() for name in ("records.parquet", "metrics.json")]


@pytest.mark.parametrize("task", ["copy", "duel"])
def test_records_do_not_depend_on_concurrency(toy_registry, tmp_path, task):
    made = [
        run(toy_registry, tmp_path, task, "sleepy", concurrency=c, out=tmp_path / str(c))
        for c in (1, 5, 64)
    ]
    assert bytes_of(made[0]) == bytes_of(made[1]) == bytes_of(made[2])
    assert made[0].complete


def test_the_same_specification_is_complete_and_a_larger_limit_extends(toy_registry, tmp_path):
    first = run(toy_registry, tmp_path, limit=10)
    again = run(toy_registry, tmp_path, limit=10)
    assert (again.path, again.metrics) == (first.path, first.metrics)
    more = run(toy_registry, tmp_path, limit=20)
    assert (more.path, more.metrics["records"]) == (first.path, 20)
    whole = run(toy_registry, tmp_path, limit=20, out=tmp_path / "other")
    assert bytes_of(more) == bytes_of(whole)
    assert run(toy_registry, tmp_path, limit=5).metrics["records"] == 20


def test_an_unfinished_run_never_shrinks(toy_registry, tmp_path):
    options = {"faults": 1, "kind": "provider"}
    cut = run(toy_registry, tmp_path, model="flaky", model_options=options, retries=0)
    assert not cut.complete
    again = run(toy_registry, tmp_path, model="flaky", model_options=options, limit=2)
    assert (again.complete, again.metrics["records"]) == (True, 30)


def test_another_seed_is_another_run(toy_registry, tmp_path):
    one = run(toy_registry, tmp_path, "duel", "sleepy", seeds=(0,))
    two = run(toy_registry, tmp_path, "duel", "sleepy", seeds=(1,))
    assert one.path != two.path
    assert [r.score for r in one.records()] != [r.score for r in two.records()]


def test_seeds_and_repeats_multiply_and_give_pass_at_k(toy_registry, tmp_path):
    made = run(toy_registry, tmp_path, "copy", "sleepy", limit=4, seeds=(0, 1), repeats=2, n=2)
    assert made.metrics["records"] == 4 * 2 * 2 * 2
    keys = {(r.sample, r.seed, r.repeat) for r in made.records()}
    assert len(keys) == 32
    names = {m["name"] for m in made.metrics["metrics"]}
    assert {"pass@1", "pass@2", "pass@4", "avg@4"} <= names


@pytest.mark.parametrize("kind", ["provider", "engine"])
def test_faults_that_pass_leave_no_trace_in_the_records(toy_registry, tmp_path, kind):
    options = {"faults": 1, "kind": kind}
    flaky = run(toy_registry, tmp_path, model="flaky", model_options=options)
    assert flaky.complete
    assert flaky.metrics["score"]["value"] == 1.0
    assert flaky.metrics["ledger"]["records"]["ok"] == 30


def test_faults_that_stay_make_the_run_incomplete_and_resume(toy_registry, tmp_path):
    options = {"faults": 2, "kind": "provider"}
    made = run(toy_registry, tmp_path, model="flaky", model_options=options, retries=0)
    missing = 3  # w3, w13, w23
    assert not made.complete
    assert made.metrics["records"] == 30 - missing
    assert made.metrics["expected"] == 30
    again = run(toy_registry, tmp_path, model="flaky", model_options=options, retries=2)
    assert again.complete
    assert again.path == made.path


def test_one_failed_pair_does_not_stop_the_rest(toy_registry, tmp_path):
    with pytest.raises(HarnessError, match="weights are missing"):
        run(toy_registry, tmp_path, ("copy", "duel"), ("unloadable", "sleepy"))
    assert len(list((tmp_path / "runs").iterdir())) == 2


def test_seats_alternate_and_the_opponent_is_named(toy_registry, tmp_path):
    made = run(toy_registry, tmp_path, "duel", "sleepy", opponent="oracle")
    assert made.metrics["opponent"] == "oracle"
    for record in made.records():
        seat = 0 if record.group == "seat0" else 1
        theirs = {m.reply.text for m in record.outcome.moves if m.seat != seat}
        assert theirs == {"9"}


def test_two_models_share_the_engine(toy_registry, tmp_path):
    made = run(toy_registry, tmp_path, "duel", "sleepy", opponent="batched")
    assert made.metrics["opponent"] == "batched"
    assert made.metrics["levels"] == {}


def test_unknown_opponent_lists_the_players(toy_registry, tmp_path):
    with pytest.raises(HarnessError, match="players oracle, random"):
        run(toy_registry, tmp_path, "duel", "sleepy", opponent="nobody")


def test_a_prompt_that_cannot_fit_is_an_error_before_the_run(toy_registry, tmp_path):
    with pytest.raises(HarnessError, match="prompt of copy-test-0 has 2 tokens"):
        run(toy_registry, tmp_path, decoding={"max_tokens": 39})
    assert not (tmp_path / "runs").exists()


def test_weighted_rewards_keep_their_parts(toy_registry, tmp_path):
    made = run(toy_registry, tmp_path, reward="exact=0.75,length=0.25", decoding={"max_tokens": 8})
    record = next(iter(made.records()))
    assert record.score.parts["exact"] == 1.0
    assert record.score.value == pytest.approx(0.75 + 0.25 * record.score.parts["length"])


@pytest.mark.parametrize("text", ["exact=0.5,length=0.4", "exact=x", "exact=0.5", "absent"])
def test_bad_rewards_are_refused(toy_registry, tmp_path, text):
    with pytest.raises(HarnessError):
        run(toy_registry, tmp_path, reward=text)


@pytest.mark.parametrize(
    "settings",
    [
        {"limit": -1},
        {"repeats": 0},
        {"n": 0},
        {"seeds": ()},
        {"seeds": (1, 1)},
        {"split": "absent"},
        {"decoding": {"temperature": -1.0}},
        {"decoding": {"top_p": 0.0}},
        {"decoding": {"max_tokens": 0}},
        {"options": {"sise": "3"}},
        {"options": {"size": "0"}},
        {"fewshot": -1},
    ],
)
def test_bad_settings_are_refused_before_anything_is_written(toy_registry, tmp_path, settings):
    with pytest.raises(HarnessError):
        run(toy_registry, tmp_path, **settings)
    assert not (tmp_path / "runs").exists()


def test_system_and_fewshot_shape_the_prompt(toy_registry):
    settings = RunSettings(("copy",), ("batched",), system="Be brief.", fewshot=2)
    planner = Planner(settings, toy_registry)
    job = planner.job("copy", "batched")
    sample = next(iter(job.samples()))
    shown = job.prepare(tuple(job.task.messages(sample)))
    assert [m.role for m in shown] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert (shown[0].content, shown[2].content) == ("Be brief.", "w0")
    planner.close()


def test_options_reach_one_task_by_its_name(toy_registry, tmp_path):
    made = run(
        toy_registry, tmp_path, ["copy", "duel"], "sleepy", options={"size": "4", "duel.size": "6"}
    )
    assert [r.metrics["records"] for r in made] == [4, 6]


def test_interrupting_leaves_a_run_that_resumes(toy_registry, tmp_path):
    from harness import api
    from harness.engine import Engine
    from harness.store import RunFolder

    settings = RunSettings(
        ("copy",), ("sleepy",), model_options={"delay": 0.2}, out=tmp_path / "cut", concurrency=4
    )
    planner = Planner(settings, toy_registry)
    job = planner.job("copy", "sleepy")
    folder = RunFolder.open(settings.out, job.spec, job.label, {"model_name": "sleepy"})

    async def cut_short():
        engine = Engine(job, folder, 30, 4)
        task = asyncio.create_task(engine.run())
        await asyncio.sleep(0.3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cut_short())
    finished = folder.journal.finished
    folder.close()
    assert 0 < finished < 30
    assert len(list(read_records(folder.path))) == finished
    (resumed,) = (r for _, r in api.evaluate(settings, toy_registry, quiet=True))
    whole = run(
        toy_registry, tmp_path, model="sleepy", model_options={"delay": 0.2}, concurrency=30
    )
    assert bytes_of(resumed) == bytes_of(whole)


def request(text, max_tokens=4):
    return Request((Message("user", text),), Decoding(max_tokens=max_tokens), 0)


def batched(toy_registry):
    return toy_registry.create("model", "batched", {})


def ask_all(model, texts):
    async def go():
        queue = ModelQueue(model)
        try:
            return await asyncio.gather(
                *(queue.ask(request(t)) for t in texts), return_exceptions=True
            )
        finally:
            queue.close()

    return asyncio.run(go())


def test_batches_are_bounded_and_hold_neighbours_in_length(toy_registry):
    model = batched(toy_registry)
    texts = [" ".join(["w"] * n) for n in (1, 20, 2, 21, 1, 22, 2, 20, 1)]
    replies = ask_all(model, texts)
    assert [r.text for r in replies] == texts
    for batch in model.batches:
        sizes = [len(t.split()) for t in batch]
        assert len(batch) <= model.batch_limit
        assert len(batch) == 1 or (max(sizes) + 4) * len(batch) <= model.batch_tokens
        assert max(sizes) - min(sizes) <= 2


def test_a_bad_row_fails_alone(toy_registry):
    model = batched(toy_registry)
    replies = ask_all(model, ["a", "poison", "b", "c", "d", "e"])
    assert isinstance(replies[1], RuntimeError)
    assert [r.text for r in replies if isinstance(r, Reply)] == ["a", "b", "c", "d", "e"]


def test_a_history_that_outgrew_the_context_is_truncated(toy_registry):
    (reply,) = ask_all(batched(toy_registry), [" ".join(["w"] * 38)])
    assert (reply.text, reply.finish_reason) == ("", "length")


def test_provider_errors_reach_whoever_asked(toy_registry):
    model = toy_registry.create("model", "flaky", {"faults": 9})
    replies = ask_all(model, ["w3", "w4"])
    assert isinstance(replies[0], ProviderError)
    assert replies[1].text == "w4"


def test_rewards_out_of_range_are_refused(toy_registry, tmp_path, monkeypatch):
    import toy_plugins

    real = toy_plugins.Exact.score
    monkeypatch.setattr(
        toy_plugins.Exact, "score", lambda s, a, o: replace(real(s, a, o), value=float("nan"))
    )
    with pytest.raises(HarnessError, match="must lie in"):
        run(toy_registry, tmp_path)


def test_a_failing_observer_is_reported_once_and_the_run_goes_on(toy_registry, tmp_path, capsys):
    import types

    from harness import hookimpl
    from harness.engine import Engine
    from harness.observers import Observers
    from harness.store import RunFolder

    seen = []

    @hookimpl
    def record_finished(run, record):
        seen.append(record.sample)
        raise ValueError("broken")

    watcher = types.SimpleNamespace(record_finished=record_finished)
    counted = []

    @hookimpl(specname="record_finished")
    def count(run, record):
        counted.append(record.sample)

    counter = types.SimpleNamespace(count=count)
    observers = Observers([("broken", watcher), ("counter", counter)])
    settings = RunSettings(("copy",), ("batched",), out=tmp_path, decoding={"max_tokens": 8})
    job = Planner(settings, toy_registry).job("copy", "batched")
    folder = RunFolder.open(tmp_path, job.spec, job.label, {"model_name": "batched"})
    asyncio.run(_engine(Engine, job, folder, observers))
    folder.close()
    assert (len(seen), len(counted)) == (1, 30)
    assert capsys.readouterr().err.count("observer 'broken' failed") == 1


async def _engine(engine, job, folder, observers):
    await engine(job, folder, 30, 8, observers).run()


def test_a_record_that_cannot_be_stored_does_not_take_the_run_down(support, tmp_path):
    """A parsed value that is no JSON is an engine error of its sample, and the others are kept."""
    registry = Registry.load(support / "faulty_registry.toml")
    made = harness.run(
        "faulty", "empty", registry, limit=3, options={"fault": "unstorable"}, out=tmp_path
    )
    assert not made.complete
    journal = (made.path / "journal.jsonl").read_text()
    assert journal.count("cannot be stored: Integer exceeds 64-bit range") == 3
