"""Names of other frameworks, and the names here: what an error answers to `instructions=…`.

Loaded when somebody writes a name that is not ours. A name that is ours is in no table.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches
from opcode import opmap
from types import FrameType
from typing import Final

# An entry is names of ours, of which the first that is known at the place is told, and after ": " a note.
_SYSTEM: Final = "system"
_TURNS: Final = "max_turns max_iterations max_tool_iterations"
_SESSION: Final = "session_id: the session keeps the messages of earlier runs"
_SETTINGS: Final = ": settings are options themselves: temperature=…, max_tokens=…, seed=…"
_TOOLS: Final = "tools: an agent in the list is a tool of this one"
_POLICY: Final = "policies: a w.Policy has before_tool, after_tool and other moments"
#: Options of agents, loops and calls.
OPTIONS: Final[dict[str, str]] = {
    # the system prompt
    "instruction": _SYSTEM,
    "instructions": _SYSTEM,
    "global_instruction": _SYSTEM,
    "backstory": _SYSTEM,
    "goal": _SYSTEM,
    "prompt": "system: the prompt itself is the first argument of run",
    "prompt_template": _SYSTEM,
    "state_modifier": _SYSTEM,
    "system_instruction": _SYSTEM,
    "system_message": _SYSTEM,
    "system_prompts": _SYSTEM,
    # the model
    "client": "model: a name such as 'openai:gpt-4o', or a Model",
    "llm": "model",
    "llm_config": "model",
    "model_client": "model",
    "model_id": "model",
    "model_name": "model",
    "generate_content_config": _SETTINGS,
    "generation_config": _SETTINGS,
    "model_args": _SETTINGS,
    "model_config": _SETTINGS,
    "model_kwargs": _SETTINGS,
    "model_settings": _SETTINGS,
    "max_completion_tokens": "max_tokens",
    "stop_sequences": "stop",
    "reasoning": "thinking",
    "thinking_config": "thinking",
    "effort": "reasoning_effort",
    "max_retries": ": llm_caller=with_retry(…) is for model calls, tool_retries for tools, schema_retries for a typed answer",
    "retries": ": tool_retries is for tools, schema_retries for a typed answer, llm_caller=with_retry(…) for model calls",
    "exponential_backoff": "llm_caller: w.with_retry(…) waits longer each time",
    "fallback_model": "llm_caller: w.with_fallback(…) asks another model",
    "fallback_models": "llm_caller: w.with_fallback(…) asks another model",
    # the answer
    "output_model": "output schema",
    "output_schema": "output schema",
    "output_type": "output schema",
    "response_model": "output schema",
    "response_schema": "output schema",
    "result_type": "output schema",
    "result_schema": "output schema",
    "structured_output_model": "output schema",
    "output_retries": "schema_retries",
    "result_retries": "schema_retries",
    "final_answer_checks": "verify_completion",
    "output_validator": "verify_completion",
    "output_validators": "verify_completion",
    # tools
    "functions": "tools",
    "function_list": "tools",
    "toolkits": "tools",
    "toolset": "tools",
    "toolsets": "tools",
    "managed_agents": _TOOLS,
    "sub_agents": _TOOLS,
    "tool_call_limit": "rate_limit: {'max_calls': 10}",
    "tool_use_behavior": "stop_after_successful_tools",
    "end_strategy": "stop_after_successful_tools",
    "tool_args_validation": "tool_arg_validation",
    "human_input": "approval_policy",
    "human_in_the_loop": "approval_policy",
    "interrupt_after": "approval_policy",
    "interrupt_before": "approval_policy: which tools wait for a person",
    "interrupt_on": "approval_policy: which tools wait for a person",
    # limits
    "max_iter": _TURNS,
    "max_loops": _TURNS,
    "max_rounds": _TURNS,
    "max_steps": _TURNS,
    "recursion_limit": _TURNS,
    "request_limit": _TURNS,
    "usage_limit": "budget max_cost_usd: w.Budget(tokens=…, usd=…, seconds=…)",
    "usage_limits": "budget max_cost_usd: w.Budget(tokens=…, usd=…, seconds=…)",
    "max_budget_usd": "budget max_cost_usd: w.Budget(usd=…)",
    "max_execution_time": "timeout",
    # sessions and stores
    "chat_history": _SESSION,
    "config": ": options are given by name, a thread as session_id=…",
    "configurable": _SESSION,
    "history": _SESSION,
    "memory": "session_id: with a store the session outlives the process",
    "message_history": _SESSION,
    "previous_response_id": _SESSION,
    "session": _SESSION,
    "thread": _SESSION,
    "thread_id": _SESSION,
    "add_history_to_context": _SESSION,
    "add_history_to_messages": _SESSION,
    "num_history_runs": _SESSION,
    "checkpoint": "store",
    "checkpointer": "store: 'sqlite:///agents.db' or 'postgresql://…'",
    "db": "store: 'sqlite:///agents.db' or 'postgresql://…'",
    "session_manager": "store",
    "session_service": "store",
    "storage": "store",
    "conversation_manager": "context_strategy",
    "history_processor": "context_filter",
    "history_processors": "context_filter",
    "pre_model_hook": "context_callback",
    # what tools are given
    "additional_args": "deps",
    "context": "deps: tools read it as ctx.deps",
    "context_schema": "deps_type",
    "context_type": "deps_type",
    "dependencies": "deps",
    "session_state": "deps",
    "state": "deps",
    "state_schema": "deps_type",
    "user": "caller: w.Caller('ann')",
    "user_id": "caller: w.Caller('ann')",
    # who watches and who decides
    "after_agent_callback": _POLICY,
    "after_model_callback": _POLICY,
    "after_tool_callback": _POLICY,
    "before_agent_callback": _POLICY,
    "before_model_callback": _POLICY,
    "before_tool_callback": _POLICY,
    "capabilities": _POLICY,
    "hooks": _POLICY,
    "middleware": _POLICY,
    "callback_handler": "on_event",
    "callbacks": "on_event",
    "event_stream_handler": "on_event",
    "stream_handler": "on_event",
    "verbose": "on_event: print, or set the logger 'windlass' to DEBUG",
    "verbosity_level": "on_event: print, or set the logger 'windlass' to DEBUG",
    "debug": "on_event: print, or set the logger 'windlass' to DEBUG",
    "debug_mode": "on_event: print, or set the logger 'windlass' to DEBUG",
    "show_tool_calls": "on_tool_call on_event",
    "post_model_hook": "post_turn_callback",
    "step_callback": "post_turn_callback",
    "step_callbacks": "post_turn_callback",
    "prompt_templates": "prompts",
    "signal": "abort",
    "cancel_token": "abort",
}
#: Attributes of a result.
RESULTS: Final[dict[str, str]] = {
    "answer": "output final_text text",
    "content": "output final_text text",
    "final_answer": "output final_text text",
    "final_output": "output final_text text",
    "response": "output final_text text",
    "result": "output final_text text",
    "structured_output": "output final_text text",
    "structured_response": "output final_text text",
    "value": "output final_text text",
    "new_messages": "messages all_messages",
    "new_items": "messages all_messages",
    "all_messages_json": "all_messages",
    "history": "all_messages",
    "to_input_list": "all_messages",
    "cost": "cost_usd",
    "total_cost": "cost_usd",
    "metrics": "usage",
    "total_tokens": "usage.total_tokens",
    "input_tokens": "usage.input_tokens",
    "output_tokens": "usage.output_tokens",
    "finish_reason": "stop_reason",
    "interrupts": "pending",
    "interruptions": "pending",
    "steps": "entries",
    "thread_id": "session_id",
    "context_wrapper": "usage",
}
#: Attributes of an agent.
AGENT: Final[dict[str, str]] = {
    "arun": "run",
    "ainvoke": "run",
    "ask": "run",
    "chat": "run",
    "execute": "run",
    "generate": "run",
    "invoke": "run_sync",
    "kickoff": "run_sync",
    "print_response": "run_sync",
    "structured_output": "run: with output=YourType",
    "astream": "stream",
    "astream_events": "stream",
    "iter": "stream",
    "run_stream": "stream",
    "run_streamed": "stream",
    "stream_async": "stream",
    "clone": "with_",
    "copy": "with_",
    "replace": "with_",
    "instructions": "system",
    "system_prompt": "system: a function that writes it is given as Agent(…, system=fn)",
    "tool": ": tools are given as Agent(…, tools=[fn])",
    "tool_plain": ": tools are given as Agent(…, tools=[fn])",
    "output_validator": ": a check is given as Agent(…, verify_completion=fn)",
    "override_model": "with_: agent.with_(model=…)",
}
#: Names of the package.
_MODEL: Final = "Agent: models are named, as in w.Agent('openai:gpt-4o')"
_SCRIPTED: Final = "testing: from windlass.testing import scripted"
_STORE: Final = "Agent: a store is an address, as in w.Agent(…, store='sqlite:///agents.db')"
_TEAM: Final = "Agent: an agent is a tool of another, as in w.Agent(…, tools=[writer, critic])"
NAMES: Final[dict[str, str]] = {
    "AGENT_ERROR_CODES": "AgentErrorCode",
    "AbortSignal": "Abort",
    "AgentExecutor": "Agent",
    "AgentRunResult": "AgentResult",
    "AssistantAgent": "Agent",
    "ChatAgent": "Agent",
    "CodeAgent": "Agent",
    "LlmAgent": "Agent",
    "ReActAgent": "Agent",
    "ToolCallingAgent": "Agent",
    "create_agent": "Agent",
    "create_react_agent": "Agent",
    "Runner": "Agent: await w.Agent(…).run('…')",
    "InMemoryRunner": "Agent: await w.Agent(…).run('…')",
    "RunResult": "AgentResult",
    "RunResultStreaming": "AgentResult",
    "RunContext": "ToolContext",
    "RunContextWrapper": "ToolContext",
    "ToolRuntime": "ToolContext",
    "BaseTool": "Tool",
    "FunctionTool": "tool",
    "StructuredTool": "tool",
    "function_tool": "tool",
    "tool_plain": "tool",
    "ToolRegistry": "tool_registry",
    "ToolError": "Retry: it tells the model what to do better; any other exception is an error of the tool",
    "ModelRetry": "Retry",
    "UserError": "ConfigError",
    "UsageLimitExceeded": "BudgetExceeded",
    "MaxTurnsExceeded": "BudgetExceeded",
    "UsageLimits": "Budget",
    "RunUsage": "Usage",
    "ModelSettings": "Settings",
    "ModelMessage": "Message",
    "HumanMessage": "Message",
    "AIMessage": "Message",
    "SystemMessage": "Message",
    "ImageUrl": "Image",
    "BinaryContent": "Image",
    "ChatAnthropic": _MODEL,
    "ChatOpenAI": _MODEL,
    "Claude": _MODEL,
    "LiteLLMModel": _MODEL,
    "LiteLlm": _MODEL,
    "OpenAIChat": _MODEL,
    "OpenAIChatModel": _MODEL,
    "OpenAIModel": _MODEL,
    "AnthropicModel": _MODEL,
    "BedrockModel": _MODEL,
    "InferenceClientModel": _MODEL,
    "init_chat_model": _MODEL,
    "FunctionModel": _SCRIPTED,
    "TestModel": _SCRIPTED,
    "FakeModel": _SCRIPTED,
    "MockModel": _SCRIPTED,
    "InMemorySaver": _STORE,
    "MemorySaver": _STORE,
    "PostgresSaver": _STORE,
    "SqliteSaver": _STORE,
    "SqliteDb": _STORE,
    "PostgresDb": _STORE,
    "SQLiteSession": _STORE,
    "Session": "Agent: a session is an id, as in agent.run('…', session_id='s1')",
    "Crew": _TEAM,
    "Swarm": _TEAM,
    "Team": _TEAM,
    "SequentialAgent": _TEAM,
    "ParallelAgent": _TEAM,
    "handoff": _TEAM,
    "StateGraph": "Agent: a loop needs no graph",
    "interrupt": "Suspend: or approval_policy, for tools that wait for a person",
    "Command": "Allow: agent.resume(session_id, decisions={call_id: w.Allow()})",
    "input_guardrail": "Agent: a guardrail is a function, as in w.Agent(…, input_guardrails=[check])",
    "output_guardrail": "Agent: a guardrail is a function, as in w.Agent(…, output_guardrails=[check])",
    "AgentHooks": "Policy",
    "RunHooks": "Policy",
    "AgentMiddleware": "Policy",
    "BaseModel": "Agent: a pydantic model is taken as it is, as in w.Agent(…, output=Invoice)",
}
#: Options of `@tool`.
TOOL: Final[dict[str, str]] = {
    "name_override": "name",
    "tool_name": "name",
    "description_override": "description",
    "desc": "description",
    "args_schema": ": types of the arguments are its schema; w.Tool(parameters=…) takes one",
    "input_schema": ": types of the arguments are its schema; w.Tool(parameters=…) takes one",
    "schema": ": types of the arguments are its schema; w.Tool(parameters=…) takes one",
    "retries": ": Agent(…, tool_retries=2) repeats calls; raise w.Retry to ask the model again",
    "max_retries": ": Agent(…, tool_retries=2) repeats calls; raise w.Retry to ask the model again",
    "return_direct": ": Agent(…, stop_after_successful_tools=['refund']) ends the run after it",
    "timeout_seconds": "timeout",
    "idempotent": "side_effect_level",
    "read_only": "side_effect_level: 'read_only'",
}


#: Commands of `windlass` that stand in a group, or go by another name.
COMMANDS: Final[dict[str, str]] = {
    "approve": ": it is windlass approvals approve",
    "deny": ": it is windlass approvals deny",
    "check": ": it is windlass config check",
    "doctor": ": it is windlass models doctor",
    "fork": ": it is windlass.agent_session_fork in Python",
    "list": ": it is windlass sessions list",
    "ls": ": it is windlass sessions list",
    "resume": ": it is windlass run --resume ID",
    "show": ": it is windlass sessions show",
    "verify": ": it is windlass audit verify",
    "init": ": nothing has to be set up; windlass demo shows a run",
    "serve": ": a server is an ASGI app, windlass.server.generate",
}
#: Flags of `windlass run` and `chat`.
FLAGS: Final[dict[str, str]] = {
    "--budget": "--max-cost",
    "--max-budget": "--max-cost",
    "--cost": "--max-cost",
    "--max-iterations": "--max-turns",
    "--max-steps": "--max-turns",
    "--max-tokens": "--max-tokens-total",
    "--db": "--store",
    "--database": "--store",
    "--instructions": "--system",
    "--system-prompt": "--system",
    "--session-id": "--session",
    "--thread": "--session",
    "--tool": "--tools",
    "--verbose": "--debug",
    "--continue": "--resume",
    "--yes": "--allow",
    "--dry-run": "--preview",
    "--output-format": "--json",
}
#: Fields of a request to the server.
FIELDS: Final[dict[str, str]] = {
    "content": "input",
    "message": "input",
    "messages": "input",
    "prompt": "input",
    "query": "input",
    "text": "input",
    "conversation_id": "conversation",
    "session_id": "conversation",
    "thread_id": "conversation",
    "max_steps": "max_tool_iterations",
    "max_turns": "max_tool_iterations",
    "max_budget_usd": "max_cost_usd",
}
#: Fields of what is given to options: budgets, callers, rules.
STRUCT_FIELDS: Final[dict[str, str]] = {
    "cost": "usd",
    "dollars": "usd",
    "max_cost": "usd",
    "max_cost_usd": "usd",
    "max_usd": "usd",
    "max_tokens": "tokens",
    "max_iterations": "iterations",
    "max_turns": "iterations",
    "steps": "iterations",
    "turns": "iterations",
    "timeout": "seconds",
    "time": "seconds",
    "period": "per",
    "groups": "roles",
    "organization": "tenant",
    "tenant_id": "tenant",
    "user_id": "user",
}
TABLES: Final = {
    "fields": FIELDS,
    "struct_fields": STRUCT_FIELDS,
    "commands": COMMANDS,
    "flags": FLAGS,
    "agent": AGENT,
    "names": NAMES,
    "options": OPTIONS,
    "results": RESULTS,
    "tool": TOOL,
}


def explain_name(name: str, known: Iterable[str], table: str | None = None) -> str:
    """Build `; use 'system'` for a name of another framework, else `; did you mean 'x'?` or nothing.

    A misspelt name is taken for a foreign one only where none of ours is as close.
    """
    names, foreign = list(known), TABLES.get(table or "", {})
    hint = foreign.get(name)
    if hint is None and _find_nearest(name, names) is None:
        near = _find_nearest(name, foreign)
        hint = None if near is None else foreign[near]
    if hint is None:
        matches = get_close_matches(name, names, n=1, cutoff=0.65)
        return f"; did you mean {matches[0]!r}?" if matches else ""
    ours, _, note = hint.partition(": ")
    chosen = next((one for one in ours.split() if one.partition(".")[0] in names), None)
    if chosen is None:
        return f"; {note}" if note else ""
    return f"; use {chosen!r}" + (f" ({note})" if note else "")


def build_name_error(
    package: str, name: str, known: Iterable[str], frame: FrameType
) -> AttributeError | ImportError:
    """Build the error for a name that a package does not have, as the code of `frame` asked for it.

    An import statement drops the words of an AttributeError, so it gets an ImportError.
    """
    hint = "" if name.startswith("_") else explain_name(name, known, "names")
    message = f"{package} has no name {name!r}{hint}"
    if frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_FROM"]:
        return ImportError(message, name=package)
    return AttributeError(message)


def _find_nearest(name: str, known: Iterable[str]) -> str | None:
    close, best = max([(_closeness(name, one), one) for one in known], default=(0.0, ""))
    return best if close >= 0.8 else None


def _closeness(name: str, other: str) -> float:
    return SequenceMatcher(None, name, other).ratio()
