"""Triggers: timers, files, events and webhooks that wake sessions or start agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from windlass.lazy import load_names

if TYPE_CHECKING:
    from windlass.conditions.error import InvalidCondition as InvalidCondition
    from windlass.conditions.resume import AwaitRequest as AwaitRequest
    from windlass.conditions.resume import ResumeConditions as ResumeConditions
    from windlass.conditions.resume import agent_await_resumption as agent_await_resumption
    from windlass.conditions.resume import parse_resume_conditions as parse_resume_conditions
    from windlass.triggers.api import Trigger as Trigger
    from windlass.triggers.api import publish_event as publish_event
    from windlass.triggers.api import trigger_list as trigger_list
    from windlass.triggers.api import trigger_register as trigger_register
    from windlass.triggers.api import trigger_remove as trigger_remove
    from windlass.triggers.fire import fire_due as fire_due
    from windlass.triggers.webhook import WebhookApp as WebhookApp
    from windlass.triggers.webhook import webhook_app as webhook_app
else:  # a checker that saw it would take every name for one of the package
    __getattr__ = load_names(
        __name__,
        {
            "AwaitRequest": "conditions.resume",
            "InvalidCondition": "conditions.error",
            "ResumeConditions": "conditions.resume",
            "Trigger": "triggers.api",
            "WebhookApp": "triggers.webhook",
            "agent_await_resumption": "conditions.resume",
            "fire_due": "triggers.fire",
            "parse_resume_conditions": "conditions.resume",
            "publish_event": "triggers.api",
            "trigger_list": "triggers.api",
            "trigger_register": "triggers.api",
            "trigger_remove": "triggers.api",
            "webhook_app": "triggers.webhook",
        },
    )

# Written by scripts/make_stub.py.
__all__ = [
    "AwaitRequest",
    "InvalidCondition",
    "ResumeConditions",
    "Trigger",
    "WebhookApp",
    "agent_await_resumption",
    "fire_due",
    "parse_resume_conditions",
    "publish_event",
    "trigger_list",
    "trigger_register",
    "trigger_remove",
    "webhook_app",
]
