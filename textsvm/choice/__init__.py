"""The default: which kernel and C suit some texts, found by cross-validation in a budget of time."""
