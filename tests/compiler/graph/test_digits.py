from compiler.graph.digits import with_digits_joined
from compiler.index import Index

A, B = Index.of("a"), Index.of("b")


def test_a_quotient_and_its_remainder_are_one_number() -> None:
    assert with_digits_joined(A // 4 * 4 + A % 4) == A
    assert with_digits_joined(A // 4 * 12 + A % 4 * 3 + B + 5) == A * 3 + B + 5
    assert with_digits_joined((A + B * 3) // 4 * 4 + (A + B * 3) % 4) == A + B * 3


def test_other_digits_stay() -> None:
    for index in (A // 4 * 8 + A % 4, A // 4 * 4 + B % 4, A // 4 * 4 + A % 2, A + B):
        assert with_digits_joined(index) is index
