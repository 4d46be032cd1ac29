"""Values of the domain: ids, kinds, states, codes and records. No rules, no I/O."""
