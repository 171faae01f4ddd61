"""Simulators that count: they show what happens, and they check the closed forms."""
