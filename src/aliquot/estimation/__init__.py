"""From judged cells to estimates, intervals and rankings."""
