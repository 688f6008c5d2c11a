"""One round: fetch, leave out what was seen, pass on, remember."""

from relay import config
from relay.fetch import fetch_items
from relay.notify import notify
from relay.store import Store


def run_once():
    store = Store()
    if config.DEBUG:
        print(f"debug: {config.STORE_PATH} holds {len(store.ids)}")
    items, skipped = fetch_items()
    new = []
    for item in items:
        if not store.seen(item[0]):
            store.add(item[0])
            new.append(item)
    notify(new)
    store.save()
    print(f"{len(new)} new, {len(items) - len(new)} seen, {skipped} skipped")
