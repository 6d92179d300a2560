"""Decision trees of the domain ai.onnx.ml: every tree goes down one level at a time, all trees and rows at once.

    node'[b, t] = true[n] if x[b, feature[n]] <= split[n] else false[n]     with n = node[b, t], once per level
    y[b, c]     = sum over t of weight[node[b, t], c]

A leaf leads to itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from compiler.dtype import DType
from compiler.frontend.call import Array, Lowering, OperatorCall
from compiler.frontend.computes import ReduceAxes, at, output_axes, reduced
from compiler.frontend.operators.classes import OneScore, emit_labels, transformed
from compiler.graph.ir import Compute
from compiler.index import Index, LookedUp
from compiler.scalar import Cast, Const, Expr, Load, Lookup, apply

_MODES = ("LEQ", "LT", "GTE", "GT", "EQ", "NEQ", "MEMBER")
_DEEPEST = 1 << 10
_COMPARISONS = {
    "LEQ": lambda x, s: apply("less_equal", x, s),
    "LT": lambda x, s: apply("less", x, s),
    "GTE": lambda x, s: apply("less_equal", s, x),
    "GT": lambda x, s: apply("less", s, x),
    "EQ": lambda x, s: apply("equal", x, s),
    "NEQ": lambda x, s: apply("not", apply("equal", x, s)),
}


@dataclass
class _Forest:
    """Nodes of all trees; `weights` by leaf and target, NaN where the leaf says nothing of a target."""

    features: list[int]
    splits: list[float]
    modes: list[str]
    true: list[int]
    false: list[int]
    missing_is_true: list[bool]
    roots: list[int]
    weights: Array


def _regressor(call: OperatorCall) -> None:
    forest = _by_node_ids(call, "target", call.integer("n_targets", 1))
    scores = _scores(call, forest, call.text("aggregate_function", "SUM"))
    transformed(call, scores, call.text("post_transform", "NONE"))


def _classifier(call: OperatorCall) -> None:
    """Outputs: labels and the scores of all classes. Two may have one score: all leaves are of the first."""
    labels = call.ints("classlabels_int64s")
    if not labels:
        call.unsupported("labels that are text")
    forest = _by_node_ids(call, "class", len(labels))
    used = set(call.ints("class_ids") or [])
    positive = all(w >= 0 for w in _numbers(call, "class_weights"))
    if len(labels) == 2 and used == {0}:
        forest.weights = forest.weights[:, :1]
    scores = _scores(call, forest, "SUM")
    # Where no weight is negative the score is a probability.
    one_score = OneScore(0.5, complement=True) if positive else OneScore(0.0, complement=False)
    emit_labels(call, scores, labels, call.text("post_transform", "NONE"), one_score)


def _ensemble(call: OperatorCall) -> None:
    """As of version 5: leaves are apart from nodes, and a split may be a set of values."""
    forest = _by_places(call)
    function = ("AVERAGE", "SUM", "MIN", "MAX")[call.integer("aggregate_function", 1)]
    scores = _scores(call, forest, function)
    transform = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")[call.integer("post_transform")]
    transformed(call, scores, transform)


def _numbers(call: OperatorCall, name: str) -> list[float]:
    tensor = call.tensor(f"{name}_as_tensor")
    return [float(v) for v in tensor.reshape(-1)] if tensor is not None else call.floats(name) or []


def _by_node_ids(call: OperatorCall, kind: str, targets: int) -> _Forest:
    """Until version 3: nodes are named by tree and number, leaves are nodes."""
    trees, ids = call.ints("nodes_treeids") or [], call.ints("nodes_nodeids") or []
    place = {key: i for i, key in enumerate(zip(trees, ids, strict=True))}
    modes = [m.removeprefix("BRANCH_") for m in call.texts("nodes_modes")]
    tracked = call.ints("nodes_missing_value_tracks_true") or [0] * len(ids)

    def children(side: str) -> list[int]:
        given = enumerate(call.ints(f"nodes_{side}nodeids") or [])
        return [i if modes[i] == "LEAF" else place[trees[i], child] for i, child in given]

    true, false = children("true"), children("false")
    weights = np.full((len(ids), targets), np.nan)
    leaves = zip(
        *(call.ints(f"{kind}_{part}") or [] for part in ("treeids", "nodeids", "ids")),
        _numbers(call, f"{kind}_weights"),
        strict=True,
    )
    for tree, node, target, weight in leaves:
        old = weights[place[tree, node], target]
        weights[place[tree, node], target] = weight + (0 if np.isnan(old) else old)
    below = {c for side in (true, false) for i, c in enumerate(side) if c != i}
    roots = [i for i in range(len(ids)) if i not in below]
    return _Forest(
        call.ints("nodes_featureids") or [],
        _numbers(call, "nodes_values"),
        ["LEQ" if m == "LEAF" else m for m in modes],
        true,
        false,
        [bool(t) for t in tracked],
        roots,
        weights,
    )


def _by_places(call: OperatorCall) -> _Forest:
    splits, codes, leaf_weights = (call.tensor(n) for n in ("nodes_splits", "nodes_modes", "leaf_weights"))
    if splits is None or codes is None or leaf_weights is None:
        call.reject("has no splits, modes or leaf weights")
    count, leaves = splits.size, leaf_weights.size
    targets = call.ints("leaf_targetids") or []
    weights = np.full((count + leaves, call.integer("n_targets", 1)), np.nan)
    weights[count + np.arange(leaves), targets] = leaf_weights
    is_leaf = {side: call.ints(f"nodes_{side}leafs") or [] for side in ("true", "false")}
    branches = {
        side: [
            c + count if leaf else c
            for c, leaf in zip(call.ints(f"nodes_{side}nodeids") or [], own, strict=True)
        ]
        + [count + i for i in range(leaves)]
        for side, own in is_leaf.items()
    }
    tracked = call.ints("nodes_missing_value_tracks_true") or [0] * count
    forest = _Forest(
        [*(call.ints("nodes_featureids") or []), *[0] * leaves],
        [*map(float, splits), *[0.0] * leaves],
        [*(_MODES[int(c)] for c in codes), *["LEQ"] * leaves],
        branches["true"],
        branches["false"],
        [*map(bool, tracked), *[False] * leaves],
        call.ints("tree_roots") or [],
        weights,
    )
    members = call.tensor("membership_values")
    _split_sets(call, forest, [] if members is None else members.tolist())
    return forest


def _split_sets(call: OperatorCall, forest: _Forest, members: list[float]) -> None:
    """A test for a set of values becomes one for each of them, in turn."""
    rest = iter(members)
    for node in [i for i, mode in enumerate(forest.modes) if mode == "MEMBER"]:
        values = []
        for value in rest:
            if np.isnan(value):
                break
            values.append(value)
        if not values:
            call.reject("has an empty set of members")
        last, forest.modes[node], forest.splits[node] = forest.false[node], "EQ", values[0]
        before = node
        for value in values[1:]:
            new = len(forest.modes)
            forest.false[before] = new
            forest.features.append(forest.features[node])
            forest.splits.append(value)
            forest.modes.append("EQ")
            forest.true.append(forest.true[node])
            forest.false.append(last)
            forest.missing_is_true.append(forest.missing_is_true[node])
            before = new
    extra = np.full((len(forest.modes) - len(forest.weights), forest.weights.shape[1]), np.nan)
    forest.weights = np.concatenate([forest.weights, extra])


def _scores(call: OperatorCall, forest: _Forest, function: str) -> str:
    """[rows, targets]: what the leaves say, combined over the trees, plus the base values."""
    _check(call, forest)
    node = _leaves(call, forest)
    rows, trees = call.builder.shapes[node]
    dtype = DType.F64 if call.dtype(call.value(0)) is DType.F64 else DType.F32
    if function not in ("SUM", "AVERAGE", "MIN", "MAX"):
        call.reject(f"has the unknown aggregate_function {function[:20]!r}")
    reducer = {"MIN": "min", "MAX": "max"}.get(function, "sum")
    none = {"min": inf, "max": -inf}.get(reducer, 0.0)
    weights = np.where(np.isnan(forest.weights), none, forest.weights)
    table = call.intermediate_constant(weights.astype(dtype.numpy), "weights")
    axes, inner = output_axes((rows, weights.shape[1])), ReduceAxes()
    row, target = at(axes)
    found = LookedUp(f"@{node}", len(weights))
    body: Expr = Lookup(found, Load(node, (row, inner.index(trees))), Load(table, (Index.of(found), target)))
    total: Expr = Load(call.intermediate(reduced(axes, inner, reducer, body, dtype), "total"), at(axes))
    if function == "AVERAGE":
        total = apply("div", total, Const(float(trees), dtype))
    elif reducer != "sum":
        total = apply("select", apply("equal", total, Const(none, dtype)), Const(0.0, dtype), total)
    base = _numbers(call, "base_values")
    if base and len(base) == weights.shape[1]:
        added = call.intermediate_constant(np.asarray(base, dtype.numpy), "base")
        total = apply("add", total, Load(added, (target,)))
    elif base:
        call.reject(f"has {len(base)} base values for {weights.shape[1]} targets")
    return call.intermediate(Compute(axes, (), None, total, dtype), "scores")


def _check(call: OperatorCall, forest: _Forest) -> None:
    count = len(forest.modes)
    parts: Sequence[Sequence[Any]] = (forest.features, forest.splits, forest.true, forest.false)
    if len(call.shape(0)) != 2 or any(len(p) != count for p in parts) or not forest.roots:
        call.reject(f"has {count} nodes whose attributes differ in length, or an input that is no table")
    inside = all(0 <= c < count for c in (*forest.true, *forest.false, *forest.roots))
    if not inside or not all(0 <= f < call.shape(0)[1] for f in forest.features):
        call.reject("has a node that leads to no node or looks at no column")
    if any(mode not in _COMPARISONS for mode in forest.modes):
        call.unsupported(f"modes {sorted(set(forest.modes) - _COMPARISONS.keys())}")


def _depth(call: OperatorCall, forest: _Forest) -> int:
    """Tests on the longest way from a root to a leaf."""
    level, reached = 0, set(forest.roots)
    while any(forest.true[n] != n or forest.false[n] != n for n in reached):
        reached = {c for n in reached for c in (forest.true[n], forest.false[n])}
        level += 1
        if level > _DEEPEST:
            call.reject(f"has trees of more than {_DEEPEST} levels, or a circle")
    return level


def _leaves(call: OperatorCall, forest: _Forest) -> str:
    """[rows, trees]: the leaf that each row ends in."""
    value, (rows, _) = call.value(0), call.shape(0)
    kind = call.dtype(value)
    dtype = DType.F64 if kind is DType.F64 else DType.F32
    tables = {
        "feature": np.asarray(forest.features, np.int32),
        "split": np.asarray(forest.splits).astype(dtype.numpy),
        "true": np.asarray(forest.true, np.int32),
        "false": np.asarray(forest.false, np.int32),
        "mode": np.asarray([list(_COMPARISONS).index(m) for m in forest.modes], np.int32),
        "missing": np.asarray(forest.missing_is_true),
    }
    names = {name: call.intermediate_constant(array, name) for name, array in tables.items()}
    axes = output_axes((rows, len(forest.roots)))
    roots = call.intermediate_constant(np.asarray(forest.roots, np.int32), "roots")
    node = call.intermediate(Compute(axes, (), None, Load(roots, at(axes)[1:]), DType.I32), "node0")
    for level in range(_depth(call, forest)):
        found = LookedUp(f"@{node}.node", len(forest.modes))
        feature = LookedUp(f"@{node}.feature", call.shape(0)[1])

        def entry(name: str, found: LookedUp = found) -> Load:
            return Load(names[name], (Index.of(found),))

        x: Expr = Load(value, (at(axes)[0], Index.of(feature)))
        x = x if kind is dtype else Cast(x, dtype)
        goes = _goes_true(forest, x, entry)
        chosen = apply("select", goes, entry("true"), entry("false"))
        body = Lookup(found, Load(node, at(axes)), Lookup(feature, entry("feature"), chosen))
        node = call.intermediate(Compute(axes, (), None, body, DType.I32), f"node{level + 1}")
    return node


def _goes_true(forest: _Forest, x: Expr, entry: Any) -> Expr:
    modes = sorted(set(forest.modes), key=list(_COMPARISONS).index)
    tests = [_COMPARISONS[mode](x, entry("split")) for mode in modes]
    goes: Expr = tests[-1]
    for mode, test in zip(reversed(modes[:-1]), reversed(tests[:-1]), strict=True):
        own = apply("equal", entry("mode"), Const(list(_COMPARISONS).index(mode), DType.I32))
        goes = apply("select", own, test, goes)
    if any(forest.missing_is_true):
        missing = apply("and", apply("not", apply("equal", x, x)), entry("missing"))
        goes = apply("or", goes, missing)
    return goes


LOWERINGS: Mapping[str, Lowering] = {
    "TreeEnsembleRegressor": _regressor,
    "TreeEnsembleClassifier": _classifier,
    "TreeEnsemble": _ensemble,
}
