"""The request table and the flow-control windows of a link, against simple models."""

from itertools import accumulate

from hypothesis import given
from hypothesis import strategies as st

from restante.core.link.requests import LONGEST_ANSWER_S, MAX_IN_FLIGHT, RequestTable
from restante.core.link.windows import (
    CREDIT_INTERVAL_BLOBS,
    CREDIT_INTERVAL_BYTES,
    MAX_UNTAKEN_BLOBS,
    MAX_UNTAKEN_BYTES,
    WINDOW_BLOBS,
    WINDOW_BYTES,
    ReceiveWindow,
    SendWindow,
)
from restante.node.mailbox_family import PAGE_BLOBS, PAGE_BYTES
from support.spec.clauses import clause

TIMEOUT_S = 10.0
HEAD_BYTES = 25  # of a BLOB frame


@given(st.lists(st.tuples(st.sampled_from(["open", "close", "extend", "expire"]), st.integers(0, 30)), max_size=60))
def test_a_request_is_open_from_its_number_to_its_answer_or_its_deadline(steps: list[tuple[str, int]]) -> None:
    table: RequestTable[str] = RequestTable(timeout_s=TIMEOUT_S)
    model: dict[int, tuple[float, str]] = {}
    opened: dict[int, float] = {}
    now_s = 0.0
    for step, value in steps:
        now_s += value / 10
        if step == "open":
            number = table.open(f"caller {value}", now_s=now_s)
            assert number > 0
            assert number not in model
            model[number] = (now_s + TIMEOUT_S, f"caller {value}")
            opened[number] = now_s
        elif step == "close":
            found = model.pop(value, None)
            assert table.close(value) == (None if found is None else found[1])
        elif step == "extend":
            assert table.get(value) == (model[value][1] if value in model else None)
            if value in model:
                table.extend(value, now_s=now_s)
            if value in model and now_s < opened[value] + LONGEST_ANSWER_S:
                model[value] = (now_s + TIMEOUT_S, model.pop(value)[1])
        else:
            late = [number for number, (due_s, _) in model.items() if due_s <= now_s]
            assert table.expire(now_s) == tuple(model.pop(number)[1] for number in late)
        assert len(table) == len(model)
        assert table.next_due_s == min((due_s for due_s, _ in model.values()), default=None)


@clause("6.8", "7.12")
def test_parts_of_an_answer_keep_a_request_open_for_a_minute_and_no_longer() -> None:
    table: RequestTable[str] = RequestTable(timeout_s=TIMEOUT_S)
    number = table.open("caller", now_s=0.0)
    for now_s in range(1, 71):
        table.extend(number, now_s=float(now_s))
    assert table.expire(LONGEST_ANSWER_S + TIMEOUT_S) == ("caller",)


def test_a_number_in_use_is_not_given_again_when_numbers_wrap() -> None:
    table: RequestTable[str] = RequestTable(timeout_s=TIMEOUT_S)
    table._last = 2**32 - 2
    assert [table.open("caller", now_s=0.0) for _ in range(3)] == [2**32 - 1, 1, 2]
    table._last = 2**32 - 2
    assert table.open("caller", now_s=0.0) == 3


def test_a_table_is_full_at_its_limit() -> None:
    table: RequestTable[int] = RequestTable(timeout_s=TIMEOUT_S)
    for number in range(MAX_IN_FLIGHT):
        assert not table.is_full
        table.open(number, now_s=0.0)
    assert table.is_full
    assert table.close_all() == list(range(MAX_IN_FLIGHT))
    assert not len(table)


@clause("6.4")
@given(st.lists(st.tuples(st.integers(1, 300), st.integers(1, 600_000), st.booleans()), max_size=60))
def test_a_send_window_counts_exactly_what_has_no_credit(pages: list[tuple[int, int, bool]]) -> None:
    window = SendWindow()
    model: list[tuple[int, int, int]] = []
    through = 0
    for blobs, size_bytes, gets_credit in pages:
        through += blobs
        window.sent(through=through, blobs=blobs, size_bytes=size_bytes)
        model.append((through, blobs, size_bytes))
        if gets_credit:
            middle = model[len(model) // 2][0]
            window.credit(middle)
            model = [page for page in model if page[0] > middle]
        in_flight = (sum(page[1] for page in model), sum(page[2] for page in model))
        assert window.is_open == (in_flight[0] < WINDOW_BLOBS and in_flight[1] < WINDOW_BYTES)
        assert window.sent_through == through


def test_credit_is_given_every_so_many_blobs() -> None:
    window = ReceiveWindow()
    assert window.received(2 * CREDIT_INTERVAL_BLOBS + 2, 2 * CREDIT_INTERVAL_BLOBS + 2)
    gave = [window.taken(1, 1) for _ in range(2 * CREDIT_INTERVAL_BLOBS + 2)]
    assert [place for place, given_now in enumerate(gave, 1) if given_now] == [
        CREDIT_INTERVAL_BLOBS,
        2 * CREDIT_INTERVAL_BLOBS,
    ]


def test_credit_is_given_every_so_many_bytes() -> None:
    window = ReceiveWindow()
    assert window.received(4, 2 * CREDIT_INTERVAL_BYTES)
    gave = [window.taken(1, CREDIT_INTERVAL_BYTES // 2) for _ in range(4)]
    assert gave == [False, True, False, True]


@clause("6.4")
@given(st.lists(st.lists(st.integers(1, PAGE_BYTES), min_size=1, max_size=PAGE_BLOBS), max_size=40))
def test_a_client_that_takes_everything_always_opens_the_nodes_window(pages: list[list[int]]) -> None:
    node, client = SendWindow(), ReceiveWindow()
    for sizes in pages:
        assert node.is_open
        fitting = sum(total <= PAGE_BYTES for total in accumulate(sizes))
        page = sizes[:fitting]
        first = node.sent_through
        node.sent(through=first + len(page), blobs=len(page), size_bytes=sum(page) + len(page) * HEAD_BYTES)
        assert client.received(len(page), sum(page))
        for number, size in enumerate(page, first + 1):
            if client.taken(1, size):
                node.credit(number)
    assert node.is_open


def test_a_node_that_sends_far_beyond_the_window_is_noticed() -> None:
    window = ReceiveWindow()
    assert window.received(MAX_UNTAKEN_BLOBS, 0)
    assert not window.received(1, 0)
    window = ReceiveWindow()
    assert window.received(1, MAX_UNTAKEN_BYTES)
    assert not window.received(1, 1)
