"""Sections of the dashboard on work that goes on without a person."""
