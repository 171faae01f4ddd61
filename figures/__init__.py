"""One module per figure or table of the papers, and a few of our own."""
