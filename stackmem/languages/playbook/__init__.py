"""Playbooks: programs in prose, whose every step a model executes and an orchestrator checks."""
