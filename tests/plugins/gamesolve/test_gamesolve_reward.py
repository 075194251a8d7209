"""The reward agrees with the definitions, checked in fractions and by linear programming, and can't
be gamed by constants, by padding or by order."""

import asyncio
import random
from collections import defaultdict
from fractions import Fraction
from itertools import combinations, pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from harness.types import HarnessError, Move, Outcome, Reply, Sample
from harness_plugins.rewards.gamesolve import GameSolveReward, create_reward, judge
from harness_plugins.tasks.gamesolve.answers import correct
from harness_plugins.tasks.gamesolve.items import draw_item
from harness_plugins.tasks.gamesolve.players import CONSTANTS, actions
from harness_plugins.tasks.gamesolve.presets import plan
from harness_plugins.tasks.gamesolve.profiles import Arena, Numeral, Subset, has_pure, weights

SAMPLES = [
    draw_item(item, data_seed=4)
    for preset in ("gamesolve", "gamesolve-ood", "gamesolve-skills")
    for item in plan(preset)[::9]
]
EQUILIBRIA = [s for s in SAMPLES if s.data["kind"] == "nash"]
RESPONSES = [s for s in SAMPLES if s.data["kind"] == "best_response"]

DOMINANT = {"kind": "nash", "row": [[2, 4], [1, 3]], "col": [[2, 1], [4, 3]]}
PENNIES = {"kind": "nash", "row": [[1, -1], [-1, 1]], "col": [[-1, 1], [1, -1]]}
SEXES = {"kind": "nash", "row": [[2, 0], [0, 1]], "col": [[1, 0], [0, 2]]}
HALF = ["1/2", "1/2"]


def made(data):
    """A sample with its truth from the exact solver."""
    from harness_plugins.tasks.gamesolve.truth import truth

    return data, truth(data)


def nash(data, pure=(), mixed=(), **more):
    claims = [{"row": list(row), "col": list(col)} for row, col in mixed]
    return judge(*made(data), {"pure": [list(p) for p in pure], "mixed": claims, **more})


def test_by_hand():
    assert nash(DOMINANT, [(0, 0)]).value == 1.0
    assert nash(DOMINANT, [(0, 0), (1, 1)]).value == 0.5
    assert nash(DOMINANT, [(1, 1)]).value == 0.0
    assert nash(PENNIES, mixed=[(HALF, HALF)]).value == 1.0
    assert nash(PENNIES, [(0, 0)], [(HALF, HALF)]).value == 0.5
    assert nash(PENNIES).value == 0.0
    assert nash(SEXES, [(0, 0)]).value == pytest.approx(1 / 3)
    assert nash(SEXES, [(0, 0), (1, 1)]).value == pytest.approx(2 / 3)
    assert nash(SEXES, [(0, 0), (1, 1)], [(("2/3", "1/3"), ("1/3", "2/3"))]).value == 1.0
    assert nash(SEXES, [(0, 0), (1, 1)], [(HALF, HALF)]).value == pytest.approx(4 / 9)
    score = nash(SEXES, [(0, 0), (0, 1)])
    assert score.parts == {"precision": 0.5, "recall": pytest.approx(1 / 3)}


def test_unit_vectors_are_the_pure_profile_and_duplicates_are_one_claim():
    unit = [(["1", "0"], ["1.00", "0.00"]), (["2/2", "0/3"], ["100/100", "0"])]
    assert nash(DOMINANT, [(0, 0), (0, 0)], unit).value == 1.0
    twice = [(["1/3", "2/3"], HALF), (["2/6", "4/6"], ["0.5", "0.5"])]
    assert nash(PENNIES, mixed=[(HALF, HALF), *twice]).raw["false"] == 1


def test_rounding_is_forgiven_as_far_as_it_is_shown():
    pure, third = [(0, 0), (1, 1)], [("2/3", "1/3"), ("1/3", "2/3")]
    full = nash(SEXES, pure, [third]).value

    def value(row, col):
        return nash(SEXES, pure, [(row.split(), col.split())]).value

    assert value("0.67 0.33", "0.33 0.67") == full
    assert value("0.6667 0.3333", "1/3 2/3") == full
    assert value("0.667 0.333", "33.3e-2 0.667".replace("33.3e-2", "0.333")) == full
    # 0.65 is no rounding of 2/3, and as a fraction nothing is forgiven.
    assert value("0.65 0.35", "0.33 0.67") < full
    assert value("67/100 33/100", "33/100 67/100") < full
    assert value("0.7 0.3", "0.3 0.7") < full  # the cap: 1 % of the payoff range
    assert value("0.66 0.33", "0.33 0.67") == full  # the sum is off by what rounding explains
    assert value("0.67 0.23", "0.33 0.67") < full
    assert value("0.667 0.333 0.000", "0.33 0.67") < full
    assert value("-1/3 4/3", "1/3 2/3") < full


