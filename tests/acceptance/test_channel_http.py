"""The adapters that speak HTTP against a server that gives each documented reply, over real sockets."""

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from restante.client.channels import Channels, ChunkEnd
from restante.model.error_codes import Code
from restante.model.states import State
from restante.policy.channel_errors import PERMANENT_TEXTS
from restante.policy.channel_platforms import Format
from restante.policy.channel_rate_limit import ChannelLimits
from restante.ports.channel_adapter import ChannelAdapter, NotSent, Outgoing, SendRefused
from restante.runtime.channels.adapters.apprise import AppriseAdapter
from restante.runtime.channels.adapters.http_client import retry_after_ms
from restante.runtime.channels.adapters.matrix import MatrixAdapter
from restante.runtime.channels.adapters.telegram import TelegramAdapter
from restante.runtime.channels.adapters.webhook import WebhookAdapter
from restante.runtime.channels.channel_config import Registered
from restante.runtime.channels.secret import Secret
from restante.runtime.system import SystemClock
from support.channels.fixtures import StillDice, draft, long_text
from support.channels.http_platform import Asked, HttpPlatform, Reply, as_json, listening, telegram_no, telegram_ok
from support.spec.clauses import clause

TOKEN = "12345:secret-token"  # noqa: S105 - of no bot
IMPATIENT = ChannelLimits(timeout_ms=2_000)
OLD_MODULES = pytest.mark.filterwarnings("ignore:'imghdr' is deprecated:DeprecationWarning")  # apprise looks for it


@pytest.fixture
async def telegram() -> AsyncIterator[HttpPlatform]:
    async with listening(HttpPlatform(telegram_ok)) as platform:
        yield platform


def registered(adapter: ChannelAdapter, limits: ChannelLimits | None = None) -> Registered:
    limits = limits or ChannelLimits()
    return Registered(name="ops", adapter="test", platform=adapter.platform, limits=limits, make=lambda: adapter)


def opened(
    directory: Path,
    adapter: ChannelAdapter,
    ends: list[ChunkEnd] | None = None,
    limits: ChannelLimits | None = None,
) -> Channels:
    async def after(end: ChunkEnd) -> None:
        if ends is not None:
            ends.append(end)

    return Channels.open(
        directory / "mail.db",
        {"ops": registered(adapter, limits)},
        clock=SystemClock(),
        entropy=StillDice(1),
        after=after,
    )


def bot(telegram: HttpPlatform) -> TelegramAdapter:
    return TelegramAdapter(token=Secret(TOKEN), api=telegram.url)


async def one_delivery(
    directory: Path, adapter: ChannelAdapter, markdown: str = "**hi**", **more: Any
) -> ChunkEnd | None:
    """Deliver and drain once; how it ended, None while it waits."""
    ends: list[ChunkEnd] = []
    channels = opened(directory, adapter, ends)
    await channels.deliver(draft(markdown, **more))
    await channels.drain()
    await channels.close()
    return ends[-1] if ends else None


async def test_telegram_gets_html_a_reply_and_a_topic(tmp_path: Path, telegram: HttpPlatform) -> None:
    end = await one_delivery(tmp_path, bot(telegram), chat="-1001", reply_to="7", thread="3")
    assert end is not None
    assert (end.state, end.name) == (State.DELIVERED, "42")
    [asked] = telegram.accepted
    assert asked.path == f"/bot{TOKEN}/sendMessage"
    assert asked.json() == {
        "chat_id": "-1001",
        "text": "<b>hi</b>",
        "parse_mode": "HTML",
        "reply_parameters": {"message_id": 7, "allow_sending_without_reply": True},
        "message_thread_id": 3,
    }


@clause("12.5")
@pytest.mark.parametrize("text", [*PERMANENT_TEXTS, "ambiguous: more than one recipient"])
@pytest.mark.parametrize("status", [400, 403])
async def test_telegrams_final_refusals_end_the_entry_after_one_try(
    tmp_path: Path, telegram: HttpPlatform, text: str, status: int
) -> None:
    telegram.replies.append(telegram_no(status, f"Bad Request: {text}"))
    end = await one_delivery(tmp_path, bot(telegram))
    assert end is not None
    assert (end.state, end.code, len(telegram.asked)) == (State.DEAD, Code.CHANNEL_REFUSED, 1)


@clause("12.4")
async def test_telegrams_retry_after_is_waited_for(tmp_path: Path, telegram: HttpPlatform) -> None:
    telegram.replies.append(telegram_no(429, "Too Many Requests: retry after 1", retry_after=1))
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    end = await one_delivery(tmp_path, bot(telegram))
    assert end is not None
    assert end.state is State.DELIVERED
    assert loop.time() - began_s >= 1.0


@clause("12.4")
async def test_a_success_status_without_json_is_not_sent_again(tmp_path: Path, telegram: HttpPlatform) -> None:
    telegram.replies.append(Reply(status=200, body=b"<html>fine</html>", accepts=True))
    end = await one_delivery(tmp_path, bot(telegram))
    assert end is not None
    assert (end.state, len(telegram.asked)) == (State.DELIVERED, 1)


