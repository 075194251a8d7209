"""Models that think before they answer: how long they may, and what of a reply is the answer.

    thinking = Thinking.of(tokenizer, {"reasoning_budget": 1024, "reasoning_end": "</think>", ...})
    thinking.closed(ids, cut=True)  # the thoughts, brought to their end
    thinking.split(text)            # (thoughts, answer)

Without a budget the reply's limit holds for thoughts and answer together. With one, the thoughts
may take that many tokens of their own; a model that is not done by then has them ended for it and
answers within the reply's limit. A parser of vLLM's, where one is named, tells thoughts and answer
apart; without one the text stays whole (the core's parsers skip thoughts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.types import HarnessError, Json


@dataclass(frozen=True, slots=True)
class Thinking:
    """The settings of one model. ``end`` is the text that ends the thoughts, ``stops`` its tokens,
    ``forced`` those that are put in where a model is not done."""

    budget: int = 0
    end: str = ""
    stops: tuple[int, ...] = ()
    forced: tuple[int, ...] = ()
    parser: Any = None

    @classmethod
    def of(cls, tokenizer: Any, options: Mapping[str, Json]) -> Thinking:
        """From the back end's options. Raises HarnessError for an end of thoughts that is not one
        token of the vocabulary, and for an unknown parser."""
        budget, end = int(options["reasoning_budget"]), str(options["reasoning_end"])
        parser = _parser(str(options["reasoning_parser"]), tokenizer)
        if not budget:
            return cls(parser=parser)
        ids = tokenizer.encode(end, add_special_tokens=False)
        if len(ids) != 1:
            raise HarnessError(
                f"reasoning_budget: {end!r} is no single token of this model; name the text that "
                "ends its thoughts with reasoning_end"
            )
        forced = tokenizer.encode(f"\n{end}\n\n", add_special_tokens=False)
        return cls(budget, end, tuple(ids), tuple(forced), parser)

    @property
    def most(self) -> int:
        """Tokens that thoughts can add to a reply."""
        return self.budget + len(self.forced)

    def closed(self, ids: Sequence[int], cut: bool) -> tuple[int, ...]:
        """The thoughts with their end: as they are, or ended for the model where the budget ran out
        (``cut``). Empty where the model ended its text without thinking."""
        if ids and ids[-1] in self.stops:
            return tuple(ids)
        return (*ids, *self.forced) if cut else ()

    def shown(self, thoughts: str) -> str:
        """The text of closed thoughts; their end is in it also where it is a special token, which
        decoding leaves out."""
        return thoughts if self.end in thoughts else f"{thoughts}{self.end}"

    def split(self, text: str) -> tuple[str, str]:
        """(thoughts, answer)."""
        if self.parser is None:
            return "", text
        thoughts, answer = self.parser(text)
        return thoughts or "", answer or ""


def _parser(name: str, tokenizer: Any) -> Any:
    """One of vLLM's reasoning parsers as a function of a text; None for no name."""
    if not name:
        return None
    from vllm.reasoning import ReasoningParserManager

    try:
        made = ReasoningParserManager.get_reasoning_parser(name)(tokenizer)
    except (KeyError, ImportError, RuntimeError, ValueError) as error:
        raise HarnessError(f"reasoning_parser {name!r}: {error}") from None

    def parse(text: str) -> tuple[str | None, str | None]:
        thoughts, answer = made.extract_reasoning(text, None)
        return thoughts, answer

    return parse