def test_a_player_who_does_not_care_needs_no_tolerance():
    data = {"kind": "nash", "row": [[3, 3], [3, 3]], "col": [[1, 0], [0, 2]]}
    data_, truth = made(data)
    assert judge(data_, truth, correct(data_, truth)).value == 1.0
    score = nash(data, [(0, 0), (1, 1)], [(["2/3", "1/3"], HALF)])
    assert score.value == 1.0
    assert nash(data, [(0, 0), (0, 1), (1, 1)], [(["2/3", "1/3"], HALF)]).raw["false"] == 1


def test_points_of_a_continuum_are_not_paid_by_their_number():
    """Row A with any column is an equilibrium: that buys nothing for the false cells."""
    data = {"kind": "nash", "row": [[1, 1], [0, 0]], "col": [[2, 2], [0, 0]]}
    points = [(["1", "0"], [f"{k}/60", f"{60 - k}/60"]) for k in range(1, 60)]
    assert nash(data, [(0, 0), (0, 1)], points).value == 1.0
    assert nash(data, mixed=points).value == 0.0
    everything = [(i, j) for i in (0, 1) for j in (0, 1)]
    assert nash(data, everything, points).value == nash(data, everything).value == 0.5


def test_nothing_claimed_earns_nothing():
    reward = GameSolveReward()
    for sample in SAMPLES:
        for outcome in (Outcome(()), Outcome((Move(0, Reply("x"), None, "unparsed"),))):
            assert reward.score(sample, outcome).value == 0.0
            assert set(reward.score(sample, outcome).parts) == set(
                judge(sample.data, sample.truth, correct(sample.data, sample.truth)).parts
            )
        if sample.data["kind"] == "nash":
            assert judge(sample.data, sample.truth, {"pure": [], "mixed": []}).value == 0.0


def test_right_answers_earn_all():
    reward = create_reward("gamesolve", {})
    for sample in SAMPLES:
        value = correct(sample.data, sample.truth)
        outcome = Outcome((Move(0, Reply("..."), value),))
        scores = asyncio.run(reward.score_group(sample, [outcome]))
        assert [score.value for score in scores] == [1.0]


def test_an_unknown_kind_is_an_error():
    with pytest.raises(HarnessError, match="no kind 'chess'"):
        judge({"kind": "chess"}, {}, {})


# Against the definitions


def regrets(data, x, y):
    """The regrets of both players as shares of their payoff ranges, in fractions."""
    rows = [[Fraction(v) for v in line] for line in data["row"]]
    cols = [[Fraction(v) for v in line] for line in data["col"]]
    pays_row = [sum(a * q for a, q in zip(line, y, strict=True)) for line in rows]
    pays_col = [sum(p * line[j] for p, line in zip(x, cols, strict=True)) for j in range(len(y))]
    out = []
    for own, pays, table in ((x, pays_row, rows), (y, pays_col, cols)):
        flat = [v for line in table for v in line]
        spread = max(flat) - min(flat)
        regret = max(pays) - sum(p * v for p, v in zip(own, pays, strict=True))
        out.append(regret / spread if spread else regret)
    return out


def in_hull(point, vertices):
    """By linear programming, independent of how the reward decides."""
    points = [[float(Fraction(v)) for v in vertex] for vertex in vertices]
    equations = [list(column) for column in zip(*points, strict=True)] + [[1.0] * len(points)]
    result = linprog([0.0] * len(points), A_eq=equations, b_eq=[*map(float, point), 1.0])
    return result.status == 0


def random_point(rng, vertices):
    share = [Fraction(rng.randrange(1, 9)) for _ in vertices]
    total = sum(share)
    return [
        sum(s * Fraction(v[i]) for s, v in zip(share, vertices, strict=True)) / total
        for i in range(len(vertices[0]))
    ]


def texts(point):
    return [str(Fraction(p)) for p in point]


