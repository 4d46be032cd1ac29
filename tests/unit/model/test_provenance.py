"""Which segments are verified, which are missing, and whose writer is claimed twice."""

from restante.model.provenance import Certainty, MissingSegment, SegmentClaim, provenance_of
from support.spec.clauses import clause


def claim(
    number: int, *, previous: int | None, writer: str = "w", key: str = "k", last: int | None = None
) -> SegmentClaim:
    return SegmentClaim(
        segment=f"{writer}-{number}-{last or number}",
        writer=writer,
        first=number,
        last=last or number,
        digest=f"{writer}{number}{last or ''}",
        previous=None if previous is None else f"{writer}{previous}",
        key=key,
    )


@clause("13.1")
def test_a_whole_chain_is_verified_and_one_taken_out_of_it_is_missed() -> None:
    chain = [claim(1, previous=None), claim(2, previous=1), claim(3, previous=2)]
    whole = provenance_of(chain)
    assert (whole.certainty, whole.verified, whole.missing) == (Certainty.VERIFIED, 3, ())
    cut = provenance_of([chain[0], chain[2]])
    assert cut.missing == (MissingSegment(writer="w", before="w-3-3"),)
    assert cut.verified == 2


def test_a_segment_that_was_shipped_again_with_more_events_breaks_no_chain() -> None:
    found = provenance_of([claim(1, previous=None), claim(2, previous=1), claim(2, previous=1, last=4)])
    assert (found.missing, found.contested) == ((), ())


@clause("13.1")
def test_unsigned_segments_are_counted_and_make_a_report_less_sure() -> None:
    assert provenance_of([None, None]).certainty is Certainty.UNVERIFIED
    mixed = provenance_of([claim(1, previous=None), None])
    assert (mixed.certainty, mixed.unverified) == (Certainty.PARTLY_VERIFIED, 1)
    assert mixed.verified_files == {"w-1-1"}
    assert provenance_of([]).certainty is Certainty.UNVERIFIED


def test_a_writer_that_two_enrolled_keys_claim_counts_as_unverified() -> None:
    mine, other = claim(1, previous=None), claim(2, previous=1, key="other")
    found = provenance_of([mine, other, claim(1, previous=None, writer="x")])
    assert (found.contested, found.verified, found.unverified) == (("w",), 1, 2)
    assert found.verified_files == {"x-1-1"}
