"""Policies that decide whether a call may run: permissions, approval rules, approval by tools, consent."""
