"""Models of the game tests: they read the list of legal moves in the prompt, and nothing else."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from harness import hookimpl
from harness.model import Model
from harness.types import Reply


class Lister(Model):
    """Answers with the first or the last legal move, after a pause that depends on the request.

    Every third request is answered with prose first, so that retries happen; `loaded` lists what
    was made, with options.
    """

    loaded: ClassVar[list[Lister]] = []

    def __init__(self, name, options):
        self.name = name
        self.identity = f"toy:{name}:{options['place']}"
        self.place = options["place"] if options["place"] != 9 else (0 if name == "first" else -1)
        self.device_share = options["share"]
        Lister.loaded.append(self)

    async def generate(self, request):
        await asyncio.sleep(request.seed % 5 / 2000)
        text = "\n".join(m.content for m in request.messages if m.role == "user")
        if request.seed % 3 == 0:
            return Reply("I am thinking about it.", prompt_tokens=10, completion_tokens=5)
        lines = [line for line in text.splitlines() if line.startswith("Legal ")]
        move = lines[-1].partition(": ")[2].split("; ")[self.place]
        return Reply(f"ANSWER: {move}", prompt_tokens=10, completion_tokens=5)

    def count_tokens(self, messages):
        return sum(len(m.content) for m in messages) // 4


@hookimpl
def create_model(name, options):
    """The hook of models."""
    return Lister(name, options)
