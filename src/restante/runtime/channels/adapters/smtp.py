"""E-mail by SMTP, with HTML and plain text. The Message-ID stays the same when a message is sent again."""

import asyncio
import smtplib
import ssl
from email.message import EmailMessage
from email.utils import formatdate
from typing import Final

from restante.policy.channel_platforms import Format, Platform
from restante.ports.channel_adapter import ChannelAdapter, NoAnswer, NotSent, Outgoing, PlatformAck, SendRefused
from restante.runtime.channels.secret import Secret

_TOO_LARGE: Final = 552
_DEFAULT_TITLE: Final = "Message"
_ENHANCED_TOO_LARGE: Final = b"5.3.4"


class SmtpAdapter(ChannelAdapter):
    """`chat` is an e-mail address; `title` becomes the subject. Each message uses one connection.

    Later chunks are replies to the first, so that mail programs show them together.
    """

    platform = Platform.EMAIL

    def __init__(
        self,
        *,
        host: str,
        sender: str,
        port: int = 587,
        starttls: bool = True,
        user: str | None = None,
        password: Secret | None = None,
        socket_timeout_s: int = 10,
    ) -> None:
        self._host = host
        self._port = port
        self._sender = sender
        self._starttls = starttls
        self._user = user
        self._password = password
        self._timeout_s = socket_timeout_s

    async def send(self, message: Outgoing) -> PlatformAck:
        mail = self._mail(message)
        await asyncio.to_thread(self._deliver, mail)
        return PlatformAck(str(mail["Message-ID"]))

    async def check(self) -> str:
        await asyncio.to_thread(self._greet)
        return "the mail server answers" + (" and accepts the password" if self._password else "")

    def _mail(self, message: Outgoing) -> EmailMessage:
        domain = self._sender.rpartition("@")[2]
        title = " ".join((message.title or _DEFAULT_TITLE).split())
        mail = EmailMessage()
        mail["From"] = self._sender
        mail["To"] = message.chat
        mail["Subject"] = title if message.count == 1 else f"{title} ({message.index + 1}/{message.count})"
        mail["Date"] = formatdate()
        mail["Message-ID"] = f"<{message.key}@{domain}>"
        first = f"<{message.thread_key}@{domain}>"
        answered = message.reply_to or (first if message.key != message.thread_key else message.thread)
        if answered:
            mail["In-Reply-To"] = answered
            mail["References"] = answered
        mail.set_content(message.plain)
        if message.format is Format.EMAIL_HTML:
            mail.add_alternative(f"<!DOCTYPE html><html><body>{message.text}</body></html>", subtype="html")
        return mail

    def _connect(self) -> smtplib.SMTP:
        try:
            server = smtplib.SMTP(self._host, self._port, timeout=self._timeout_s)
        except (OSError, smtplib.SMTPException) as problem:
            raise NotSent(f"the mail server cannot be reached ({type(problem).__name__})") from None
        try:
            if self._starttls:
                server.starttls(context=ssl.create_default_context())
            if self._user is not None and self._password is not None:
                server.login(self._user, self._password.reveal())
        except (OSError, smtplib.SMTPException) as problem:
            server.close()
            raise NotSent(f"the mail server refused the login ({type(problem).__name__})") from None
        return server

    def _greet(self) -> None:
        server = self._connect()
        try:
            server.noop()
        finally:
            server.close()

    def _deliver(self, mail: EmailMessage) -> None:
        server = self._connect()
        try:
            server.send_message(mail)
        except smtplib.SMTPRecipientsRefused as refused:
            [(status, said)] = list(refused.recipients.values())[:1]
            raise _refusal(status, said, permanent="invalid recipient") from None
        except smtplib.SMTPResponseException as refused:
            raise _refusal(refused.smtp_code, refused.smtp_error, permanent="") from None
        except smtplib.SMTPNotSupportedError:
            raise SendRefused("invalid recipient: the server does not support this address") from None
        except (OSError, smtplib.SMTPException) as problem:
            raise NoAnswer(f"the mail server did not answer ({type(problem).__name__})") from None
        finally:
            server.close()


def _refusal(status: int, said: bytes | str, *, permanent: str) -> SendRefused:
    """Map an SMTP status. A 5xx answer to RCPT is permanent; of the other answers, only "too large" is final."""
    raw = said if isinstance(said, bytes) else said.encode()
    if status == _TOO_LARGE or raw.startswith(_ENHANCED_TOO_LARGE):
        return SendRefused("message is too long")
    words = raw.decode(errors="replace")
    return SendRefused(f"{permanent}: {words}" if permanent and status >= 500 else words)
