"""Strategies with parameters small enough that a short test run triggers their behavior."""

SHORT = (
    "agentfold", "boundary:20,keep=1,steps=2", "clear:1300,keep=1", "compact:1300", "compact_provider:1300",
    "condenser:14", "context_editing:1300,keep=1,thinking=1", "dashboard:1300,chars=20", "episodes:1300",
    "expandable:20,keep=1,poll=2", "handoff:1300", "hierarchical:1,2", "letta:1500", "mask:2,poll=3", "mask:1,poll=1",
    "mem1", "memory_dir:1300,keep=1", "memory_files:1300,keep=1", "notes", "notes:window=1", "rag:1",
    "rlm:1,1", "rolling_summary:2",
    "self_compact:1300,every=1", "structured_summary:1000,keep=1", "summary:1000,keep=1",
    "summary:1000,keep=1,prefix=cold", "truncate:100", "window:1,step=1", "window:3,step=2",
)  # fmt: skip
