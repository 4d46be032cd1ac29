"""State machines of delivery: state and event in, state and effects out. Hosts execute the effects."""
