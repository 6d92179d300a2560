"""Bearer tokens: random, hashed in the database, shown once, revocable at once."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

from sqlalchemy import func, select, update

from service.db.insert import affected, insert_new
from service.db.models import TokenRow
from service.db.session import Database, now_s

PREFIX = "luthier_"
_SHOWN = 14


@dataclass(frozen=True, slots=True)
class Token:
    """What is known of a token; `id` is its hash, `prefix` its first characters."""

    id: str
    prefix: str
    created_s: float
    revoked_s: float | None


class TokenStore:
    """Thread-safe. Every method raises DatabaseError."""

    def __init__(self, database: Database) -> None:
        """Use an open database."""
        self._database = database

    def create(self) -> str:
        """A new token in clear; it cannot be shown again."""
        token = PREFIX + secrets.token_urlsafe(32)
        self.register(token)
        return token

    def register(self, token: str) -> None:
        """Accept a token that somebody else made (at least 16 characters)."""
        with self._database.write() as session:
            values = {"digest": token_id(token), "prefix": token[:_SHOWN], "created_s": now_s(session)}
            insert_new(session, TokenRow, [{**values, "revoked_s": None}])

    def accepts(self, token: str) -> bool:
        """Whether it is known and not revoked; asked on every request."""
        found = select(TokenRow.revoked_s).where(TokenRow.digest == token_id(token))
        with self._database.read() as session:
            row = session.execute(found).one_or_none()
        return row is not None and row[0] is None

    def active(self) -> int:
        """How many tokens are accepted."""
        count = select(func.count()).select_from(TokenRow).where(TokenRow.revoked_s.is_(None))
        with self._database.read() as session:
            return int(session.scalar(count) or 0)

    def all(self) -> list[Token]:
        """Every token, oldest first."""
        with self._database.read() as session:
            rows = session.scalars(select(TokenRow).order_by(TokenRow.created_s))
            return [Token(r.digest, r.prefix, r.created_s, r.revoked_s) for r in rows]

    def revoke(self, prefix: str) -> int:
        """Revoke the tokens that begin so; how many those were."""
        chosen = TokenRow.prefix.startswith(prefix[:_SHOWN], autoescape=True) & TokenRow.revoked_s.is_(None)
        with self._database.write() as session:
            return affected(session, update(TokenRow).where(chosen).values(revoked_s=now_s(session)))


def token_id(token: str) -> str:
    """The hash that is stored. Tokens have 256 random bits, so a fast hash is enough."""
    return hashlib.sha256(token.encode()).hexdigest()
