"""The machines of delivery, pure: state and event in, state and effects out. Hosts carry the effects out."""
