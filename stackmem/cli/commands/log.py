"""``stackmem log``: a bench's log, which only grows: held against its ledger, proofs of it, and packs handed in."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import typer

from stackmem.bench.audit import audit, hand_in, prove
from stackmem.bench.log import LogProof, refuse_false
from stackmem.cli.options import Json, absolute, argument, kept_or_packed
from stackmem.cli.screen.text import echo_json, one_line
from stackmem.errors import TraceError, UsageError
from stackmem.foreign.files import read_regular
from stackmem.settings.keys import signing_key, trusted_keys
from stackmem.trace.lineage import RunReader

app = typer.Typer(help="Prove what a bench made, and hand runs in to it.", no_args_is_help=True)

_DIR = argument("DIR", "The bench's folder.")
_PACK = argument("RUN", "A run's folder, id, prefix, or 'last'; or a packed run.")


@app.command("check", short_help="Hold a bench's ledger against its log.")
def check_command(bench: str = _DIR, json: Json = False) -> None:
    """Check that every row of a bench's ledger is in its log, and that the log is the one that was signed."""
    checked = audit(absolute(bench), trusted_keys(os.environ))
    if json:
        echo_json(checked)
        return
    typer.echo(f"{checked.entries:,} entries, root {checked.root}; all {checked.rows:,} rows of the ledger are in it")
    by = f"by {one_line(checked.signed_by)}" if checked.signed_by else "by nobody"
    typer.echo(f"the first {checked.signed:,} are signed {by}")


@app.command("prove", short_help="Print the proof that a trial or run is in a bench's log.")
def prove_command(
    bench: str = _DIR,
    named: str = argument("ENTRY", "A trial's id, a handed-in run's, or a digest."),
) -> None:
    """Print, as JSON, the proof that a trial or a run belongs to a bench's log."""
    echo_json(prove(absolute(bench), named))


@app.command("verify", short_help="Check a proof, and the run that it is about.")
def verify_command(
    proof: str = argument("PROOF", "A file that stackmem log prove made."),
    run: str | None = argument("RUN", "The run, or its pack, that must be the one in the log.", default=None),
) -> None:
    """Check that a proof holds, that a key you trust signed the log, and that it is about this run."""
    path = absolute(proof)
    try:
        known = msgspec.json.decode(read_regular(path), type=LogProof)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no proof ({error}); stackmem log prove makes one") from error
    signer = refuse_false(known, trusted_keys(os.environ))
    if run is not None:
        with kept_or_packed(run) as folder:
            _refuse_another(folder, known)
    entry = known.entry
    typer.echo(
        f"{one_line(entry.trial or entry.run)} ({one_line(entry.outcome)}) is entry {known.index + 1:,} of "
        f"{known.head.size:,} in the log with root {known.head.root}, signed by {one_line(signer)}"
    )


def _refuse_another(folder: Path, proof: LogProof) -> None:
    reader = RunReader(folder)
    for _ in reader:
        pass
    if reader.digest != proof.entry.digest:
        raise TraceError(
            f"{folder.name} ends with the digest {reader.digest[:16]}… and the log has "
            f"{ascii(proof.entry.digest)[1:17]}…: it is another run, or was changed"
        )


@app.command("add", short_help="Hand a signed run in to a bench's log, once.")
def add_command(bench: str = _DIR, run: str = _PACK, json: Json = False) -> None:
    """Hand in a run that a key you trust signed to its end; a run counts once, and so does one that goes on from it."""
    with kept_or_packed(run) as folder:
        entry = hand_in(absolute(bench), folder, trusted_keys(os.environ), lambda: signing_key(os.environ))
    if json:
        echo_json(entry)
        return
    typer.echo(f"{one_line(entry.run)} ({one_line(entry.outcome)}) is in the log")
