"""The route `relay`: connections, the carrier that puts and the receiver that subscribes."""
