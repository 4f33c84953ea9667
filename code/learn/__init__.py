"""The learner's bench. Run it as ``python -m learn`` from ``code/``."""
