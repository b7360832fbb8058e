"""River models: transformers of fields, the model that predicts, and shadow models."""
