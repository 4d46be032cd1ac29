"""The peers of the ratchet, each as its own documentation uses it.

vodozemac is Olm in Rust: AES-CBC with a shortened HMAC, no associated data, 40 skipped keys. DoubleRatchet is Python,
here with the parts it recommends. A peer that is not installed is left out.
"""

import asyncio
import importlib
import os
import struct
from collections.abc import Callable, Iterator
from typing import Any, Final, Protocol

TEXT: Final = b"p" * 1_024
INSTALL: Final = "pip install vodozemac DoubleRatchet"


class Conversation(Protocol):
    """Two ends of a session that both have heard of each other."""

    def one_way(self, messages: int) -> int: ...

    def ping_pong(self, messages: int) -> int: ...


class Vodozemac:
    def __init__(self) -> None:
        olm: Any = importlib.import_module("vodozemac")
        alice, bob = olm.Account(), olm.Account()
        bob.generate_one_time_keys(1)
        [one_time_key] = bob.one_time_keys.values()
        self._alice = alice.create_outbound_session(bob.curve25519_key, one_time_key)
        first = self._alice.encrypt(TEXT)
        self._bob, _ = bob.create_inbound_session(alice.curve25519_key, first.to_pre_key())
        self.ping_pong(2)

    def one_way(self, messages: int) -> int:
        alice, bob = self._alice, self._bob
        for _ in range(messages):
            assert bob.decrypt(alice.encrypt(TEXT)) == TEXT
        return messages

    def ping_pong(self, messages: int) -> int:
        alice, bob = self._alice, self._bob
        for _ in range(messages // 2):
            assert bob.decrypt(alice.encrypt(TEXT)) == TEXT
            assert alice.decrypt(bob.encrypt(TEXT)) == TEXT
        return messages


class PythonDoubleRatchet:
    def __init__(self) -> None:
        settings = _recommended()
        ratchet: Any = settings.pop("ratchet")
        prekey: Any = importlib.import_module("cryptography.hazmat.primitives.asymmetric.x25519").X25519PrivateKey
        own, secret = prekey.generate(), os.urandom(32)
        self._run = asyncio.Runner().run

        async def open_both() -> tuple[Any, Any]:
            alice, first = await ratchet.encrypt_initial_message(
                **settings,
                shared_secret=secret,
                recipient_ratchet_pub=own.public_key().public_bytes_raw(),
                message=TEXT,
                associated_data=b"",
            )
            bob, _ = await ratchet.decrypt_initial_message(
                **settings,
                shared_secret=secret,
                own_ratchet_priv=own.private_bytes_raw(),
                message=first,
                associated_data=b"",
            )
            return alice, bob

        self._alice, self._bob = self._run(open_both())
        self.ping_pong(2)

    def one_way(self, messages: int) -> int:
        async def talk() -> None:
            for _ in range(messages):
                await self._bob.decrypt_message(await self._alice.encrypt_message(TEXT, b""), b"")

        self._run(talk())
        return messages

    def ping_pong(self, messages: int) -> int:
        async def talk() -> None:
            for _ in range(messages // 2):
                await self._bob.decrypt_message(await self._alice.encrypt_message(TEXT, b""), b"")
                await self._alice.decrypt_message(await self._bob.encrypt_message(TEXT, b""), b"")

        self._run(talk())
        return messages


def open_peers() -> Iterator[tuple[str, Conversation]]:
    """Every peer that is installed; says how to install the others."""
    peers: dict[str, Callable[[], Conversation]] = {"vodozemac": Vodozemac, "DoubleRatchet": PythonDoubleRatchet}
    for name, peer in peers.items():
        try:
            yield name, peer()
        except ModuleNotFoundError:
            print(f"  {name} is not installed and is left out; to compare with it: {INSTALL}")


def _recommended() -> dict[str, Any]:
    library: Any = importlib.import_module("doubleratchet")
    parts: dict[str, Any] = {
        name: importlib.import_module(f"doubleratchet.recommended.{name}")
        for name in ("aead_aes_hmac", "diffie_hellman_ratchet_curve25519", "kdf_hkdf", "kdf_separate_hmacs")
    }
    sha256 = importlib.import_module("doubleratchet.recommended").HashFunction.SHA_256
    hashed = {"_get_hash_function": staticmethod(lambda: sha256)}
    labelled = {**hashed, "_get_info": staticmethod(lambda: b"bench")}

    def bound(associated_data: bytes, header: Any) -> bytes:
        return associated_data + struct.pack(
            ">32sII", header.ratchet_pub, header.previous_sending_chain_length, header.sending_chain_length
        )

    return {
        "ratchet": type("Ratchet", (library.DoubleRatchet,), {"_build_associated_data": staticmethod(bound)}),
        "diffie_hellman_ratchet_class": parts["diffie_hellman_ratchet_curve25519"].DiffieHellmanRatchet,
        "root_chain_kdf": type("Root", (parts["kdf_hkdf"].KDF,), labelled),
        "message_chain_kdf": type("Chain", (parts["kdf_separate_hmacs"].KDF,), hashed),
        "message_chain_constant": b"\x02\x01",
        "dos_protection_threshold": 1_000,
        "max_num_skipped_message_keys": 1_000,
        "aead": type("Aead", (parts["aead_aes_hmac"].AEAD,), labelled),
    }