@clause("12.4")
async def test_telegrams_server_errors_are_tried_three_times(tmp_path: Path, telegram: HttpPlatform) -> None:
    telegram.replies += [
        Reply(status=502, body=b"<html>Bad Gateway</html>"),
        telegram_no(500, "Internal Server Error"),
        Reply(status=503, body=b"\xff\xfe not text"),
    ]
    assert await one_delivery(tmp_path, bot(telegram)) is None
    assert len(telegram.asked) == 3


@clause("12.4")
async def test_what_telegram_cannot_parse_is_sent_as_plain_text(tmp_path: Path, telegram: HttpPlatform) -> None:
    telegram.replies.append(telegram_no(400, "Bad Request: can't parse entities: Unsupported start tag"))
    end = await one_delivery(tmp_path, bot(telegram))
    assert end is not None
    assert end.state is State.DELIVERED
    assert telegram.accepted[-1].json() == {"chat_id": "room", "text": "hi"}


async def test_what_telegram_finds_too_long_arrives_in_parts(tmp_path: Path, telegram: HttpPlatform) -> None:
    telegram.replies.append(telegram_no(400, "Bad Request: message is too long"))
    words = " ".join(f"word{number}" for number in range(60))
    await one_delivery(tmp_path, bot(telegram), words)
    assert " ".join(asked.json()["text"] for asked in telegram.accepted) == words
    assert len(telegram.accepted) > 1


@pytest.mark.parametrize("accepts", [True, False])
@pytest.mark.parametrize("trouble", ["resets", "is_silent"])
async def test_an_answer_that_never_comes_is_followed_by_a_reported_repeat(
    tmp_path: Path, telegram: HttpPlatform, trouble: str, *, accepts: bool
) -> None:
    telegram.replies.append(Reply(accepts=accepts, resets=trouble == "resets", is_silent=trouble == "is_silent"))
    channels = opened(tmp_path, bot(telegram), limits=IMPATIENT if trouble == "is_silent" else None)
    stream = channels.outbox.events()
    await channels.deliver(draft("hi"))
    await channels.drain()
    await channels.close()
    told = [getattr(change, "code", None) async for change in stream if getattr(change, "notice", "") == "retried"]
    assert told == ["may_repeat"]
    assert [asked.json()["text"] for asked in telegram.accepted] == ["hi"] * (2 if accepts else 1)


async def test_nobody_listening_is_no_lost_answer(tmp_path: Path) -> None:
    adapter = TelegramAdapter(token=Secret(TOKEN), api="http://127.0.0.1:1")
    channels = opened(tmp_path, adapter)
    stream = channels.outbox.events()
    await channels.deliver(draft("hi"))
    await channels.drain()
    await channels.close()
    assert [getattr(change, "code", None) async for change in stream] == [None, Code.CHANNEL_UNAVAILABLE]


async def test_no_log_line_and_no_exception_names_the_token(
    tmp_path: Path, telegram: HttpPlatform, caplog: pytest.LogCaptureFixture
) -> None:
    telegram.replies += [Reply(resets=True), telegram_no(500, "no"), telegram_no(400, "chat not found")]
    adapter = bot(telegram)
    with caplog.at_level(logging.DEBUG):
        await one_delivery(tmp_path, adapter)
        broken = TelegramAdapter(token=Secret(TOKEN), api="http://127.0.0.1:1")
        with pytest.raises(NotSent) as refusal:
            await broken.check()
    assert len(telegram.asked) == 3
    assert TOKEN not in caplog.text + str(refusal.value) + repr(vars(adapter))


async def test_five_chunks_keep_their_distance_in_one_chat(tmp_path: Path, telegram: HttpPlatform) -> None:
    adapter = bot(telegram)
    limits = ChannelLimits(chat_interval_ms=100)
    channels = Channels.open(tmp_path / "mail.db", {"ops": registered(adapter, limits)}, entropy=StillDice(1))
    loop = asyncio.get_running_loop()
    await channels.deliver(draft(long_text(5)))
    began_s = loop.time()
    await channels.drain()
    assert len(telegram.accepted) == 5
    assert loop.time() - began_s >= 0.4
    await channels.close()


def webhook_ok(_asked: Asked) -> Reply:
    return as_json(message_id="w-1", accepts=True)


async def test_a_webhook_is_signed_and_carries_its_key(tmp_path: Path) -> None:
    async with listening(HttpPlatform(webhook_ok)) as hook:
        adapter = WebhookAdapter(url=f"{hook.url}/in?x=1", secret=Secret("shared"))
        end = await one_delivery(tmp_path, adapter, "**hi** é", title="T")
    assert end is not None
    assert (end.state, end.name) == (State.DELIVERED, "w-1")
    [asked] = hook.accepted
    signed = asked.headers["x-restante-timestamp"].encode() + b"." + asked.body
    expected = "v1=" + hmac.new(b"shared", signed, hashlib.sha256).hexdigest()
    assert hmac.compare_digest(asked.headers["x-restante-signature"], expected)
    assert asked.headers["idempotency-key"] == asked.json()["key"] == end.message_id.hex()
    assert abs(int(asked.headers["x-restante-timestamp"]) * 1_000 - SystemClock().now_ms()) < 60_000
    sent = asked.json()
    assert (sent["text"], sent["plain"], sent["title"], sent["index"], sent["count"]) == ("hi é", "hi é", "T", 0, 1)


