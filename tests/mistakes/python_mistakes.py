"""Mistakes in programs, and the line that answers each.

`code` is run as a program would; `answer` is the whole message, with `…` for what differs from run to run.
"""

from __future__ import annotations

from typing import NamedTuple


class Mistake(NamedTuple):
    """What somebody wrote, and what they are told."""

    code: str
    answer: str


#: What every program begins with; the page shows it once.
SETUP = '''
from dataclasses import dataclass

import windlass as w
from windlass.testing import scripted


@dataclass
class Invoice:
    total: float


@w.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


model = scripted("hello", then="hello")
agent = w.Agent(model, tools=[add])
'''
MISSPELT = (
    Mistake(
        "w.Agent(model, max_tuns=3)",
        "ConfigError: Agent has no option 'max_tuns'; did you mean 'max_turns'?",
    ),
    Mistake(
        "w.Agent(model, temprature=0.2)",
        "ConfigError: Agent has no option 'temprature'; did you mean 'temperature'?",
    ),
    Mistake(
        'await agent.run("Hi.", sesion_id="s1")',
        "ConfigError: Agent.run has no option 'sesion_id'; did you mean 'session_id'?",
    ),
    Mistake(
        'await agent.resume("s1", decision={})',
        "ConfigError: Agent.resume has no option 'decision'; did you mean 'decisions'?",
    ),
    Mistake(
        "agent.with_(max_turn=2)",
        "ConfigError: Agent has no option 'max_turn'; did you mean 'max_turns'?",
    ),
    Mistake(
        'await w.llm_call("Hi.", max_token=5)',
        "ConfigError: llm_call has no option 'max_token'; did you mean 'max_tokens'?",
    ),
    Mistake(
        'await w.agent_turn("Hi.", jugde=True)',
        "ConfigError: agent_turn has no option 'jugde'; did you mean 'judge'?",
    ),
    Mistake(
        'w.Runtime(stor="agents.db")',
        "ConfigError: Runtime has no option 'stor'; did you mean 'store'?",
    ),
    Mistake(
        'w.Caller("ann", rols=("clerk",))',
        "ConfigError: Caller has no field 'rols'; did you mean 'roles'?",
    ),
    Mistake("w.Budget(dollars=1)", "ConfigError: Budget has no field 'dollars'; use 'usd'"),
    Mistake(
        "w.tool(time_out=3)", "ConfigError: @tool has no option 'time_out'; did you mean 'timeout'?"
    ),
    Mistake(
        "from windlass import Agnet",
        "ImportError: windlass has no name 'Agnet'; did you mean 'Agent'?",
    ),
    Mistake(
        "from windlass.audit import AuditEntri",
        "ImportError: windlass.audit has no name 'AuditEntri'; did you mean 'AuditEntry'?",
    ),
    Mistake(
        '(await agent.run("Hi.")).outptu',
        "AttributeError: AgentResult has no 'outptu'; did you mean 'output'?",
    ),
    Mistake(
        'agent.run_snyc("Hi.")', "AttributeError: Agent has no 'run_snyc'; did you mean 'run_sync'?"
    ),
    Mistake(
        'w.Agent("opnai:gpt-4o").plan',
        "ConfigError: provider 'opnai' is not known; did you mean 'openai'?",
    ),
    Mistake(
        'w.agent_preset("audti")',
        "ConfigError: there is no preset 'audti'; did you mean 'audit'?; there are: audit, repair, summary, verify, merge_captain, review_captain, oncall_captain, release_captain",
    ),
    Mistake(
        'w.Agent(model, permissions={"alow": []})',
        "ConfigError: permissions has no key 'alow'; did you mean 'allow'?",
    ),
    Mistake(
        'w.Agent(model, budget={"dollars": 1})',
        "ConfigError: budget has no key 'dollars'; it has iterations, tokens, usd, seconds, per",
    ),
    Mistake(
        'w.Agent(model, loop_detection={"treshold": 3})',
        "ConfigError: loop_detection has no key 'treshold'; it has max_repetitions, window, on_loop_detected",
    ),
)
FOREIGN = (
    Mistake(
        'w.Agent(model, instructions="Be brief.")',
        "ConfigError: Agent has no option 'instructions'; use 'system'",
    ),
    Mistake(
        "w.Agent(model, output_type=Invoice)",
        "ConfigError: Agent has no option 'output_type'; use 'output'",
    ),
    Mistake(
        "w.Agent(model, result_type=Invoice)",
        "ConfigError: Agent has no option 'result_type'; use 'output'",
    ),
    Mistake(
        'w.Agent(model, model_settings={"temperature": 0})',
        "ConfigError: Agent has no option 'model_settings'; settings are options themselves: temperature=…, max_tokens=…, seed=…",
    ),
    Mistake(
        "w.Agent(model, retries=2)",
        "ConfigError: Agent has no option 'retries'; tool_retries is for tools, schema_retries for a typed answer, llm_caller=with_retry(…) for model calls",
    ),
    Mistake(
        "w.Agent(model, max_steps=5)",
        "ConfigError: Agent has no option 'max_steps'; use 'max_turns'",
    ),
    Mistake(
        "w.Agent(model, max_iterations=5)",
        "ConfigError: Agent has no option 'max_iterations'; use 'max_turns'",
    ),
    Mistake(
        "w.Agent(model, handoffs=[agent])",
        'ConfigError: an agent in handoffs needs a name, which its tool has: name="…"',
    ),
    Mistake(
        "w.Agent(model, checkpointer=None)",
        "ConfigError: Agent has no option 'checkpointer'; use 'store' ('sqlite:///agents.db' or 'postgresql://…')",
    ),
    Mistake(
        "w.Agent(model, middleware=[])",
        "ConfigError: Agent has no option 'middleware'; use 'policies' (a w.Policy has before_tool, after_tool and other moments)",
    ),
    Mistake(
        'await agent.run("Hi.", message_history=[])',
        "ConfigError: Agent.run has no option 'message_history'; use 'session_id' (the session keeps the messages of earlier runs)",
    ),
    Mistake(
        'await agent.run("Hi.", context={"user": 1})',
        "ConfigError: Agent.run has no option 'context'; use 'deps' (tools read it as ctx.deps)",
    ),
    Mistake(
        'await agent.run("Hi.", thread_id="t1")',
        "ConfigError: Agent.run has no option 'thread_id'; use 'session_id' (the session keeps the messages of earlier runs)",
    ),
    Mistake(
        'await w.agent_loop("Hi.", max_turns=3)',
        "ConfigError: agent_loop has no option 'max_turns'; use 'max_iterations'",
    ),
    Mistake(
        "w.Agent(model, on_tool_call=print)",
        "ConfigError: Agent has no option 'on_tool_call': it is one of Agent.run",
    ),
    Mistake(
        '(await agent.run("Hi.")).final_output',
        "AttributeError: AgentResult has no 'final_output'; use 'output'",
    ),
    Mistake(
        '(await agent.run("Hi.")).structured_response',
        "AttributeError: AgentResult has no 'structured_response'; use 'output'",
    ),
    Mistake('agent.run_stream("Hi.")', "AttributeError: Agent has no 'run_stream'; use 'stream'"),
    Mistake(
        "@agent.tool\ndef now() -> str: ...",
        "AttributeError: Agent has no 'tool'; tools are given as Agent(…, tools=[fn])",
    ),
    Mistake(
        "from windlass import Runner",
        "ImportError: windlass has no name 'Runner'; use 'Agent' (await w.Agent(…).run('…'))",
    ),
    Mistake(
        "from windlass import function_tool",
        "ImportError: windlass has no name 'function_tool'; use 'tool'",
    ),
    Mistake("w.RunContext", "AttributeError: windlass has no name 'RunContext'; use 'ToolContext'"),
    Mistake(
        "w.tool(name_override='sum')",
        "ConfigError: @tool has no option 'name_override'; use 'name'",
    ),
    Mistake(
        'w.models.openai("gpt-4o")',
        "AttributeError: windlass.models has no name 'openai'; did you mean 'openai_chat'?",
    ),
)
WRONG_TYPES = (
    Mistake(
        'w.Agent(model, input_guardrails="no secrets")',
        "ConfigError: input_guardrails are functions of the text, or of the text and ctx, not 'no secrets'",
    ),
    Mistake(
        '@w.tool(requires_approval="yes")\ndef pay(amount: int) -> int: ...',
        "ConfigError: tool 'pay': requires_approval is True, False or a function (args) or (args, ctx), not 'yes'",
    ),
    Mistake(
        'w.Agent(model, require_successful_tools=["ad"], tools=[add]).plan',
        "ConfigError: require_successful_tools names 'ad', which no tool is; did you mean 'add'?",
    ),
    Mistake(
        "class Careful(w.Policy):\n    async def before_tol(self, run, call): ...",
        "ConfigError: policy 'Careful' has no moment 'before_tol'; did you mean 'before_tool'? The name of a method of your own may begin with an underscore",
    ),
    Mistake(
        'w.Agent(model, max_turns="three")',
        "ConfigError: max_turns is a whole number of at least 1, not 'three'",
    ),
    Mistake(
        "w.Agent(model, temperature=7).plan", "ConfigError: temperature is a number up to 2, not 7"
    ),
    Mistake(
        "w.Agent(model, tools=add).plan",
        "ConfigError: tools is a list of tools, not <FunctionTool add(a, b)>; write tools=[…] around it",
    ),
    Mistake(
        "w.Agent(model, tools=[1]).plan",
        "ConfigError: 1 is not a tool; give a function, a Tool, 'module:function', or an object with as_tool()",
    ),
    Mistake(
        "w.Agent(model, tools=[lambda x: x]).plan",
        "ConfigError: a lambda has no name; write @windlass.tool(name=…) or use a def",
    ),
    Mistake(
        "w.Agent(model, tools=[add, add]).plan",
        "ConfigError: two tools are called 'add'; rename one with @windlass.tool(name=…)",
    ),
    Mistake(
        'w.Agent(model, tools=["shop:refund"]).plan',
        "ConfigError: tool 'shop:refund': there is no module 'shop'; install it, or run where it can be imported",
    ),
    Mistake(
        'w.Agent(model, tool_format="xml")',
        "ConfigError: tool_format is one of 'native', 'text', not 'xml'",
    ),
    Mistake("w.Agent(model, budget=0.5)", "ConfigError: budget is a Budget or a dict, not 0.5"),
    Mistake(
        'w.Agent(model, policies=["careful"])',
        "ConfigError: policies is a list of Policy objects, not ['careful']",
    ),
    Mistake(
        "w.Agent(model, output=5)",
        "ConfigError: output is a JSON Schema, a dict of fields, or a type that has one, not 5",
    ),
    Mistake(
        'await agent.run("Hi.", caller="ann")',
        "ConfigError: caller is a Caller, not 'ann'; write windlass.Caller('ann')",
    ),
    Mistake(
        "await agent.run(5)",
        "ConfigError: a prompt is text, a Message, {'role': …, 'content': …} or a list of them, not 5: a prompt is text or messages, not int",
    ),
    Mistake(
        'await agent.run([{"role": "robot", "content": "Hi."}])',
        "ConfigError: a prompt is text, a Message, {'role': …, 'content': …} or a list of them, not [{'role': 'robot', 'content': 'Hi.'}]: a role is 'system', 'user', 'assistant' or 'tool'",
    ),
    Mistake(
        'await agent.run([w.Image("photo.png")])',
        "ConfigError: data is no base64: use Image.from_file('photo.png') for a file",
    ),
    Mistake(
        'await agent.run("Hi.", session_id="my session")',
        "ConfigError: session_id 'my session' is no plain name: it begins with a letter or a digit, has letters, digits and . _ - : @ / % + = ~ in it, and at most 1000 characters",
    ),
    Mistake(
        'await agent.resume("s1", decisions={"call_1": "yes"})',
        "ConfigError: a decision is Allow(), Deny(…) or a bool, not 'yes'",
    ),
    Mistake(
        "w.Budget(usd=-1)",
        "ConfigError: a limit on usd is a number of at least 0, not -1; None is no limit",
    ),
    Mistake(
        "@w.tool\ndef add_all(*numbers: int) -> int: ...",
        "ConfigError: tool 'add_all': the function (<program>:1) takes *numbers, which has no place in JSON; use a list: `numbers: list[…]`",
    ),
    Mistake(
        '@w.tool(side_effect_level="readonly")\ndef now() -> str: ...',
        "ConfigError: tool 'now': side_effect_level 'readonly' is not known; did you mean 'read_only'?; it is one of none, read_only, workspace_write, process_exec, network",
    ),
    Mistake(
        'w.Agent(model, deps_type=Invoice).run_sync("Hi.", deps=5)',
        "ConfigError: this agent needs deps of type Invoice, not 5: run(…, deps=…)",
    ),
    Mistake(
        "async for event in agent.stream('Hi.'): ...",
        "RuntimeError: a stream begins with its block: `async with agent.stream(…) as run:`",
    ),
    Mistake(
        'await w.agent_turn("Hi.", done_judge=False)',
        "ConfigError: agent_turn needs done_judge: it ends only when a judge agrees; agent_loop does without",
    ),
    Mistake("await w.llm_call()", "ConfigError: llm_call needs a prompt, or messages=[…]"),
)
MODELS = (
    Mistake(
        'w.Agent("")',
        "ConfigError: model is empty: name one, such as 'anthropic:claude-sonnet-4-5', or leave it out",
    ),
    Mistake("w.Agent(42).plan", "ConfigError: model is a name or a Model object, not 42"),
    Mistake(
        'w.Agent("openai/gpt-4o").plan',
        "ConfigError: model 'openai/gpt-4o' is not known; did you mean 'openai:gpt-4o'?",
    ),
    Mistake(
        'await w.Agent("openai:gpt-4o").run("Hi.")',
        "ConfigError: openai needs an API key: set OPENAI_API_KEY or pass api_key=",
    ),
    Mistake(
        'w.Agent("openai:gpt-4o", provider="anthropic").plan',
        "ConfigError: model 'openai:gpt-4o' names another provider than provider='anthropic': leave provider out",
    ),
    Mistake(
        'w.Agent("openai:gpt-4o", base_url="localhost").plan',
        "ConfigError: base_url is an address such as 'https://llm.example.com/v1', not 'localhost'",
    ),
    Mistake(
        'w.Agent("openai:gpt-4o", api_key="").plan',
        "ConfigError: api_key is a text or a Secret, not an empty text",
    ),
    Mistake(
        'w.Agent(model_tier="huge").plan',
        "ConfigError: model_tier 'huge' is not known; there is small, mid, frontier",
    ),
    Mistake(
        'await w.llm_call("Hi.", model=scripted("a bill"), schema=Invoice)',
        "BadReply: the answer does not fit the schema: answer: is no JSON: 'a bill' (schema_retries=2 asks the model again)",
    ),
    Mistake(
        '(await w.Agent(scripted("a bill", then="a bill"), output=Invoice).run("Hi.")).output',
        "OutputMissing: the run ended as budget_exhausted (max_iterations) without a value of Invoice: answer: is no JSON: 'a bill'; raise max_turns (max_iterations in agent_loop), or add closing_answer=True",
    ),
    Mistake(
        'local = w.Agent("ollama:llama3", base_url="http://127.0.0.1:9")\n'
        '(await local.run("Hi.")).output',
        "OutputMissing: the run ended as provider_error (network): cannot reach 127.0.0.1:9: connection refused; is the server running?; is Ollama running there (`ollama serve`)?; check the address and the network; or run it again later, or add a second model: llm_caller=w.with_fallback([…])",
    ),
    Mistake(
        "await w.Agent(scripted()).run('Hi.')",
        "ScriptEnded: the scripted model has 0 replies and was asked 1 time; the last message was user: 'Hi.'. Add a reply, or then=…",
    ),
)
STORES = (
    Mistake(
        'await w.Agent(model, store="mysql://host/agents").run("Hi.")',
        "ConfigError: store 'mysql://host/agents' is not an address; use 'memory:', 'sqlite:///name.db', 'postgresql://user@host/name' or a path that ends in .db",
    ),
    Mistake(
        'await w.Agent(model, store="notes.db").run("Hi.")',
        "Corrupt: notes.db: this is not a SQLite database; name another file (file is not a database)",
    ),
    Mistake(
        'await w.Agent(model, store="postgresql://127.0.0.1:9/agents").run("Hi.")',
        "Locked: postgresql://127.0.0.1:9/agents: the server cannot be reached; start it and resume ([Errno 111] Connect call failed ('127.0.0.1', 9))",
    ),
    Mistake('w.Runtime(config="nope.toml").store', "ConfigError: nope.toml: there is no such file"),
    Mistake(
        'await w.approve("call_1", by=w.Caller("ann"))',
        "NoSuchApproval: nothing waits for an answer under 'call_1'; it was answered, discarded, or never asked (approvals lists what waits)",
    ),
    Mistake(
        'w.Image.from_file("photo.png")',
        "ConfigError: Image.from_file('photo.png'): No such file or directory",
    ),
)
SECTIONS = {
    "Misspelt names": MISSPELT,
    "Names of other frameworks": FOREIGN,
    "Wrong types and values": WRONG_TYPES,
    "Models, keys and servers": MODELS,
    "Stores and files": STORES,
}
