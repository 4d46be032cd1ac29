from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Envelope(_message.Message):
    __slots__ = ("version", "inbox_key", "expires_at_ms", "sealed")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INBOX_KEY_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    version: int
    inbox_key: bytes
    expires_at_ms: int
    sealed: bytes
    def __init__(self, version: _Optional[int] = ..., inbox_key: _Optional[bytes] = ..., expires_at_ms: _Optional[int] = ..., sealed: _Optional[bytes] = ...) -> None: ...