def test_any_point_of_a_subset_is_found_and_only_there():
    """Random points of all maximal Nash subsets: equilibria, and members exactly of the subsets in
    whose hulls they lie."""
    rng = random.Random(1)
    checked = 0
    for sample in EQUILIBRIA:
        data, subsets = sample.data, sample.truth["subsets"]
        arena = Arena.of(data)
        m, n = arena.shape
        for subset in subsets:
            x, y = random_point(rng, subset["rows"]), random_point(rng, subset["cols"])
            assert regrets(data, x, y) == [0, 0]
            claim = weights(texts(x), m), weights(texts(y), n)
            assert arena.holds(*claim)
            for other in subsets:
                member = in_hull(x, other["rows"]) and in_hull(y, other["cols"])
                assert arena.within(*claim, Subset.of(other)) == member
                checked += 1
    assert checked > 300


def test_exact_claims_hold_exactly_where_no_player_has_regret():
    rng = random.Random(2)
    for sample in EQUILIBRIA:
        m, n = len(sample.data["row"]), len(sample.data["row"][0])
        arena = Arena.of(sample.data)
        candidates = [
            ([str(int(i == a)) for i in range(m)], [str(int(j == b)) for j in range(n)])
            for a in range(m)
            for b in range(n)
        ]
        for e in sample.truth["equilibria"][:4]:
            other = rng.choice(sample.truth["equilibria"])
            candidates += [(e["row"], e["col"]), (e["row"], other["col"])]
        for row, col in candidates:
            exact = regrets(sample.data, [*map(Fraction, row)], [*map(Fraction, col)]) == [0, 0]
            assert arena.holds(weights(row, m), weights(col, n)) == exact


@pytest.mark.parametrize("digits", [2, 3, 4, 6])
def test_a_rounded_equilibrium_holds_unless_the_cap_forbids(digits):
    rounded = capped = 0
    for sample in EQUILIBRIA:
        m, n = len(sample.data["row"]), len(sample.data["row"][0])
        arena = Arena.of(sample.data)
        for e in sample.truth["equilibria"]:
            x, y = (
                [f"{float(Fraction(p)):.{digits}f}" for p in e[side]] for side in ("row", "col")
            )
            holds = arena.holds(weights(x, m), weights(y, n))
            allowed = max(regrets(sample.data, [*map(Fraction, x)], [*map(Fraction, y)])) <= 0.0099
            assert holds or not allowed
            rounded += 1
            capped += not holds
    assert rounded > 400
    assert capped == 0 or digits == 2


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.sampled_from(EQUILIBRIA), st.integers(1, 4), st.randoms(use_true_random=False))
def test_no_tolerance_exceeds_one_percent_of_the_range(sample, digits, rng):
    m, n = len(sample.data["row"]), len(sample.data["row"][0])

    def point(size):
        cuts = sorted(rng.randrange(10**digits + 1) for _ in range(size - 1))
        ends = [0, *cuts, 10**digits]
        return [f"{(b - a) / 10**digits:.{digits}f}" for a, b in pairwise(ends)]

    x, y = point(m), point(n)
    claim = weights(x, m), weights(y, n)
    assert None not in claim
    if Arena.of(sample.data).holds(*claim):
        assert max(regrets(sample.data, [*map(Fraction, x)], [*map(Fraction, y)])) <= Fraction(
            1, 100
        )


# Properties


def claims_of(sample):
    value = correct(sample.data, sample.truth)
    return [("pure", p) for p in value["pure"]] + [("mixed", c) for c in value["mixed"]]


def value_of(claims):
    return {kind: [c for k, c in claims if k == kind] for kind in ("pure", "mixed")}


def score(sample, claims):
    return judge(sample.data, sample.truth, value_of(claims)).value


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.sampled_from(EQUILIBRIA), st.data())
def test_order_never_matters(sample, data):
    claims = [*claims_of(sample), ("pure", [0, 0]), ("mixed", false_claim(sample, data))]
    shuffled = data.draw(st.permutations(claims))
    assert score(sample, shuffled) == score(sample, claims)


