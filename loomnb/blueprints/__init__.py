"""Stages and steps: a second way of saying what the next move is, on the same run loop, store and asks."""
