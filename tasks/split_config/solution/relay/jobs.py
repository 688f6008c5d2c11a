"""One round: fetch, leave out what was seen, pass on, remember."""

from relay.fetch import fetch_items
from relay.notify import notify
from relay.settings.model import Settings
from relay.store import Store


def run_once(settings: Settings):
    """Returns the lines to print."""
    store = Store(settings.store)
    lines = [f"debug: {settings.store.path} holds {len(store.ids)}"] if settings.debug else []
    items, skipped = fetch_items(settings.fetch)
    if settings.debug:
        lines += [f"debug: {name} is no feed" for name in skipped]
    new = []
    for item in items:
        if not store.seen(item[0]):
            store.add(item[0])
            new.append(item)
    notify(new, settings.notify)
    store.save()
    return [*lines, f"{len(new)} new, {len(items) - len(new)} seen, {len(skipped)} skipped"]