def false_claim(sample, data):
    m, n = len(sample.data["row"]), len(sample.data["row"][0])

    def point(size):
        parts = data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size).filter(any))
        return [str(Fraction(p, sum(parts))) for p in parts]

    return {"row": point(m), "col": point(n)}


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.sampled_from(EQUILIBRIA), st.data())
def test_a_false_claim_lowers(sample, data):
    claims = claims_of(sample)
    kept = data.draw(st.lists(st.sampled_from(claims), min_size=1, unique_by=str))
    claim = false_claim(sample, data)
    x, y = ([Fraction(p) for p in claim[side]] for side in ("row", "col"))
    assume(max(regrets(sample.data, x, y)) > 0)
    assert score(sample, [*kept, ("mixed", claim)]) < score(sample, kept)
    invalid = {**value_of(kept), "invalid": 1}
    assert judge(sample.data, sample.truth, invalid).value < score(sample, kept)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.sampled_from(EQUILIBRIA), st.data())
def test_a_required_claim_left_out_lowers(sample, data):
    claims = claims_of(sample)
    left = data.draw(st.sampled_from(claims))
    rest = [claim for claim in claims if claim is not left]
    if left[0] == "mixed":  # a point of two subsets may stand for both
        alone = [s for s in sample.truth["subsets"] if not has_pure(s) and lies_in(left[1], s)]
        assume(any(not any(k == "mixed" and lies_in(c, s) for k, c in rest) for s in alone))
    assert score(sample, rest) < score(sample, claims) == 1.0


def lies_in(claim, subset):
    return in_hull([*map(Fraction, claim["row"])], subset["rows"]) and in_hull(
        [*map(Fraction, claim["col"])], subset["cols"]
    )


# Best responses and skills


@pytest.mark.parametrize("count", [1, 2])
def test_ties_accept_any_best_action(count):
    data = {"kind": "best_response", "row": [[1, 1], [1, 1], [0, 0]], "col": [[0, 0]] * 3}
    data |= {"responder": "row", "sigma": ["0.5000", "0.5000"]}
    rest = {"payoffs": ["1", "1.0", "0"], "value": "1"}
    for chosen in combinations([0, 1], count):
        assert judge(*made(data), {"actions": list(chosen), **rest}).value == 1.0
        more = judge(*made(data), {"actions": [*chosen, 2], **rest}).value
        assert more == pytest.approx(count / (count + 1))
    assert judge(*made(data), {"actions": [2], **rest}).value == 0.0


def test_payoffs_without_a_best_action_earn_nothing():
    for sample in RESPONSES:
        value = correct(sample.data, sample.truth)
        wrong = [i for i in range(actions(sample.data)) if i not in sample.truth["best"]]
        for i in wrong:
            assert judge(sample.data, sample.truth, {**value, "actions": [i]}).value == 0.0
        bare = judge(sample.data, sample.truth, {"actions": sample.truth["best"]})
        assert bare.value == 0.5


def test_errors_of_payoffs_are_measured_on_their_range():
    for factor in (1, 1000):
        data = {
            "kind": "best_response",
            "row": [[10 * factor, 0], [0, 2 * factor]],
            "col": [[0, 0], [0, 0]],
            "responder": "row",
            "sigma": ["0.7500", "0.2500"],
        }
        exact = [Fraction(15, 2) * factor, Fraction(1, 2) * factor]

        def value(first, second, data=data, exact=exact):
            answer = {"actions": [0], "payoffs": [first, second], "value": str(exact[0])}
            return judge(*made(data), answer).parts["payoffs"]

        assert value(*map(str, exact)) == 1.0
        assert value(str(exact[0] + Fraction(factor, 2)), str(exact[1])) == pytest.approx(0.75)
        assert value(str(exact[0] + 10 * factor), str(exact[1])) == 0.5
        assert value(str(-exact[0]), str(-exact[1])) == 0.0
    assert value("7500.4", "500") == 1 - 10 * 0.4 / 10_000 / 2
    assert value("7500.04", "500.0") < 1.0
    assert judge(*made(data), {"actions": [0], "payoffs": ["7500"], "value": "7500"}).value == 0.7


def test_a_responder_without_range():
    data = {"kind": "best_response", "row": [[3, 3], [3, 3]], "col": [[0, 0], [0, 0]]}
    data |= {"responder": "row", "sigma": ["0.7500", "0.2500"]}
    right = {"actions": [1], "payoffs": ["3", "3.00"], "value": "3"}
    assert judge(*made(data), right).value == 1.0
    assert judge(*made(data), {**right, "payoffs": ["4", "2"]}).parts["payoffs"] == 0.0


