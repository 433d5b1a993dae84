"""The test suites. Suites import shared modules by their full name: `from tests.oracle import file_slice`."""
