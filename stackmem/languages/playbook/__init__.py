"""Playbooks: programs in prose. A model executes each step and an orchestrator checks it."""
