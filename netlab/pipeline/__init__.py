"""Stages in order, ingest on one or many processes, and the functions of ``import netlab``."""
