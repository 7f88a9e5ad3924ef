"""The parts of `windlass chat`: reading messages, showing answers, asking for approvals."""
