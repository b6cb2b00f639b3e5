"""Ready-made runs that join rooms: questions and confirmations asked in a cell."""

from loomnb.ready.questions import ASK, CellQuestions, know_questions

__all__ = ["ASK", "CellQuestions", "know_questions"]
