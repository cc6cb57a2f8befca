"""The definition of ``com.microsoft.GemmaRotaryEmbedding``, which has no CPU kernel.

Its documentation defines it: ``q * cos(emb) + q_rot * sin(emb)``, and the same for k, where q_rot
and k_rot are computed before. The nodes of the definition take its place in the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

OPERATOR = "com.microsoft.GemmaRotaryEmbedding"
#: The operator that a report names; it is also the mark of the nodes of the definition.
DEFINED = f"{OPERATOR}, by its definition: ONNX Runtime has no CPU kernel"


def expand(graph: Any) -> None:
    """Replace every node of this operator in a graph, in place."""
    from onnx import helper, numpy_helper

    nodes = []
    for node in graph.node:
        if f"{node.domain}.{node.op_type}" != OPERATOR:
            nodes.append(node)
            continue
        angle, q, q_rot, k, k_rot = node.input
        unique = node.output[0]
        axis = f"{unique}/axis"
        graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), axis))
        turned = {f: f"{unique}/{f}" for f in ("Cos", "Sin")}
        nodes += [helper.make_node(f, [angle], [name]) for f, name in turned.items()]
        for which, x, rotated, y in zip("qk", (q, k), (q_rot, k_rot), node.output, strict=True):
            products = []
            for (f, table), factor in zip(turned.items(), (x, rotated), strict=True):
                name = f"{unique}/{which}/{f}"
                products.append(f"{name}/product")
                nodes += [
                    helper.make_node("CastLike", [table, x], [f"{name}/cast"]),
                    helper.make_node("Unsqueeze", [f"{name}/cast", axis], [name]),
                    helper.make_node("Mul", [factor, name], products[-1:]),
                ]
            nodes.append(
                helper.make_node(
                    "Add", products, [y], name=f"{node.name or unique}.{which}", doc_string=DEFINED
                )
            )
    del graph.node[:]
    graph.node.extend(nodes)
