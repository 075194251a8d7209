"""Model replicas on Ray: over the GPUs or cores of this machine, or of a cluster.

    harness run --task gamesolve --model FOLDER --replicas 4

Imports no Ray until replicas are asked for.
"""
