"""Agents: a model, its tools and the people who approve them, as one loop of effects on the run's journal."""
