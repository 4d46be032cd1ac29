"""E-mail through a real SMTP server (aiosmtpd): what arrives, and what each refusal means."""

import email
import email.policy
from asyncio import WriteTransport
from collections.abc import Iterator
from email.message import EmailMessage
from pathlib import Path

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from restante.client.channels import Channels, ChunkEnd
from restante.model.error_codes import Code
from restante.model.states import State
from restante.policy.channel_platforms import Format, Platform
from restante.policy.channel_rate_limit import ChannelLimits
from restante.ports.channel_adapter import NoAnswer, NotSent, Outgoing, SendRefused
from restante.runtime.channels.adapters.smtp import SmtpAdapter
from restante.runtime.channels.channel_config import Registered
from restante.runtime.channels.secret import Secret
from support.channels.fixtures import StillDice, draft
from support.relay.node_processes import free_port
from support.system.wait_until import LIMIT_S


class Mailbox:
    """What the server does with a message depends on who it is for."""

    def __init__(self) -> None:
        self.mails: list[EmailMessage] = []

    async def handle_RCPT(  # noqa: N802 - aiosmtpd calls it so
        self, _server: SMTP, _session: Session, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if address.startswith("nobody@"):
            return "550 5.1.1 no such user here"
        if address.startswith("later@"):
            return "450 4.2.1 mailbox busy"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802 - as above
        assert isinstance(envelope.content, bytes)
        if envelope.rcpt_tos[0].startswith("full@"):
            return "552 5.3.4 message too big for this system"
        mail = email.message_from_bytes(envelope.content, policy=email.policy.default)
        assert isinstance(mail, EmailMessage)
        self.mails.append(mail)
        if envelope.rcpt_tos[0].startswith("silent@") and isinstance(server.transport, WriteTransport):
            server.transport.abort()
        return "250 OK"


def only_with_a_password(
    _server: SMTP, _session: Session, _envelope: Envelope, mechanism: str, data: object
) -> AuthResult:
    assert mechanism
    return AuthResult(success=isinstance(data, LoginPassword) and data.password == b"right")


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def port(mailbox: Mailbox) -> Iterator[int]:
    free = free_port()
    controller = Controller(
        mailbox,
        hostname="127.0.0.1",
        port=free,
        authenticator=only_with_a_password,
        auth_require_tls=False,
        ready_timeout=LIMIT_S,
    )
    controller.start()
    yield free
    controller.stop()


def adapter(port: int, password: str | None = None) -> SmtpAdapter:
    return SmtpAdapter(
        host="127.0.0.1",
        port=port,
        sender="restante@example.org",
        starttls=False,
        user="us" if password else None,
        password=Secret(password) if password else None,
        socket_timeout_s=5,
    )


def outgoing(chat: str) -> Outgoing:
    return Outgoing(chat=chat, text="hi", plain="hi", format=Format.PLAIN, key="k1", thread_key="k1")


async def delivered(directory: Path, port: int, markdown: str, chat: str) -> list[ChunkEnd]:
    ends: list[ChunkEnd] = []

    async def after(end: ChunkEnd) -> None:
        ends.append(end)

    made = Registered(
        name="ops", adapter="smtp", platform=Platform.EMAIL, limits=ChannelLimits(), make=lambda: adapter(port)
    )
    channels = Channels.open(directory / "mail.db", {"ops": made}, entropy=StillDice(1), after=after)
    await channels.deliver(draft(markdown, chat=chat, title="Disk\nfull"))
    await channels.drain()
    await channels.close()
    return ends


async def test_a_mail_has_both_texts_and_a_name_of_its_own(tmp_path: Path, port: int, mailbox: Mailbox) -> None:
    [end] = await delivered(tmp_path, port, "**Disk** full at é", "ops@example.org")
    [mail] = mailbox.mails
    assert (mail["From"], mail["To"], mail["Subject"]) == ("restante@example.org", "ops@example.org", "Disk full")
    plain, rich = mail.get_body(("plain",)), mail.get_body(("html",))
    assert plain is not None
    assert rich is not None
    assert plain.get_content().strip() == "Disk full at é"
    assert "<strong>Disk</strong> full at é" in rich.get_content()
    assert mail["Message-ID"] == f"<{end.message_id.hex()}@example.org>" == end.name


async def test_later_chunks_answer_the_first_so_that_they_stand_together(
    tmp_path: Path, port: int, mailbox: Mailbox
) -> None:
    await delivered(tmp_path, port, "\n\n".join(f"{n} " + "word " * 12_000 for n in range(3)), "ops@example.org")
    first, *later = mailbox.mails
    assert len(later) >= 1
    assert first["In-Reply-To"] is None
    assert {mail["In-Reply-To"] for mail in later} == {first["Message-ID"]}
    count = 1 + len(later)
    assert [mail["Subject"] for mail in mailbox.mails] == [f"Disk full ({n}/{count})" for n in range(1, count + 1)]


async def test_an_address_that_does_not_exist_is_a_final_refusal(tmp_path: Path, port: int) -> None:
    [end] = await delivered(tmp_path, port, "hi", "nobody@example.org")
    assert (end.state, end.code) == (State.DEAD, Code.CHANNEL_REFUSED)


async def test_a_busy_mailbox_is_no_final_refusal(tmp_path: Path, port: int) -> None:
    assert await delivered(tmp_path, port, "hi", "later@example.org") == []


async def test_a_mail_too_large_is_said_to_be_too_long(port: int) -> None:
    with pytest.raises(SendRefused) as refusal:
        await adapter(port).send(outgoing("full@example.org"))
    assert refusal.value.said == "message is too long"


async def test_a_server_that_goes_away_after_the_text_leaves_us_unsure(port: int, mailbox: Mailbox) -> None:
    with pytest.raises(NoAnswer):
        await adapter(port).send(outgoing("silent@example.org"))
    assert len(mailbox.mails) == 1


async def test_a_server_that_is_not_there_or_does_not_let_us_in_got_nothing(port: int, mailbox: Mailbox) -> None:
    with pytest.raises(NotSent):
        await adapter(1).send(outgoing("a@example.org"))
    with pytest.raises(NotSent):
        await adapter(port, "wrong").send(outgoing("a@example.org"))
    assert mailbox.mails == []
    assert await adapter(port, "right").check() == "the mail server answers and accepts the password"


async def test_a_header_cannot_be_smuggled_in(port: int, mailbox: Mailbox) -> None:
    message = Outgoing(
        chat="a@example.org", text="x", plain="x", format=Format.PLAIN, key="k", thread_key="k", title="a\r\nBcc: b@c.d"
    )
    await adapter(port).send(message)
    assert mailbox.mails[0]["Bcc"] is None
    assert mailbox.mails[0]["Subject"] == "a Bcc: b@c.d"
