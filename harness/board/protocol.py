"""The protocol of a run: data, prompt, template, decoding, reward. Only equal ones are ranked.

    reference = majority([protocol(run) for run in runs])
    differences(protocol(run), reference)      # ("decoding",)

An empty part is unknown (an incomplete run has no data hash to compare, a reference player no
template) and differs from nothing. Chat templates are compared among checkpoints of one family
only (same architecture and number of parameters): other families cannot share one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from .places import StoredRun


class Protocol(NamedTuple):
    """What must be equal; each part is a text, "" where it is not known."""

    data: str
    prompt: str
    template: str
    decoding: str
    reward: str
    family: str = ""


PARTS = Protocol._fields[:-1]
NOTHING = hashlib.sha256().hexdigest()[:16]
"""The hash of no prompt at all: scripted players of games are asked without words."""


def protocol(run: StoredRun) -> Protocol:
    """The protocol of a run. Reads records only where a sample has several."""
    spec, model = run.spec, run.manifest.get("model") or {}
    data, prompts = _hashes(run)
    family = _json([model.get("architecture"), model.get("parameters")]) if model else ""
    template = model.get("template_hash") or ""
    if template or spec["chat_template_kwargs"]:
        template = _json([template, spec["chat_template_kwargs"]])
    asked = _json([spec["system"], spec["fewshot"]])
    return Protocol(
        data,
        f"{prompts} {asked}" if prompts else "",
        template,
        _json(spec["decoding"]),
        _json(spec["reward"]),
        family,
    )


def majority(protocols: Sequence[Protocol]) -> Protocol:
    """The most common value of each part, the first of equally common ones; not of the template."""
    parts = []
    for part in PARTS:
        counts = Counter(p for protocol in protocols if (p := getattr(protocol, part)))
        parts.append(counts.most_common(1)[0][0] if counts and part != "template" else "")
    return Protocol(*parts)


def differences(one: Protocol, reference: Protocol, peers: Sequence[Protocol]) -> tuple[str, ...]:
    """The parts in which a run differs from the reference; the template from its family's."""
    kin = [p for p in peers if p.family == one.family and p.template]
    usual = Counter(p.template for p in kin).most_common(1)[0][0] if kin else ""
    wanted = reference._replace(template=usual)
    pairs = ((part, getattr(one, part), getattr(wanted, part)) for part in PARTS)
    return tuple(part for part, a, b in pairs if a and b and a != b)


def _hashes(run: StoredRun) -> tuple[str, str]:
    """Data and prompt hash with each sample once; empty for an incomplete run."""
    if not run.complete or run.metrics is None:
        return "", ""
    if run.tries == 1 or not run.finished:
        hashes = run.metrics["hashes"]
        return str(hashes["data"]), _known(str(hashes["prompts"]))
    data, prompts = hashlib.sha256(), hashlib.sha256()
    before = None
    columns = ["sample", "canonical", "moves.list.element.messages"]
    for batch in run.batches(columns):
        rows = zip(*(batch.column(i).to_pylist() for i in range(3)), strict=True)
        for sample, canonical, moves in rows:
            if sample == before:
                continue
            before = sample
            data.update(f"{sample}\0{canonical}\0".encode())
            for message in moves[0]["messages"] if moves else ():
                prompts.update(f"{message['role']}\0{message['content']}\0".encode())
    return data.hexdigest()[:16], _known(prompts.hexdigest()[:16])


def _known(prompts: str) -> str:
    return "" if prompts == NOTHING else prompts


def _json(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
