"""Which record of a key wins, and the base streamed past the winners. Vectorised; the slow oracle lives in tests."""
