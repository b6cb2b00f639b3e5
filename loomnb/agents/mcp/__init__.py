"""Servers of the Model Context Protocol: which may be reached, one call of one of them, and their tools as tools of ours."""
