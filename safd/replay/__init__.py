"""From a record to a payload that a provider accepts; pure."""
