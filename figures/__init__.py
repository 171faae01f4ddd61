"""One module per figure or table of the papers, and a few of our own."""

from . import (
    fig1a,
    fig3,
    fig4,
)

REGISTRY = (
    fig1a,
    fig3,
    fig4,
)
