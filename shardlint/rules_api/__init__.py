"""What a rule is made of: its class, the site it is asked about, the registry of packs and the ledger."""
