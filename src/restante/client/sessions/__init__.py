"""Sessions with contacts: recovery after loss."""
