"""The lab: experiments on the core. Run it as ``python -m lab`` from ``code/``."""
