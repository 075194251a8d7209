"""Test-time methods: several replies of one model, made into one.

    harness run --task gamesolve --model majority:8:smollm2      # the most frequent answer
    harness run --task gamesolve --model best-of:8:smollm2       # the one the verifier values most
    harness run --task gamesolve --model self-correct:3:smollm2  # told what is wrong, twice at most
    harness run --task gamesolve --model oracle-of:8:smollm2     # the best by the truth: a bound

``N:MODEL`` holds any other ``--model`` value; ``replay:RUN`` takes the replies of a run with
``--n N`` instead of asking again. The verifier (`Task.verifier`, or ``--model-set verifier=NAME``)
is a reward that reads no truth, and gets samples without any. ``oracle-of`` is marked and never
ranked.
"""