def test_skills_by_hand():
    data = {"row": [[2, 0], [3, 1]], "col": [[2, 3], [0, 1]], "player": "row", "kind": "dominance"}
    assert judge(*made(data), {"dominated": [0], "dominant": 1}).value == 1.0
    assert judge(*made(data), {"dominated": [0], "dominant": None}).value == 0.5
    assert judge(*made(data), {"dominated": [0]}).value == 0.5
    assert judge(*made(data), {"dominated": [0, 1], "dominant": 1}).value == 0.5
    assert judge(*made(data), {"dominated": [], "dominant": 1}).value == 0.0
    data |= {"kind": "payoff", "cell": [0, 1], "player": "column"}
    assert judge(*made(data), {"value": "3.0"}).value == 1.0
    assert judge(*made(data), {"value": "0"}).value == 0.0
    data |= {"kind": "best_response_pure", "responder": "column", "opponent_action": 0}
    assert judge(*made(data), {"actions": [1], "value": "3"}).value == 1.0
    assert judge(*made(data), {"actions": [1], "value": "2"}).value == 0.6
    assert judge(*made(data), {"actions": [0], "value": "2"}).value == 0.0
    data |= {"kind": "pure_equilibria"}
    assert judge(*made(data), {"pure": [[1, 1]]}).value == 1.0
    assert judge(*made(data), {"pure": [[1, 1], [0, 0]]}).value == 0.5
    none = {**PENNIES, "kind": "pure_equilibria"}
    assert judge(*made(none), {"pure": []}).value == 1.0
    assert judge(*made(none), {"pure": [[0, 0]]}).value == 0.0


@pytest.mark.parametrize("text", ["", "one", "1/0", "1/-2", "--1", None])
def test_unreadable_numbers_are_no_probabilities(text):
    assert weights([text, "1/2"], 2) is None
    if text is not None:
        with pytest.raises(ValueError, match=r".*"):
            Numeral.of(text)


# Constants

SIZES = {"2x2": 2, "3x3": 3, "4x4": 4, "2x3": 2, "3x2": 2, "2x4": 2, "4x2": 2, "4x3": 3}


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """(cell, constant) -> the mean reward, and for groups of Nash items; from the built presets."""
    values = defaultdict(list)
    for preset in ("gamesolve", "gamesolve-skills"):
        for item in plan(preset)[:: 1 if preset == "gamesolve-skills" else 2]:
            sample: Sample = draw_item(item, data_seed=1)
            for name, constant in CONSTANTS.items():
                answer = constant(sample.data)
                value = 0.0 if answer is None else judge(sample.data, sample.truth, answer).value
                stratum = item.stratum or "all"
                values[sample.data["kind"], item.cell.name, stratum, name].append(
                    (value, actions(sample.data) if "responder" in sample.data else 0)
                )
    return values


def mean(values, kind, name, cell=None, strata=None):
    rows = [
        row
        for (kind_, cell_, stratum, name_), entries in values.items()
        if kind_ == kind and name_ == name and cell in (None, cell_)
        and (strata is None or stratum in strata)
        for row, _ in entries
    ]  # fmt: skip
    return sum(rows) / len(rows)


def test_no_constant_earns_much_for_equilibria(measured):
    """The bounds, with the sampling error of half the items; docs/gamesolve-scoring.md has the
    table and says why the symmetric 2x2 cell is apart."""
    cells = {cell for kind, cell, *_ in measured if kind == "nash"}
    assert len(cells) > 9
    for name in CONSTANTS:
        assert mean(measured, "nash", name, strata={"continuum"}) <= 0.40
        for cell in cells - {"nash/2x2/symmetric"}:
            assert mean(measured, "nash", name, cell) <= 0.30, (cell, name)
        everything = [v for (_, cell, _, n), rows in measured.items() if n == name for v, _ in rows]
        if name in ("all-cells", "first-cell", "first-row", "diagonal", "uniform", "none"):
            assert sum(everything) / len(everything) <= 0.15


def test_no_constant_earns_much_for_best_responses(measured):
    for (kind, cell, _, name), rows in measured.items():
        if kind in ("best_response", "best_response_pure"):
            bound = sum(1 / size for _, size in rows) / len(rows) + 0.05
            assert sum(value for value, _ in rows) / len(rows) <= bound, (cell, name)


def test_no_constant_earns_much_for_skills(measured):
    for kind, cell, _, name in measured:
        if kind in ("dominance", "payoff", "pure_equilibria"):
            assert mean(measured, kind, name, cell) <= 0.40, (cell, name)
