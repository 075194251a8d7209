"""Messages to tokens: which text, which special tokens, and what is never silent."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_models import TEMPLATE, tiny_tokenizer

from harness import rendering
from harness.rendering import PLAIN_FORMAT, prompt_text, render, template_hash, template_options
from harness.types import HarnessError, Message

CHAT = (Message("system", "Be brief."), Message("user", "2 + 2?"))
STRICT = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
    "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
)
DROPPING = (
    "{% for m in messages if m['role'] != 'system' %}"
    "[{{ m['role'] }}]{{ m['content'] }}{% endfor %}"
)


def test_the_template_writes_the_prompt_and_opens_the_reply():
    assert prompt_text(tiny_tokenizer(), CHAT) == (
        "<|begin|><|turn|>system\nBe brief.<|end|><|turn|>user\n2 + 2?<|end|><|turn|>assistant\n"
    )


def test_special_tokens_come_once():
    # This tokenizer puts a begin token in front of every text of its own accord.
    ids = render(tiny_tokenizer(begin=True), CHAT)
    assert ids.count(1) == 1
    assert ids[0] == 1
    assert ids.count(3) == 3
    assert ids.count(2) == 2


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.text(max_size=40))
def test_ids_read_back_as_the_text(content):
    tokenizer = tiny_tokenizer()
    messages = [Message("user", content)]
    ids = render(tokenizer, messages)
    back = tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False)
    assert back == prompt_text(tokenizer, messages)


def test_ids_are_those_of_the_library():
    tokenizer = tiny_tokenizer()
    chat = [{"role": m.role, "content": m.content} for m in CHAT]
    theirs = tokenizer.apply_chat_template(chat, add_generation_prompt=True)["input_ids"]
    assert render(tokenizer, CHAT) == theirs


def test_arguments_reach_the_template():
    assert prompt_text(tiny_tokenizer(), CHAT, {"thinking": True}).endswith("assistant\nhm ")
    assert not prompt_text(tiny_tokenizer(), CHAT, {"thinking": False}).endswith("hm ")


def test_a_base_model_gets_the_plain_format_with_its_own_begin_token():
    tokenizer = tiny_tokenizer(template=None, begin=True)
    text = "System: Be brief.\n\nUser: 2 + 2?\n\nAssistant:"
    assert prompt_text(tokenizer, CHAT) == text
    ids = render(tokenizer, CHAT)
    assert ids[0] == 1
    assert tokenizer.decode(ids[1:]) == text
    assert rendering.format_name(tokenizer) == "plain"
    assert rendering.stop_texts(tokenizer) == PLAIN_FORMAT.stops
    assert rendering.stop_texts(tiny_tokenizer()) == ()


def test_plain_format_keeps_braces_and_history():
    talk = [Message("user", "{x}"), Message("assistant", " 4\n"), Message("user", "why?")]
    assert prompt_text(tiny_tokenizer(None), talk) == (
        "User: {x}\n\nAssistant: 4\n\nUser: why?\n\nAssistant:"
    )


def test_an_end_token_that_the_tokenizer_appends_is_taken_off():
    from tokenizers.processors import TemplateProcessing

    tokenizer = tiny_tokenizer(template=None)
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="$A <|end|>", special_tokens=[("<|end|>", 2)]
    )
    assert tokenizer("a")["input_ids"][-1] == 2
    assert 2 not in render(tokenizer, CHAT)


@pytest.mark.parametrize("template", [STRICT, DROPPING])
def test_a_system_message_is_never_lost(template):
    assert prompt_text(tiny_tokenizer(template), CHAT) == "[user]Be brief.\n\n2 + 2?"


def test_a_system_message_alone_becomes_the_users():
    assert prompt_text(tiny_tokenizer(STRICT), CHAT[:1]) == "[user]Be brief."


def test_what_a_template_refuses_is_one_clear_line():
    refusing = tiny_tokenizer("{{ raise_exception('roles must alternate') }}")
    with pytest.raises(HarnessError, match="refuses these messages: roles must alternate"):
        render(refusing, CHAT[1:])
    with pytest.raises(HarnessError, match="roles must alternate"):
        render(refusing, CHAT)
    with pytest.raises(HarnessError, match="without messages"):
        render(refusing, [])


def test_templates_are_told_a_fixed_day():
    dated = tiny_tokenizer("{{ strftime_now('%d %b %Y') }} {{ messages[0]['content'] }}")
    assert prompt_text(dated, [Message("user", "hi")]) == "26 Jul 2024 hi"


def test_the_hash_names_the_format():
    hashes = {template_hash(tiny_tokenizer(t)) for t in (None, TEMPLATE, STRICT, DROPPING)}
    assert len(hashes) == 4
    assert template_hash(tiny_tokenizer()) == template_hash(tiny_tokenizer(begin=True))


def test_template_options_are_checked():
    assert template_options("") == {}
    assert template_options('{"a": [1]}') == {"a": [1]}
    assert template_options({"a": True}) == {"a": True}
    for wrong, said in (("{", "not valid JSON"), ("[1]", "JSON object"), (3, "JSON object")):
        with pytest.raises(HarnessError, match=said):
            template_options(wrong)
    with pytest.raises(HarnessError, match="'add_generation_prompt' cannot"):
        template_options({"add_generation_prompt": False})


def test_rendering_imports_no_library():
    import subprocess
    import sys

    heavy = "('torch', 'transformers', 'jinja2', 'numpy')"
    code = f"import sys, harness.rendering; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
