"""From few judgments to the mean over the whole test set, with its uncertainty, and who is really better."""
