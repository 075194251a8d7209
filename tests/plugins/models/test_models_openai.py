"""The openai back end against a server on loopback that fails on purpose."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate

import pytest
from fault_server import Faults, FaultServer, completion

from harness.types import Decoding, HarnessError, Message, ProviderError, Request
from harness_plugins.models.openai import OpenAIModel, create_model
from harness_plugins.models.openai_transport import retry_after

pytest.importorskip("openai")

KEY = "sk-planted-0123456789abcdef"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def request(text="hello", seed=7, **decoding):
    return Request((Message("user", text),), Decoding(**decoding), seed)


def model(server, **options):
    return OpenAIModel("toy", {"base_url": server.url, "retry_delay": 0.01, **options})


def ask(backend, *requests):
    """The replies, or errors, to requests that are sent together."""

    async def main():
        return await asyncio.gather(
            *(backend.generate(r) for r in requests), return_exceptions=True
        )

    return asyncio.run(main())


def scripted(*answers):
    """A server that gives these answers in turn, the last one for good."""
    left = list(answers)
    return FaultServer(script=lambda body: left.pop(0) if len(left) > 1 else left[0])


def says(message="no", status=400, code=None, **headers):
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return status, named, {"error": {"message": message, "code": code}}


# What is sent and what comes back


def test_every_decoding_parameter_is_sent():
    with FaultServer() as server:
        (reply,) = ask(
            model(server),
            request("a b", 2**62 + 9, temperature=0.3, top_p=0.9, max_tokens=33, stop=("X",)),
        )
        sent = server.seen.last
    assert sent == {
        "model": "toy",
        "messages": [{"role": "user", "content": "a b"}],
        "temperature": 0.3,
        "top_p": 0.9,
        "max_tokens": 33,
        "seed": 9,
        "stop": ["X"],
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
        "n": 1,
        "stream": False,
    }
    assert (reply.text, reply.finish_reason) == ("a b #9", "stop")
    assert (reply.prompt_tokens, reply.completion_tokens) == (7, 3)


def test_a_vllm_server_gets_the_extended_parameters_and_tells_its_context():
    listed = [{"id": "toy", "owned_by": "vllm", "max_model_len": 4096, "root": "/models/toy"}]
    with FaultServer(models=listed) as server:
        backend = model(server, chat_template_kwargs={"enable_thinking": False}, token_ids=True)
        ask(backend, request(top_k=20))
        sent = server.seen.last
        assert backend.context_length == 4096
        assert backend.describe()["served"]["root"] == "/models/toy"
    assert (sent["top_k"], sent["min_p"], sent["repetition_penalty"]) == (20, 0.0, 1.0)
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    assert sent["return_token_ids"] is True


def test_greedy_top_k_is_switched_off_not_left_to_the_server():
    with FaultServer(models=[{"id": "toy", "owned_by": "vllm"}]) as server:
        ask(model(server), request())
        assert server.seen.last["top_k"] == -1


def test_top_k_and_template_arguments_are_refused_where_they_would_be_ignored():
    with FaultServer() as server:
        (error,) = ask(model(server), request(top_k=5))
        assert isinstance(error, HarnessError)
        assert "top-k" in str(error)
        with pytest.raises(HarnessError, match="sampler=extended"):
            model(server, chat_template_kwargs={"x": 1})


def test_extra_body_and_omit_have_the_last_word():
    with FaultServer() as server:
        extra = '{"reasoning_effort": "low", "max_completion_tokens": 9}'
        ask(model(server, extra_body=extra, omit=["temperature", "max_tokens"]), request())
        sent = server.seen.last
    assert sent["reasoning_effort"] == "low"
    assert sent["max_completion_tokens"] == 9
    assert not {"temperature", "max_tokens"} & set(sent)


def test_reasoning_logprobs_ids_and_truncation_are_read():
    answer = {
        "prompt_token_ids": [1, 2],
        "choices": [
            {
                "message": {"content": [{"type": "text", "text": "A"}], "reasoning_content": "hm"},
                "finish_reason": "length",
                "token_ids": [5],
                "logprobs": {"content": [{"token": "A", "logprob": -0.5}]},
            }
        ],
    }
    with scripted((200, {}, answer)) as server:
        (reply,) = ask(model(server, logprobs=True), request())
        assert server.seen.last["logprobs"] is True
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("A", "hm", "length")
    assert (reply.prompt_ids, reply.ids, reply.logprobs) == ((1, 2), (5,), (-0.5,))


def test_a_refusal_is_the_reply():
    message = {"content": None, "refusal": "I can't help with that."}
    with scripted((200, {}, {"choices": [{"message": message}]})) as server:
        (reply,) = ask(model(server), request())
    assert reply.text == "I can't help with that."


# Transport faults


@pytest.mark.parametrize("kind", ["drop", "throttle", "error", "garbage"])
def test_faults_are_mended_by_sending_again(kind):
    with FaultServer(Faults(**{kind: 0.5}, retry_after=0.01)) as server:
        backend = model(server, retries=20)
        replies = ask(backend, *(request(f"w{i}") for i in range(40)))
        assert server.seen.faults[kind] > 10
        assert [r.text for r in replies] == [f"w{i} #7" for i in range(40)]
        assert backend.ledger.totals.requests == 40
        assert backend.ledger.totals.retries == server.seen.requests - 40
        assert (backend.ledger.totals.throttled > 0) == (kind == "throttle")


def test_after_the_last_try_it_is_a_provider_error():
    with scripted(says("down", 503)) as server:
        (error,) = ask(model(server, retries=3), request())
        assert server.seen.requests == 4
    assert isinstance(error, ProviderError)
    assert "down" in str(error)
    assert "4 tries" in str(error)


def test_a_server_that_hangs_times_out_and_is_asked_again():
    with FaultServer(Faults(hang=0.5)) as server:
        backend = model(server, timeout=0.2, retries=12)
        replies = ask(backend, *(request(f"w{i}") for i in range(6)))
        assert server.seen.faults["hang"] > 0
        assert [r.text for r in replies] == [f"w{i} #7" for i in range(6)]


@pytest.mark.parametrize("headers", [{"Retry_After": 0.3}, {"retry_after_ms": 300}])
def test_retry_after_is_obeyed(headers):
    ok = (200, {}, completion({"messages": [{"content": "x"}], "model": "toy"}))
    with scripted(says("slow down", 429, **headers), ok) as server:
        began = time.monotonic()
        (reply,) = ask(model(server, retry_delay=0.0), request())
        assert 0.3 <= time.monotonic() - began < 2
        assert reply.text == "x #0"


def test_retry_after_dates_and_nonsense():
    soon = formatdate(time.time() + 30, usegmt=True)
    assert 25 < retry_after(None, soon) <= 30
    assert retry_after(None, formatdate(0, usegmt=True)) == 0.0
    assert retry_after("x", "inf") is None
    assert retry_after(None, None) is None


def test_concurrency_stays_under_what_the_server_takes():
    with FaultServer(Faults(work=0.01, reject_above=30, retry_after=0.01)) as server:
        backend = model(server, retries=50)
        replies = ask(backend, *(request(f"w{i}") for i in range(600)))
        assert all(r.text.startswith("w") for r in replies)
        assert server.seen.faults["rejected"] < 300
        assert backend.limiter.limit < 80


def test_max_concurrency_is_kept():
    with FaultServer(Faults(work=0.005)) as server:
        ask(model(server, max_concurrency=3), *(request(f"w{i}") for i in range(30)))
        assert server.seen.most == 3


# What a user must mend


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (says("model `toy` does not exist", 404), "does not exist"),
        (says("unknown field top_k", 400), "unknown field"),
        (says("You exceeded your quota", 429, "insufficient_quota"), "no credit"),
        (says("This model's maximum context length is 10", 400), "does not fit"),
    ],
)
def test_errors_of_the_user_stop_at_once(answer, expected):
    with scripted(answer) as server:
        (error,) = ask(model(server), request())
        assert server.seen.requests == 1
    assert isinstance(error, HarnessError)
    assert expected in str(error)


def test_a_history_that_outgrew_the_context_is_a_truncated_reply():
    history = (Message("user", "a"), Message("assistant", "b"), Message("user", "c"))
    with scripted(says("maximum context length", 400, "context_length_exceeded")) as server:
        (reply,) = ask(model(server), Request(history, Decoding(), 1))
    assert (reply.text, reply.finish_reason) == ("", "length")


def test_no_server_is_one_line():
    with pytest.raises(HarnessError, match=r"no server answers at 127\.0\.0\.1:9/v1"):
        OpenAIModel("toy", {"base_url": "http://127.0.0.1:9/v1", "retry_delay": 0.0})


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"base_url": "ftp://x"}, "http"),
        ({"extra_body": "{no"}, "not valid JSON"),
        ({"extra_body": "[1]"}, "JSON object"),
        ({"budget": 1.0}, "prices"),
        ({"sampler": "best"}, "auto, standard or extended"),
        ({"max_concurrency": 0}, "at least 1"),
    ],
)
def test_options_that_make_no_sense(options, expected):
    with FaultServer() as server, pytest.raises(HarnessError, match=expected):
        model(server, **options)


def test_a_name_is_needed():
    with pytest.raises(HarnessError, match="openai:NAME"):
        create_model("openai", {})


# Keys


def test_the_key_is_sent_and_shown_nowhere(monkeypatch):
    monkeypatch.setenv("SOME_KEY", KEY)
    with FaultServer(key=KEY) as server:
        backend = model(server, api_key_env="SOME_KEY")
        ask(backend, request())
        assert server.seen.headers["authorization"] == f"Bearer {KEY}"
    shown = [repr(backend.endpoint), repr(vars(backend.transport)), backend.identity]
    assert KEY not in " ".join([*shown, str(backend.describe())])


def test_a_server_that_echoes_the_key_is_cleaned(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with FaultServer(key="another") as server, pytest.raises(HarnessError) as caught:
        model(server)
    assert KEY not in str(caught.value)
    assert "OPENAI_API_KEY" in str(caught.value)
    with scripted(says(f"bad key {KEY}", 500)) as server:
        (error,) = ask(model(server, retries=1), request())
    assert KEY not in str(error)
    assert error.__cause__ is None


def test_a_key_in_the_address_is_refused_unseen():
    with pytest.raises(HarnessError) as caught:
        OpenAIModel("toy", {"base_url": f"http://user:{KEY}@127.0.0.1/v1"})
    assert KEY not in str(caught.value)


def test_openai_itself_needs_a_key():
    with pytest.raises(HarnessError, match="set the environment variable OPENAI_API_KEY"):
        OpenAIModel("gpt", {})


# Money


def test_the_ledger_adds_up_and_the_budget_holds(tmp_path):
    file = tmp_path / "ledger.jsonl"
    prices = {"input_price": 1000.0, "output_price": 2000.0, "ledger": str(file)}
    with FaultServer(Faults(throttle=0.2, retry_after=0.0)) as server:
        backend = model(server, budget=1.0, **prices)
        replies = ask(backend, *(request(f"w{i}", max_tokens=50) for i in range(200)))
        paid = [r for r in replies if not isinstance(r, Exception)]
        cost = sum(r.prompt_tokens * 1e-3 + r.completion_tokens * 2e-3 for r in paid)
        assert backend.ledger.spent == pytest.approx(cost)
        assert 0.8 < cost <= 1.0
        assert {type(r) for r in replies if r not in paid} == {HarnessError}
        assert "budget of 1 is spent" in str(next(r for r in replies if r not in paid))
        backend.close()
        again = model(server, budget=1.0, **prices)
        assert again.ledger.spent == pytest.approx(cost)
        (error,) = ask(again, request(max_tokens=50))
        assert isinstance(error, HarnessError)


def test_an_answer_without_usage_costs_what_it_may_have():
    with scripted((200, {}, {"choices": [{"message": {"content": "x"}}]})) as server:
        backend = model(server, input_price=0.0, output_price=1e6)
        ask(backend, request(max_tokens=10))
    assert backend.ledger.spent == pytest.approx(10)


def test_a_broken_ledger_file_is_named(tmp_path):
    (tmp_path / "x").write_text("hello")
    with FaultServer() as server, pytest.raises(HarnessError, match="no ledger"):
        model(server, ledger=str(tmp_path / "x"))


def test_close_closes_the_connections_of_a_loop_that_lives():
    with FaultServer() as server, asyncio.Runner() as runner:
        backend = model(server)
        runner.run(backend.generate(request()))
        client = backend.transport._client
        backend.close()
        assert client.is_closed()


def test_the_registry_and_the_back_end_name_the_same_options():
    from harness.registry import Registry
    from harness_plugins.models import openai as backend

    options = Registry.load().entry("model", "openai").options
    assert {name: option.default for name, option in options.items()} == dict(backend.DEFAULTS)
    assert set(options) >= backend.OpenAIModel.incidental
