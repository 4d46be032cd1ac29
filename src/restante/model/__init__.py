"""The words of the product: ids, kinds, states, codes and records. No rules, no I/O."""
