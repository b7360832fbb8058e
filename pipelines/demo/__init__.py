"""Demo: query strategies compared on real records, and a live labelling demo."""