async def test_a_webhook_that_redirects_is_not_followed(tmp_path: Path) -> None:
    async with listening(HttpPlatform(webhook_ok)) as hook:
        hook.replies.append(Reply(status=302, headers={"location": "http://127.0.0.1:1/elsewhere"}))
        await one_delivery(tmp_path, WebhookAdapter(url=hook.url, secret=Secret("shared")))
    assert [asked.path for asked in hook.asked] == ["/", "/"]


def matrix_ok(_asked: Asked) -> Reply:
    return as_json(event_id="$event", accepts=True)


async def test_matrix_gets_a_put_whose_transaction_is_the_key(tmp_path: Path) -> None:
    async with listening(HttpPlatform(matrix_ok)) as server:
        server.replies.append(Reply(accepts=True, resets=True))
        adapter = MatrixAdapter(homeserver=server.url, token=Secret("mx"))
        end = await one_delivery(tmp_path, adapter, chat="!room:x", reply_to="$old", thread="$top")
    assert end is not None
    assert (end.state, end.name) == (State.DELIVERED, "$event")
    first, again = server.accepted
    assert first.path == again.path
    assert first.path.endswith(f"/rooms/%21room%3Ax/send/m.room.message/{end.message_id.hex()}")
    assert (first.method, first.headers["authorization"]) == ("PUT", "Bearer mx")
    assert first.json() == {
        "msgtype": "m.text",
        "body": "hi",
        "format": "org.matrix.custom.html",
        "formatted_body": "<p><strong>hi</strong></p>",
        "m.relates_to": {"rel_type": "m.thread", "event_id": "$top", "m.in_reply_to": {"event_id": "$old"}},
    }


@pytest.mark.parametrize(
    ("status", "errcode", "said"),
    [
        (403, "M_FORBIDDEN", "not a member"),
        (404, "M_NOT_FOUND", "chat not found"),
        (413, "M_TOO_LARGE", "message is too long"),
        (429, "M_LIMIT_EXCEEDED", "too many requests"),
    ],
)
async def test_matrix_codes_are_said_in_the_words_of_the_classifier(status: int, errcode: str, said: str) -> None:
    async with listening(HttpPlatform(matrix_ok)) as server:
        server.replies.append(as_json(status, errcode=errcode, error="x", retry_after_ms=1_500))
        adapter = MatrixAdapter(homeserver=server.url, token=Secret("mx"))
        with pytest.raises(SendRefused) as refusal:
            await adapter.send(outgoing())
        await adapter.close()
    assert (refusal.value.said, refusal.value.status, refusal.value.retry_after_ms) == (said, status, 1_500)


def outgoing(chat: str = "room", text: str = "hi") -> Outgoing:
    return Outgoing(chat=chat, text=text, plain=text, format=Format.PLAIN, key="k", thread_key="k")


@OLD_MODULES
async def test_apprise_reaches_a_platform_by_its_url(tmp_path: Path) -> None:
    async with listening(HttpPlatform(lambda _asked: Reply(accepts=True))) as server:
        adapter = AppriseAdapter(url=Secret(server.url.replace("http://", "json://") + "/{chat}"))
        end = await one_delivery(tmp_path, adapter, "hello", chat="a b", title="T")
        assert end is not None
        assert end.state is State.DELIVERED
    [asked] = server.accepted
    assert asked.path.rstrip("/") == "/a%20b"
    assert (asked.json()["title"], asked.json()["message"]) == ("T", "hello")


@OLD_MODULES
async def test_a_refusal_behind_apprise_is_a_refusal() -> None:
    async with listening(HttpPlatform(lambda _asked: Reply(status=500))) as server:
        adapter = AppriseAdapter(url=Secret(server.url.replace("http://", "json://")))
        with pytest.raises(SendRefused) as refusal:
            await adapter.send(outgoing())
    assert "500" in refusal.value.said


@pytest.mark.parametrize(
    ("told", "wait_ms"),
    [
        ("120", 120_000),
        ("0", 0),
        ("99999999999999999999999", 30 * 86_400_000),
        ("Fri, 15 Jan 2027 08:00:10 GMT", 10_000),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0),
        ("soon", None),
        ("-5", None),
        ("", None),
    ],
)
def test_a_retry_after_header_is_seconds_or_a_date(told: str, wait_ms: int | None) -> None:
    assert retry_after_ms(told, now_ms=1_800_000_000_000) == wait_ms


async def test_an_endless_answer_is_read_no_further_than_needed(telegram: HttpPlatform) -> None:
    telegram.replies.append(Reply(status=400, body=json.dumps({"x": "y" * 900_000}).encode()))
    adapter = bot(telegram)
    with pytest.raises(SendRefused) as refusal:
        await adapter.send(outgoing())
    await adapter.close()
    assert len(refusal.value.said) <= 65_536
