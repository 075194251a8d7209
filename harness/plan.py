"""From what a user asks for to jobs: one for each pair of task and model.

    settings = RunSettings(tasks=("gamesolve",), models=("smollm2",), limit=20)
    for job in Planner(settings).jobs("smollm2"): ...

A job holds everything that its records depend on, and its specification is the hash of just that:
task, options, data, model, players, decoding, seeds, split, versions; not limit or concurrency.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from . import __version__
from .asked import decoding_of, given_decoding, reward_terms
from .batching import ModelQueue
from .model import Model, share_devices
from .player import ModelPlayer, Player, PlayerFactory, Seat
from .registry import Entry, Registry, nearest
from .reward import Reward, WeightedReward
from .shots import Shots, asked, worked_examples
from .task import Task
from .types import Decoding, HarnessError, Json, Message, Sample
from .wrapper import Wrapper


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What ``harness run`` was asked for.

    ``groups`` keeps the samples whose group begins so (none: all); ``pilot`` takes so many whole
    clusters of each group (`harness.rejection.pilot`) instead of a prefix of the split;
    ``options``, ``model_options`` and ``reward_options`` are the ``--set`` families (``task.key``
    reaches one task only); ``opponent_options`` overlay ``model_options`` for the opponent;
    ``replicas`` copies of each model share its requests (0: it runs in this process);
    ``decoding`` holds the overrides of the task's default decoding; ``seeds`` drive decoding and
    episodes; a sample is rolled out ``repeats`` x ``n`` times for each seed, ``n`` of them as one
    group of completions.
    """

    tasks: tuple[str, ...]
    models: tuple[str, ...]
    split: str = "test"
    limit: int | None = None
    groups: tuple[str, ...] = ()
    pilot: int = 0
    seeds: tuple[int, ...] = (0,)
    repeats: int = 1
    n: int = 1
    options: Mapping[str, Json] = field(default_factory=dict)
    model_options: Mapping[str, Json] = field(default_factory=dict)
    opponent_options: Mapping[str, Json] = field(default_factory=dict)
    reward_options: Mapping[str, Json] = field(default_factory=dict)
    reward: str = ""
    opponent: str = ""
    system: str | None = None
    fewshot: int = 0
    decoding: Mapping[str, Json] = field(default_factory=dict)
    template_kwargs: Mapping[str, Json] = field(default_factory=dict)
    out: Path = Path("runs")
    resume: Path | None = None
    concurrency: int | None = None
    retries: int = 5
    replicas: int = 0
    observers: tuple[str, ...] = ()

    def stored(self) -> dict[str, Json]:
        """The settings that a manifest keeps, so that ``--resume RUN`` needs nothing else."""
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        for name in ("tasks", "models", "out", "resume", "concurrency", "retries", "observers",
                     "replicas"):  # fmt: skip
            del kept[name]
        return kept

    @classmethod
    def resumed(cls, path: Path, manifest: Mapping[str, Json], **changes: Any) -> RunSettings:
        """The settings of a stored run, to go on with it. ``changes``: limit, concurrency. Raises
        HarnessError for a manifest that lacks some of them."""
        try:
            stored = dict(manifest["settings"])
            stored["seeds"] = tuple(stored["seeds"])
            stored["groups"] = tuple(stored.get("groups", ()))
            if "stop" in stored["decoding"]:
                stored["decoding"]["stop"] = tuple(stored["decoding"]["stop"])
            task, model = manifest["spec"]["task"]["name"], manifest["model_name"]
            stored |= {name: value for name, value in changes.items() if value is not None}
            return cls((task,), (model,), resume=path, out=path.parent, **stored)
        except (KeyError, TypeError) as error:  # TypeError: a setting that nobody knows
            raise HarnessError(
                f"{path}/manifest.json: cannot be resumed: {type(error).__name__} {error}"
            ) from None

    def check(self) -> None:
        """Raise HarnessError for values that make no sense."""
        for name, low in (("limit", 1), ("repeats", 1), ("n", 1), ("concurrency", 1)):
            value = getattr(self, name)
            if value is not None and value < low:
                raise HarnessError(f"--{name} {value}: must be at least {low}")
        if min(self.fewshot, self.retries, self.pilot, self.replicas) < 0:
            raise HarnessError("--fewshot, --retries, --pilot, --replicas: cannot be negative")
        if not self.seeds or len(set(self.seeds)) != len(self.seeds):
            raise HarnessError("--seeds: give at least one seed, each once")
        if not self.tasks or not self.models:
            raise HarnessError("give at least one --task and one --model")
        if self.resume is not None and (len(self.tasks) > 1 or len(self.models) > 1):
            raise HarnessError("--resume goes with one task and one model")


