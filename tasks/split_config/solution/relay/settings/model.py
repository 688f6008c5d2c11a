"""The settings as values."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class StoreSettings:
    path: str
    keep: int


@dataclass(frozen=True)
class FetchSettings:
    inbox: str
    max_items: int
    keywords: tuple
    min_score: float


@dataclass(frozen=True)
class NotifySettings:
    outbox: str
    format: str
    token: str = field(repr=False)


@dataclass(frozen=True)
class Settings:
    debug: bool
    store: StoreSettings
    fetch: FetchSettings
    notify: NotifySettings
