"""The divergence against its definition in float64, and the places of replies against the tokens
that they predict."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import tiny_llama
from torch.utils._python_dispatch import TorchDispatchMode

from harness_plugins.trainers.verl.alignment import counted, joined, reply_places
from harness_plugins.trainers.verl.divergence import forward_kl

LENGTHS = st.lists(st.tuples(st.integers(1, 6), st.integers(1, 5)), min_size=1, max_size=4)


def brute(student, teacher, places, others, temperature):
    """The sum over the vocabulary, token by token, as the formula is written."""
    found = []
    for own, other in zip(places.tolist(), others.tolist(), strict=True):
        q = torch.softmax(student[own] / temperature, -1)
        p = torch.softmax(teacher[other] / temperature, -1)
        terms = [p[v] * (torch.log(p[v]) - torch.log(q[v])) for v in range(len(p))]
        found.append(torch.stack(terms).sum())
    return torch.stack(found)


def case(tokens, vocabulary, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    student = 3 * torch.randn(tokens + 3, vocabulary, generator=generator, dtype=torch.float64)
    teacher = 3 * torch.randn(tokens + 5, vocabulary, generator=generator, dtype=torch.float64)
    places = torch.randperm(tokens + 3, generator=generator)[:tokens]
    others = torch.randint(tokens + 5, (tokens,), generator=generator)
    labels = torch.randint(vocabulary, (tokens,), generator=generator)
    return student.to(dtype).requires_grad_(), teacher.to(dtype), places, others, labels


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 9), st.integers(2, 7), st.floats(0.3, 2.0), st.integers(1, 40))
def test_divergence_and_gradient_against_the_formula(tokens, vocabulary, temperature, elements):
    """For any size of a block, values and gradients are those of autograd through the formula."""
    student, teacher, places, others, labels = case(tokens, vocabulary, seed=tokens)
    found = forward_kl(student, teacher, places, others, labels, temperature, elements)
    weights = torch.arange(1.0, tokens + 1, dtype=torch.float64)
    (found.kl * weights).sum().backward()
    exact = student.detach().clone().requires_grad_()
    wanted = brute(exact, teacher, places, others, temperature)
    (wanted * weights).sum().backward()
    assert torch.allclose(found.kl, wanted, atol=1e-12, rtol=1e-10)
    assert torch.allclose(student.grad, exact.grad, atol=1e-12, rtol=1e-10)
    assert (found.kl > -1e-12).all()


def test_the_other_figures_of_a_token():
    student, teacher, places, others, labels = case(6, 5)
    found = forward_kl(student, teacher, places, others, labels, 0.8)
    q = torch.softmax(student[places] / 0.8, -1)
    p = torch.softmax(teacher[others] / 0.8, -1)
    assert torch.allclose(found.entropy, torch.distributions.Categorical(q).entropy())
    assert torch.allclose(found.teacher_entropy, torch.distributions.Categorical(p).entropy())
    assert torch.allclose(found.logprob.exp(), q[torch.arange(6), labels])
    assert not found.entropy.requires_grad
    assert not found.logprob.requires_grad


def test_a_student_that_is_its_teacher_is_at_the_bottom():
    student, _, places, _, labels = case(6, 5)
    found = forward_kl(student, student.detach(), places, places, labels, 0.8)
    found.kl.sum().backward()
    assert torch.allclose(found.kl, torch.zeros(6, dtype=torch.float64), atol=1e-14)
    assert torch.allclose(student.grad, torch.zeros_like(student), atol=1e-14)


def test_half_precision_is_computed_in_single():
    """The logits are read in their own type, the sums are not made in it."""
    student, teacher, places, others, labels = case(40, 300, torch.bfloat16)
    found = forward_kl(student, teacher, places, others, labels, 0.8, elements=900)
    wanted = brute(student.detach().double(), teacher.double(), places, others, 0.8)
    assert found.kl.dtype == torch.float32
    assert torch.allclose(found.kl.double(), wanted, atol=1e-4, rtol=1e-5)
    found.kl.sum().backward()
    assert student.grad.dtype == torch.bfloat16


class Largest(TorchDispatchMode):
    """Remembers the largest float32 tensor that is made within it."""

    elements = 0

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        made = function(*arguments, **(named or {}))
        for tensor in made if isinstance(made, tuple | list) else (made,):
            if isinstance(tensor, torch.Tensor) and tensor.dtype == torch.float32:
                self.elements = max(self.elements, tensor.numel())
        return made


def test_no_copy_in_single_precision_is_larger_than_a_block():
    """In the forward pass and in the backward one; the logits have 16 times as many elements."""
    student, teacher, places, others, labels = case(64, 1000, torch.bfloat16)
    with Largest() as seen:
        found = forward_kl(student, teacher, places, others, labels, 0.8, elements=4000)
        found.kl.sum().backward()
    assert 1000 < seen.elements <= 4000
    assert student.grad.abs().max() > 0


def test_the_direction_is_from_the_teacher():
    """Mass that the teacher has and the student lacks costs more than the other way round."""
    narrow, wide = torch.tensor([[9.0, 0.0, 0.0]]), torch.zeros(1, 3)
    row, label = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)
    missing = forward_kl(narrow, wide, row, row, label, 1.0).kl
    surplus = forward_kl(wide, narrow, row, row, label, 1.0).kl
    assert missing > 3 * surplus


@settings(deadline=None, max_examples=60)
@given(LENGTHS, st.booleans())
def test_places_of_replies(lengths, packed):
    """Each row of the flattened logits that is named comes from the position before its token."""
    prompts, replies = (list(column) for column in zip(*lengths, strict=True))
    ids = [[100 * row + place for place in range(p + r)] for row, (p, r) in enumerate(lengths)]
    if packed:
        laid = torch.tensor([[token for row in ids for token in row]])
    else:
        width = max(map(len, ids))
        laid = torch.tensor([row + [-1] * (width - len(row)) for row in ids])
    places = reply_places(prompts, replies, packed)
    before = laid[:, places.keep].flatten()[places.rows].tolist()
    wanted = [row[k - 1] for row, p in zip(ids, prompts, strict=True) for k in range(p, len(row))]
    assert before == wanted


@pytest.mark.parametrize("packed", [False, True])
def test_logits_of_replies_from_a_model(packed):
    """Rows together, padded or packed, give what each row gives alone."""
    model = tiny_llama(initializer_range=0.1, attn_implementation="sdpa")
    lengths = [(5, 3), (2, 4), (7, 1)]
    generator = torch.Generator().manual_seed(3)

    def draw(n):
        return torch.randint(4, 260, (n,), generator=generator)

    jagged = [
        torch.nested.as_nested_tensor([draw(pair[k]) for pair in lengths], layout=torch.jagged)
        for k in (0, 1)
    ]
    rows = joined(*jagged)
    assert counted(rows).values().tolist() == [k for p, r in lengths for k in range(p + r)]
    places = reply_places([p for p, _ in lengths], [r for _, r in lengths], packed)
    if packed:
        inputs = {
            "input_ids": rows.values().unsqueeze(0),
            "position_ids": counted(rows).values().unsqueeze(0),
        }
    else:
        ids = torch.nested.to_padded_tensor(rows, 0)
        mask = torch.nested.to_padded_tensor(torch.ones_like(rows), 0)
        inputs = {"input_ids": ids, "attention_mask": mask}
    with torch.no_grad():
        together = model(**inputs, logits_to_keep=places.keep, use_cache=False).logits
        alone = [
            model(row.unsqueeze(0)).logits[0, p - 1 : p + r - 1]
            for row, (p, r) in zip(rows.unbind(), lengths, strict=True)
        ]
    assert torch.allclose(together.flatten(0, 1)[places.rows], torch.cat(alone), atol=1e-5)
