"""The trained model: its rules, the settings of trainings, and the model file."""
