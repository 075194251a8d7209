"""Settings by which common servers give plain JSON without thinking first.

``judge_preset`` names one; ``judge_model_options`` overrides its parts. They are options of the
openai back end; the address and the name of the key's variable are the vendors' own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from harness.types import HarnessError, Json

_JSON: Final = {"response_format": {"type": "json_object"}}

PRESETS: Final[Mapping[str, Mapping[str, Json]]] = {
    "openai": {"extra_body": _JSON},
    "deepseek": {
        "base_url": "https://api.deepseek.com",
        "api_key_env": "DEEPSEEK_API_KEY",
        "extra_body": {**_JSON, "thinking": {"type": "disabled"}},
    },
    "dashscope": {
        "base_url": "https://dashscope.aliyuncs.com/compatible-mode/v1",
        "api_key_env": "DASHSCOPE_API_KEY",
        "extra_body": {**_JSON, "enable_thinking": False},
    },
    "zhipu": {
        "base_url": "https://open.bigmodel.cn/api/paas/v4",
        "api_key_env": "ZHIPUAI_API_KEY",
        "extra_body": {**_JSON, "thinking": {"type": "disabled"}},
    },
    "vllm": {
        "base_url": "http://127.0.0.1:8000/v1",
        "sampler": "extended",
        "chat_template_kwargs": {"enable_thinking": False},
        "extra_body": _JSON,
    },
}


def vendor(name: str) -> dict[str, Json]:
    """Options of the openai back end. Raises HarnessError for an unknown name."""
    if not name:
        return {}
    try:
        return dict(PRESETS[name])
    except KeyError:
        raise HarnessError(
            f"judge_preset={name!r} is unknown; choose from {', '.join(PRESETS)}"
        ) from None


def require_key(given: Mapping[str, Json]) -> None:
    """Raise HarnessError where options name a variable for the key, and it holds none: before a
    server is asked, which would say so in its own words or not at all."""
    name = str(given.get("api_key_env") or "")
    if name and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
        raise HarnessError(
            "judge api_key_env: give the name of an environment variable, never the key itself"
        )
    if name and not os.environ.get(name):
        raise HarnessError(
            f"the judge needs a key: the variable {name} is not set (export {name}=...; it is "
            "never written down)"
        )
