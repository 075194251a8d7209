"""Pairs of the preset ``reference`` as rows of the published compact schema.

    rows = [record(sample, number) for number, sample in enumerate(samples)]

So our own stories can be read by tools made for that schema, and by `published.read_rows`. Ids and
version fields are ours; everything else has the published meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import Final

from harness.types import Json, Sample

from ..tom.oracle import Beliefs
from ..tom.question import options
from ..tom.world import Event
from .english import read_story, sentences
from .prompts import lead, prompt

DATASET: Final = "counterfactual-tom-reference"
SUFFIXES: Final = (3, 5)
"""Moves from the end that the two suffix shortcuts look at."""


def record(sample: Sample) -> dict[str, Json]:
    """One sample of the preset ``reference`` as a row."""
    data, truth = sample.data, sample.truth
    chain, thing = tuple(data["chain"]), data["object"]
    events = [Event.of(event) for event in data["events"]]
    beliefs = Beliefs(events)
    trace = beliefs.trace(thing, chain)
    lines = [move.line for move in read_story(data["story"], thing)]
    told, critical = len(sentences(data["story"])), data["critical"]
    steps: Json = [
        {"belief_chain": list(chain[len(chain) - k :]), "location": step.place}
        for k, step in enumerate(trace, start=1)
    ]
    shortcuts = _shortcuts(events, beliefs, thing, chain)
    inner = shortcuts["inner_actual_belief"]
    return {
        "dataset": DATASET,
        "source_dataset": DATASET,
        "split": sample.split,
        "sample_id": sample.id,
        "pair_id": sample.cluster,
        "source_group_id": sample.cluster,
        "question_order": len(chain),
        "belief_chain": list(chain),
        "object": thing,
        "intervention_type": data["side"],
        "critical_event_id": f"e{critical + 1}",
        "critical_event_observers": list(events[critical].groups[0]),
        "answer_event_id": f"e{trace[-1].event + 1}",
        "story": data["story"],
        "question": data["question"],
        "choices": options(data["choices"]),
        "answer": truth["answer"],
        "answer_letter": ascii_uppercase[data["choices"].index(truth["answer"])],
        "process_target": {
            "tom_order": len(chain),
            "belief_chain": list(chain),
            "object": thing,
            "reasoning_mode": "nested_belief",
            "belief_trace": steps,
            "answer": truth["answer"],
        },
        "process_prompt": prompt(data, "compact"),
        "latent_events": _latent(events),
        "latent_state": {
            "world_state": beliefs.place(thing),
            "belief_trace": steps,
            "outer_belief": beliefs.place(thing, chain[:1]),
            "inner_belief": beliefs.place(thing, chain[-1:]),
        },
        "shortcut_predictions": shortcuts,
        "shortcut_name": "inner_actual_belief",
        "shortcut_prediction": inner,
        "shortcut_conflict": inner != truth["answer"],
        "last_mentioned_container": events[-1].to,
        "last_mention_conflict": events[-1].to != truth["answer"],
        **{f"suffix_{k}_prediction": _suffix(events, thing, chain, k) for k in SUFFIXES},
        "target_move_count": len(events),
        "critical_target_move_index": critical + 1,
        "target_moves_after_critical": len(events) - critical - 1,
        "continuation_event_count": told - lines[critical],
        "critical_event_index": lines[critical],
        "story_event_count": told,
        "events_after_critical": told - lines[critical],
        "neutral_event_count": told - len(events),
        **{f"story_index_e{k}": line for k, line in enumerate(lines, start=1)},
        "critical_relative_position": round(lines[critical] / told, 6),
        "judge_prompt": lead(data),
    }


def _latent(events: Sequence[Event]) -> list[Json]:
    found: list[Json] = []
    origin: str | None = None
    for number, event in enumerate(events, start=1):
        found.append(
            {
                "event_id": f"e{number}",
                "object": event.object,
                "from_location": origin,
                "to_location": event.to,
                "visibility": event.kind,
                "observers": list(event.groups[0]) if event.groups else [],
            }
        )
        origin = event.to
    return found


def _shortcuts(
    events: Sequence[Event], beliefs: Beliefs, thing: str, chain: Sequence[str]
) -> dict[str, str | None]:
    joint = [event.to for event in events if event.kind == "joint"]
    return {
        "world_state": beliefs.place(thing),
        "initial_location": events[0].to,
        "last_move": events[-1].to,
        "previous_move": events[-2].to,
        "outer_last_seen": beliefs.place(thing, chain[:1]),
        "inner_actual_belief": beliefs.place(thing, chain[-1:]),
        "last_joint_move": joint[-1],
    }


def _suffix(events: Sequence[Event], thing: str, chain: Sequence[str], count: int) -> str | None:
    """The belief that the last few moves alone would give."""
    return Beliefs(events[-count:]).place(thing, chain)