@dataclass(frozen=True, slots=True)
class Item:
    """One rollout to make."""

    index: int
    sample: Sample
    seed: int
    repeat: int


@dataclass(frozen=True, slots=True)
class Contender:
    """Who sits in a seat: a model with its queue, or a reference player of the task. ``inner`` is
    whom a wrapper asks; the queue is that one's."""

    name: str
    identity: str
    model: Model | None = None
    queue: ModelQueue | None = None
    factory: PlayerFactory | None = None
    inner: Contender | None = None

    def player(self, seat: Seat, decoding: Decoding, prepare: Any) -> Player:
        """The player for one seat of one rollout."""
        if self.factory is not None:
            return self.factory(seat)
        assert self.model is not None
        assert self.queue is not None
        if isinstance(self.model, Wrapper) and (inner := self.inner) is not None:
            return self.model.wrap(lambda place: inner.player(place, decoding, prepare), seat)
        own = self.model.player(seat)
        if own is not None:
            return own
        return ModelPlayer(self.queue.ask, decoding, seat.seed, prepare)


@dataclass(frozen=True, slots=True)
class Job:
    """One pair of task and model, ready to run."""

    settings: RunSettings
    task: Task
    contender: Contender
    opponent: Contender | None
    reward: Reward
    decoding: Decoding
    shots: Shots
    spec: Mapping[str, Json]

    @property
    def label(self) -> str:
        """The run folder's readable name."""
        against = f"--vs-{self.opponent.name}" if self.opponent is not None else ""
        return f"{self.task.name}--{self.contender.name}{against}"

    @property
    def rollouts(self) -> int:
        """Rollouts of one sample."""
        return len(self.settings.seeds) * self.settings.repeats * self.settings.n

    def samples(self) -> Iterator[Sample]:
        """The samples that are asked (`harness.shots.asked`)."""
        s = self.settings
        return asked(self.task, s.split, s.groups, s.pilot, s.limit, self.shots)

    def items(self) -> Iterator[Item]:
        """All rollouts in order: samples, then seeds, then repeats."""
        index = 0
        for sample in self.samples():
            for seed in self.settings.seeds:
                for repeat in range(self.settings.repeats * self.settings.n):
                    yield Item(index, sample, seed, repeat)
                    index += 1

    def players(
        self, sample: Sample, seed: int, run_seed: int = 0, repeat: int = 0
    ) -> list[Player]:
        """A player for each seat. ``seed`` is the rollout's, made of the other two."""
        made = []
        for seat, who in enumerate(self.task.lineup(sample)):
            contender = self.contender if who == "model" else self.opponent
            if contender is None:
                raise HarnessError(f"{self.task.name}: seat {seat} needs an opponent")
            place = Seat(self.task, sample, seat, seed, run_seed, repeat)
            made.append(contender.player(place, self.decoding, self.prepare))
        return made

    def prepare(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """The messages with the user's system message and the worked examples."""
        system = self.settings.system
        if system is None and not self.shots.messages:
            return messages
        leading = [m for m in messages[:1] if m.role == "system"]
        rest = messages[len(leading) :]
        if system is not None:
            leading = [Message("system", system)] if system else []
        return (*leading, *self.shots.messages, *rest)


class Planner:
    """Makes jobs; each model and opponent is loaded once and shared by the jobs that name it, and
    by planners that share ``loaded``."""

    def __init__(
        self,
        settings: RunSettings,
        registry: Registry,
        loaded: dict[str, Contender] | None = None,
    ) -> None:
        settings.check()
        self.settings = settings
        self.registry = registry
        self._models: dict[str, Contender] = {} if loaded is None else loaded

    def check(self) -> None:
        """Raise HarnessError for names and options that do not exist, before anything is loaded."""
        entries = [self.registry.entry("task", name) for name in self.settings.tasks]
        for key in self.settings.options:
            task, dot, _ = key.partition(".")
            if dot and task in self.settings.tasks:
                continue
            if not any(key in entry.options for entry in entries):
                known = [option for entry in entries for option in entry.options]
                tasks = ", ".join(self.settings.tasks)
                raise HarnessError(f"--set {key}: no option of {tasks}{nearest(key, known)}")
        for _, name in reward_terms(self.settings.reward):
            self.registry.entry("reward", name)
        for name in self.settings.models:
            self.registry.parts(name)

    def job(self, task_name: str, model_name: str) -> Job:
        """The job of one pair. Raises HarnessError for what cannot work."""
        entry = self.registry.entry("task", task_name)
        task = self.registry.create("task", task_name, self._options(task_name, entry.options))
        if self.settings.split not in (*task.splits, "all"):
            raise HarnessError(
                f"{task_name} has no split {self.settings.split!r}; it has "
                f"{', '.join((*task.splits, 'all'))}"
            )
        reward = self.reward(task)
        contender = self.contender(model_name)
        opponent = self._opponent(task)
        share_devices(c.model for c in (contender, opponent) if c is not None and c.model)
        told = self.settings.system, self.settings.fewshot
        given = contender.model.given if contender.model is not None else None
        default = task.decoding if given is None else given_decoding(model_name, given, *told)
        decoding = decoding_of(default, self.settings.decoding)
        if given is not None and decoding != default:
            raise HarnessError(f"{model_name}: its replies were made with {default}; leave that")
        shots = worked_examples(task, self.settings.fewshot, self.settings.groups)
        spec = self._spec(task, contender, opponent, reward, decoding)
        if shots.clusters and self.settings.split in ("train", "all"):
            spec["shown"] = sorted(shots.clusters)
        return Job(self.settings, task, contender, opponent, reward, decoding, shots, spec)

    def reward(self, task: Task) -> Reward:
        """The reward that the user or the task names, or the weighted sum ``a=0.8,b=0.2``."""
        terms = reward_terms(self.settings.reward or task.reward)
        if not terms:
            raise HarnessError(f"{task.name} names no reward; give --reward NAME")
        if self.settings.reward or len(self.settings.tasks) == 1:
            known = [o for _, n in terms for o in self.registry.entry("reward", n).options]
            if unknown := [key for key in self.settings.reward_options if key not in known]:
                names = ", ".join(name for _, name in terms)
                close = nearest(unknown[0], known)
                raise HarnessError(f"--reward-set {unknown[0]}: no option of {names}{close}")
        made = [
            (weight, self.registry.create("reward", name, self._reward_options(name)))
            for weight, name in terms
        ]
        return made[0][1] if len(made) == 1 else WeightedReward(made)

    def contender(self, name: str, own: Mapping[str, Json] | None = None) -> Contender:
        """A model by its ``--model`` value, loaded on first use; one with options of its ``own``
        (an opponent) is loaded apart."""
        place = f"{name} {sorted(own.items())}" if own else name
        if place not in self._models:
            entry, argument = self.registry.for_model(name)
            if own:
                self.registry.options(entry, own)
            given = {**self.settings.model_options, **(own or {})}
            if self.settings.template_kwargs:
                given["chat_template_kwargs"] = dict(self.settings.template_kwargs)
            options = {k: v for k, v in given.items() if k in entry.options}
            if len(options) < len(given) and not self._taken_elsewhere(given, options):
                self.registry.options(entry, given)
            model = self._made(entry, options, argument)
            self._models[place] = self._seated(name, model, own)
        return self._models[place]

    def _seated(self, name: str, model: Model, own: Mapping[str, Json] | None) -> Contender:
        """The contender of a model; a wrapper gets the model that it asks."""
        if not isinstance(model, Wrapper):
            return Contender(name, model.identity, model, ModelQueue(model))
        inner = self.contender(model.around, own)
        assert inner.model is not None
        model.bind(inner.model, self.registry)
        return Contender(name, model.identity, model, inner.queue, inner=inner)

    def _made(self, entry: Entry, options: Mapping[str, Json], argument: str) -> Model:
        if not self.settings.replicas or "model" in entry.handles:
            model: Model = self.registry.create("model", entry.name, options, argument)
            return model
        from .distributed.replicas import replicated

        opponent = self.settings.opponent
        seats = 2 if opponent and opponent not in self._models and self._is_model(opponent) else 1
        return replicated(self.registry, entry, argument, options, self.settings.replicas, seats)

    def release(self, name: str, keep: Iterable[str] = ()) -> None:
        """Close a model that no further job needs; those that models of ``keep`` ask stay."""
        kept = {part for spec in keep for part, _ in self.registry.parts(spec)}
        contender = None if name in kept else self._models.pop(name, None)
        if contender is not None and contender.inner is not None:
            self.release(contender.inner.name, keep)
        elif contender is not None and contender.queue is not None and contender.model is not None:
            contender.queue.close()
            contender.model.close()

    def close(self) -> None:
        """Close all models."""
        for name in list(self._models):
            self.release(name)

    def _taken_elsewhere(self, given: Mapping[str, Json], options: Mapping[str, Json]) -> bool:
        """Whether other models of this run declare the options that this one does not."""
        missing = set(given) - set(options)
        names = [*self.settings.models]
        if self.settings.opponent and self._is_model(self.settings.opponent):
            names.append(self.settings.opponent)
        others = [entry for m in names for _, entry in self.registry.parts(m)]
        return missing <= {option for entry in others for option in entry.options}

    def _is_model(self, name: str) -> bool:
        try:
            self.registry.for_model(name)
        except HarnessError:
            return False
        return True

    def _options(self, task_name: str, declared: Mapping[str, Any]) -> dict[str, Json]:
        chosen: dict[str, Json] = {}
        for key, value in self.settings.options.items():
            task, dot, option = key.partition(".")
            if dot and task == task_name:
                chosen[option] = value
            elif key in declared:
                chosen.setdefault(key, value)
        return chosen

    def _reward_options(self, name: str) -> dict[str, Json]:
        declared = self.registry.entry("reward", name).options
        return {k: v for k, v in self.settings.reward_options.items() if k in declared}

    def _opponent(self, task: Task) -> Contender | None:
        if task.seats < 2:
            return None
        name = self.settings.opponent or task.default_opponent
        factory = task.players().get(name)
        if factory is not None:
            if self.settings.opponent_options:
                raise HarnessError(f"--opponent-set: the player {name} has no options")
            return Contender(name, f"player:{name}", factory=factory)
        try:
            return self.contender(name, self.settings.opponent_options)
        except HarnessError as error:
            names = ", ".join(sorted(task.players()))
            raise HarnessError(
                f"--opponent: {error}; {task.name} has the players {names}"
            ) from None

    def _spec(
        self,
        task: Task,
        contender: Contender,
        opponent: Contender | None,
        reward: Reward,
        decoding: Decoding,
    ) -> dict[str, Json]:
        s, own = self.settings, _jsonable(self.settings.opponent_options, opponent)
        method = contender.model if isinstance(contender.model, Wrapper) else None
        return {
            "harness": __version__,
            "task": {
                "name": task.name,
                "version": task.version,
                "options": task.options,
                "data": task.data_identity(),
            },
            "split": s.split,
            "model": contender.identity,
            "opponent": None if opponent is None else opponent.identity,
            "reward": _describe_reward(reward),
            "decoding": {f.name: getattr(decoding, f.name) for f in fields(decoding)},
            "system": s.system,
            "fewshot": s.fewshot,
            "chat_template_kwargs": dict(s.template_kwargs),
            "model_options": _jsonable(s.model_options, contender, opponent),
            "seeds": list(s.seeds),
            "repeats": s.repeats,
            "n": s.n,
            **({"opponent_options": own} if own else {}),
            **({"test_time": method.specification(task)} if method else {}),
            **({"pilot": s.pilot} if s.pilot else {}),
            **({"groups": list(s.groups)} if s.groups else {}),
        }


def _describe_reward(reward: Reward) -> Json:
    if isinstance(reward, WeightedReward):
        return [{"weight": w, **_describe_reward(r)} for w, r in reward.members]
    return {"name": reward.name, "version": reward.version, "options": reward.specification()}


def _jsonable(options: Mapping[str, Json], *contenders: Contender | None) -> dict[str, Json]:
    """The options that records depend on: those that some model in a seat does not call
    incidental."""
    models = [c.model for c in contenders if c is not None and c.model is not None]
    kept = (key for key in options if not all(key in model.incidental for model in models))
    return {key: options[key] for key in sorted(kept)}
