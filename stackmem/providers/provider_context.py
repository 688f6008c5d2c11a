"""Requests in which the provider itself edits or summarizes the prompt: what each model sends for them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from stackmem.core.facts import ModelFailed, ModelReplied
from stackmem.core.messages import (
    ANTHROPIC_SUMMARY,
    FailureKind,
    PromptEdits,
    ProviderRequest,
    View,
    provider_summary,
)
from stackmem.core.requests import AskModel

from .failures import failed

EDITING_BETA = "context-management-2025-06-27"
SUMMARY_BETA = "compact-2026-09-04"


def as_sent(request: AskModel, name: str, *, edits: bool = False, reads: str = "") -> AskModel | ModelFailed:
    """Return the request with the messages that a provider receives, or the failure if it cannot do what is asked.

    Args:
        name: The model's name, for the message.
        edits: Whether the provider edits prompts.
        reads: The type of the summaries that the provider writes and reads; empty if it has none.
    """
    provider = request.view.provider
    if provider is None:
        return request
    if provider.edits is not None and not edits:
        return failed(
            "rejected",
            f"{name} cannot edit the context; use a model of Anthropic's API (anthropic/NAME), or the strategy clear, "
            "which clears results here",
        )
    if provider.summarizes and not reads:
        return failed(
            "rejected",
            f"{name} cannot compact a conversation; use anthropic/NAME or responses/NAME, or the strategy compact, "
            "for which the model writes the summary",
        )
    written = provider.summary
    if written is None or written.get("type") == reads:
        sent = View(request.view.system, request.view.tools, provider.messages, provider.breakpoints, provider)
        return replace(request, view=sent)
    if written.get("type") == ANTHROPIC_SUMMARY and not provider.summarizes:
        return request  # the view has its text
    return failed(
        "rejected",
        f"{name} cannot read the summary that another provider wrote; continue with a model of that provider, or fork "
        "the run before the summary",
    )


def request_fields(provider: ProviderRequest | None, *, thinks: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the fields of a Messages request, and the betas that it needs."""
    if provider is None:
        return {}, ()
    fields: dict[str, Any] = {}
    betas: list[str] = []
    if provider.summarizes:
        fields["compaction"] = {"type": "summarize"}
    if provider.summarizes or provider.summary is not None:
        betas.append(SUMMARY_BETA)
    if provider.edits is not None and (edits := edit_fields(provider.edits, thinks=thinks)):
        fields["context_management"] = {"edits": edits}
        betas.append(EDITING_BETA)
    return fields, tuple(betas)


def edit_fields(edits: PromptEdits, *, thinks: bool) -> list[dict[str, Any]]:
    """Return the edits as the Messages API spells them. Thinking comes first, and only if the request has thinking."""
    spelled: list[dict[str, Any]] = []
    if thinks:
        turns = {"type": "thinking_turns", "value": edits.thinking_turns}
        spelled.append({"type": "clear_thinking_20251015", "keep": turns if edits.thinking_turns else "all"})
    if edits.tokens:
        results: dict[str, Any] = {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "input_tokens", "value": edits.tokens},
            "keep": {"type": "tool_uses", "value": edits.keep},
        }
        if edits.least:
            results["clear_at_least"] = {"type": "input_tokens", "value": edits.least}
        spelled.append(results)
    return spelled


def summarized(answer: ModelReplied) -> ModelReplied | ModelFailed:
    """Return the reply if it has the provider's summary, otherwise the failure."""
    if provider_summary(answer.parts) is not None:
        return answer
    reason = f": {answer.detail}" if answer.detail else ""
    kind: FailureKind = "rejected" if answer.stop == "refused" else "incomplete"
    return failed(kind, f"the provider wrote no summary (it stopped as {answer.stop!r}{reason})")
