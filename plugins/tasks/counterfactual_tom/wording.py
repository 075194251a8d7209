"""How events are told: wordings for each kind, other ones in training than in validation and test.

A wording names its groups by role and is the same for one person and for many. Each place occurs
once in a story, where it first matters, and each telling names everybody, so that neither places
nor names say more than who saw what.

>>> tell("hidden", "train", 0, {"out": ("Ana", "Bo")}, obj="stamp", to="tin_box")
'The stamp was moved to the tin_box, unseen by Ana and Bo.'
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Wordings = Mapping[str, tuple[str, ...]]

_TRAIN: Final[Wordings] = {
    "initial": (
        "Together, {all} saw the {obj} put into the {to}, each aware of all the others.",
        "The {obj} was placed in the {to} before {all}, who all saw one another watching.",
        "With {all} gathered around and in plain view of each other, the {obj} went into the {to}.",
    ),
    "joint": (
        "The {obj} was moved to the {to} in front of {in}, all in view of one another, while {out} "
        "knew nothing of it.",
        "Without any notice to {out}, the {obj} went to the {to} under the shared gaze of {in}.",
        "A screen watched in company by {in} showed the {obj} going to the {to}; no word of it "
        "reached {out}.",
    ),
    "room": (
        "The {room} was entered by {inside}, not by {out}, and for a moment by {left}, with whom "
        "it had filled and who had gone when the {obj} was moved there to the {to}, in sight of "
        "all still inside; then the {room} emptied.",
        "Far from {out}, the group of {inside} met in the {room}, where the {obj} was put openly "
        "into the {to} after the early departure of {left}, until then of the party; later the "
        "meeting broke up.",
        "Into the {room} came {inside}, with {left}, who went out again first, whereas {out} "
        "stayed away; the {obj} was shifted to the {to} for all remaining in the {room} to see, "
        "and all left.",
    ),
    "overseen": (
        "The {obj} was moved to the {to} before the eyes of {low}, each aware of all there; "
        "secretly, in one another's company, {high} followed this through a one-way mirror.",
        "A hidden camera let {high}, side by side, observe unnoticed how {low} jointly saw the "
        "{obj} go to the {to}.",
        "The move of the {obj} to the {to} was watched in common by {low}, who never learned that "
        "{high} stood together behind a curtain and saw both move and watchers.",
    ),
    "overseen_twice": (
        "The {obj} was moved to the {to} before {low}, in common view; {mid} jointly watched that "
        "unnoticed from a balcony, and {high} jointly and unnoticed watched it all, balcony "
        "included.",
        "By a secret feed {high} saw in company how {mid} spied together, undetected, on {low}, "
        "before whom the {obj} openly went to the {to}.",
        "As {low} jointly saw the {obj} go to the {to}, {mid} peeped in as one from a closet, "
        "unknown to them, and {high} saw all of this together, unknown to everyone else.",
    ),
    "announced": (
        "On a private feed {low} saw the {obj} go to the {to}, believing nobody else knew; what "
        "the feed showed, and to whom, was announced to {high} as a group.",
        "It was announced to the group of {high}, and kept from its viewer, that a private feed "
        "had just shown {low} the {obj} moving to the {to}.",
        "The {obj} was moved to the {to} on a feed for {low} in seeming secrecy, yet the group of "
        "{high} was briefed on exactly that.",
    ),
    "assumed": (
        "The {obj} was moved to the {to}, seen in common by {saw}, who all took it that the video "
        "link carried this to {presumed} as well; the link was dead, and nothing of it got "
        "through.",
        "Because the link had failed, {presumed} saw nothing of the move of the {obj} to the {to}, "
        "which {saw} jointly watched in the shared belief that everyone on the link was watching.",
        "Seen together by {saw}, the {obj} went to the {to}; the shared belief there was that the "
        "conference also reached {presumed}, whose line had in truth gone silent.",
    ),
    "decoy": (
        "The {obj} went to the {to} as {know} knew in common, also knowing that {fooled} were "
        "shown a forged feed of a move to the {shown} and took it for what everyone on the feed "
        "saw; {out} got neither.",
        "A forged feed made {fooled} believe that all viewers saw the {obj} go to the {shown}; its "
        "other viewers, {know}, knew in common of the forgery and of the real move to the {to}, "
        "and {out} heard of nothing.",
        "Kept from {out}: the {obj} was moved to the {to} with the joint knowledge of {know}, who "
        "also knew that a fake broadcast had {fooled} believe that all those viewers had seen it "
        "go to the {shown}.",
    ),
    "claim": (
        "Before {heard}, and out of earshot of {out}, {speaker} claimed aloud that the {obj} had "
        "been moved to the {shown}; all listeners took it to be true and sincere, while the "
        "speaker, aware of that, believed none of it.",
        "Out of hearing of {out}, {speaker} told the gathering of {heard} that the {obj} now lay "
        "in the {shown}, which convinced all who heard, and of which the teller, knowing that, had "
        "made up every word.",
        "Away from {out}, the {obj} was said to be in the {shown}: so {speaker} declared before "
        "{heard}, convincing all of them of the fact and of the honesty, and inventing it freely.",
    ),
    "tell": (
        "In private, unheard by {out}, {speaker} made {heard} believe that the {obj} was now in "
        "the {shown}, and knew that this was invented.",
        "Unknown to {out}, {heard} got from {speaker} the convincing lie that the {obj} had gone "
        "to the {shown}.",
        "A whisper that escaped {out}: {speaker} convinced {heard}, falsely, that the {obj} lay in "
        "the {shown}.",
    ),
    "private": (
        "The {obj} was moved to the {to}, which {one} saw on an isolated screen, unknown to {out}.",
        "Unknown to {out}, the move of the {obj} to the {to} was seen by {one} and nobody else.",
        "A single viewer, {one}, saw the {obj} go to the {to}, and {out} had no idea of that.",
    ),
    "hidden": (
        "The {obj} was moved to the {to}, unseen by {out}.",
        "With {out} all elsewhere and uninformed, the {obj} went to the {to}.",
        "Neither shown nor told to {out}, the {obj} was taken to the {to}.",
    ),
}
_VALIDATION: Final[Wordings] = {
    "initial": ("All of {all} looked on in mutual sight when the {obj} was set into the {to}.",),
    "joint": ("In one circle {in} witnessed the {obj} being taken to the {to}; {out} missed it.",),
    "room": (
        "To the {room} went {inside}, but not {out}, and also {left}, who departed before the "
        "{obj} was carried to the {to} there in open sight; after that everybody went home.",
    ),
    "overseen": (
        "As one audience {low} witnessed the {obj} being taken to the {to}; from a loft {high}, "
        "jointly and undetected, witnessed this audience and the move.",
    ),
    "overseen_twice": (
        "As one audience {low} witnessed the {obj} being taken to the {to}; undetected in a loft, "
        "{mid} jointly witnessed this, and, undetected on the roof, {high} jointly witnessed loft "
        "and audience alike.",
    ),
    "announced": (
        "A sealed message showed {low} the {obj} at its new place, the {to}, and seemed to be for "
        "no other eyes; a bulletin told {high} in common of the message, recipient and content.",
    ),
    "assumed": (
        "Taking it for certain that {presumed} followed by radio, {saw} witnessed in one circle "
        "how the {obj} was taken to the {to}; the radio had been off all along.",
    ),
    "decoy": (
        "A staged show convinced {fooled} that everybody at the show had seen the {obj} go to the "
        "{shown}; also there, but in on it, {know} shared the knowledge of this and of the true "
        "transfer to the {to}; {out} missed everything.",
    ),
    "claim": (
        "At a meeting of {speaker} and {heard}, without {out}, the first lied openly that the "
        "{obj} was in the {shown}; nobody else there doubted the fact or the sincerity.",
    ),
    "tell": (
        "On the phone, with {out} unaware, {speaker} lied to {heard} that the {obj} was in the "
        "{shown}, and was believed.",
    ),
    "private": ("Only {one} got to see the {obj} taken to the {to}; {out} never heard of it.",),
    "hidden": ("No one, so not {out}, noticed how the {obj} was taken to the {to}.",),
}
_TEST: Final[Wordings] = {
    "initial": ("Standing in a ring, {all} observed how the {obj} came to lie in the {to}.",),
    "joint": (
        "While {out} slept, the {obj} was transferred to the {to}, observed by the ring of {in}.",
    ),
    "room": (
        "In the {room} assembled {inside}, without {out}, though with {left}, who walked out "
        "before the {obj} was transferred to the {to} within view of whoever remained; the door "
        "was shut behind the last to go.",
    ),
    "overseen": (
        "Through keyholes {high}, sharing the secret, observed a ring of {low} that observed the "
        "{obj} being transferred to the {to} and suspected nothing.",
    ),
    "overseen_twice": (
        "A ring of {low}, suspecting nothing, observed the {obj} being transferred to the {to}; "
        "{mid}, sharing that secret and suspecting nothing further, observed them by periscope; "
        "and {high}, sharing the larger secret, observed ring and periscope.",
    ),
    "announced": (
        "The guards {high} were all informed at roll call that a peephole had shown {low} the "
        "transfer of the {obj} to the {to}; as far as the one at the peephole could tell, this was "
        "known to no one else.",
    ),
    "assumed": (
        "A ring of {saw} observed the {obj} being transferred to the {to}, all of them sure that "
        "{presumed} observed it with them by telescope, when in fact the telescope had been "
        "capped.",
    ),
    "decoy": (
        "With {out} asleep, a puppet play made {fooled} sure that all present had observed a "
        "transfer of the {obj} to the {shown}, whereas the rest of those present, {know}, in on "
        "this together, knew that it had been transferred to the {to}.",
    ),
    "claim": (
        "While {out} slept, {speaker} swore falsely to the assembled {heard} that the {obj} was "
        "lying in the {shown}, and, as the liar could see, was trusted by them all.",
    ),
    "tell": (
        "While {out} slept, a false oath of {speaker} persuaded {heard} that the {obj} was lying "
        "in the {shown}.",
    ),
    "private": ("While {out} slept, {one} observed how the {obj} was transferred to the {to}.",),
    "hidden": ("While {out} slept, the {obj} was transferred to the {to}.",),
}
WORDINGS: Final = {"train": _TRAIN, "validation": _VALIDATION, "test": _TEST, "ood": _TEST}
"""Wordings by split."""

FILLERS: Final = {
    "train": (
        "{name} pushed a {prop} against the wall.",
        "Rain began to fall outside.",
        "{name} and {other} chatted about a film.",
        "{name} looked for a pencil.",
        "A train could be heard in the distance.",
    ),
    "validation": (
        "{name} dusted off a {prop}.",
        "The lights flickered.",
        "{name} hummed an old song to {other}.",
    ),
    "test": (
        "{name} tripped over a {prop}.",
        "A pigeon landed on the sill.",
        "{name} asked {other} for the time.",
    ),
}
"""Lines that tell nothing."""


def people(names: tuple[str, ...]) -> str:
    """Names in English.

    >>> people(("Ana",)), people(("Ana", "Bo", "Cy"))
    ('Ana', 'Ana, Bo and Cy')
    """
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def tell(
    kind: str, split: str, number: int, groups: Mapping[str, tuple[str, ...]], **words: str
) -> str:
    """One event in English: the ``number``-th wording of its kind in a split."""
    text = WORDINGS[split][kind][number]
    return text.format(**{role: people(names) for role, names in groups.items()}, **words)


def role_order(kind: str, split: str, number: int) -> tuple[str, ...]:
    """The roles of places (``to``, ``shown``) in the order in which a wording names them."""
    text = WORDINGS[split][kind][number]
    found = [(text.index(f"{{{role}}}"), role) for role in ("to", "shown") if f"{{{role}}}" in text]
    return tuple(role for _, role in sorted(found))
