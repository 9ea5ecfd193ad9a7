"""Models of providers: drivers, the pure conversions they use, retries and fallbacks, and the registry of them."""
