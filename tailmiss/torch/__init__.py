"""The adapter: the same weights on torch tensors, and inside trainers."""
