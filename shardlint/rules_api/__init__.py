"""Interface for writing rules: the rule class, the site it checks, the registry of packs and the ledger."""
