"""The nouns of torchstone: frozen and typed, no behaviour but derivation. Import them from their modules."""
