"""Conversions of values: widening, Java's text, keys."""
