"""The operator and the layer in the names that TensorFlow and JAX give to operations."""

from __future__ import annotations


def split_scope(tf_op: str, name: str) -> tuple[str | None, str | None]:
    """Take an operation's name apart.

    Args:
        tf_op: TensorFlow's ``name:type``, for example ``"model/dense/MatMul:MatMul"``; JAX writes its path before
            the colon and nothing behind it. ``"XlaModule:"`` says nothing.
        name: The name of the HLO's metadata, for example ``"jit(loss)/jvp(bsd,de->bse)/dot_general"``.

    Returns:
        The layer (outermost first, joined by ``/``) and the operator; each None where it is not told.

    Example:
        >>> split_scope("model/dense/MatMul:MatMul", "")
        ('model/dense', 'MatMul')
        >>> split_scope("", "jit(f)/dot_general")
        ('jit(f)', 'dot_general')
    """
    path, _, kind = tf_op.partition(":")
    if path in {"", "XlaModule"}:
        path, kind = name, ""
    scope, _, last = path.strip("/").rpartition("/")
    if last.endswith(")"):  # a function or a transformation, jit(f): no operator stands behind it
        scope, last = path.strip("/"), ""
    return scope or None, kind or last or None
