"""A language model of half a megabyte that knows nothing: random weights, one token for each byte.

It babbles, but llama.cpp's server treats it like any other model, and its grammar turns the babble
into tool calls that fit their schema. Two tricks make that quick and certain:

* the first dimension of every embedding is held at one and no layer writes to it, so the first
  column of the output matrix adds a fixed amount to each token's score: letters are likely, and so
  are the tokens that end a string, an object or an answer;
* the opening of a call is a single token, since the server lets free text come before a call, and
  chance would never spell it out.
"""

from __future__ import annotations

from pathlib import Path

import gguf  # pyright: ignore[reportMissingImports]
import numpy as np  # pyright: ignore[reportMissingImports]

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 64, 2, 4, 128, 8192
STEADY = 5.66  # what the norm before the output makes of the steady dimension, about

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
GAPS = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"]  # around a gap that is to be filled
MARKS = ['<tool_call>\n{"name": "', "</tool_call>"]
MERGES = ["a n", "e r", "o n"]

TEMPLATE = """\
{%- macro turn(role, body) -%}{{ '<|im_start|>' + role + '\\n' + body + '<|im_end|>\\n' }}{%- endmacro -%}
{%- if messages[0].role == 'system' -%}{%- set system = messages[0].content -%}{%- else -%}{%- set system = '' -%}{%- endif -%}
{%- if tools -%}
{{- '<|im_start|>system\\n' + system + '\\n# Tools\\n<tools>\\n' -}}
{%- for tool in tools -%}{{ tool | tojson + '\\n' }}{%- endfor -%}
{{- '</tools>\\nA call is a JSON object between marks:\\n<tool_call>\\n{"name": <function-name>, "arguments": <args-json-object>}\\n</tool_call><|im_end|>\\n' -}}
{%- elif system -%}{{ turn('system', system) }}{%- endif -%}
{%- for message in messages -%}
{%- if message.role == 'tool' -%}{{ turn('user', '<tool_response>\\n' + message.content + '\\n</tool_response>') }}
{%- elif message.role == 'assistant' and message.tool_calls -%}
{{- '<|im_start|>assistant' -}}
{%- if message.content -%}{{ '\\n' + message.content }}{%- endif -%}
{%- for call in message.tool_calls -%}
{%- if call.function is defined -%}{%- set call = call.function -%}{%- endif -%}
{{- '\\n<tool_call>\\n{"name": "' + call.name + '", "arguments": ' -}}{{- call.arguments | tojson -}}{{- '}\\n</tool_call>' -}}
{%- endfor -%}{{ '<|im_end|>\\n' }}
{%- elif message.role != 'system' or not loop.first -%}{{ turn(message.role, message.content or '') }}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
"""


def write_model(path: Path, seed: int = 11) -> Path:
    """Write the model to `path`; the same seed writes the same model."""
    tokens, types = _vocabulary()
    writer = gguf.GGUFWriter(str(path), "llama")
    _describe(writer, tokens, types)
    for name, weights in _weights(np.random.default_rng(seed), tokens).items():
        writer.add_tensor(name, weights)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _vocabulary() -> tuple[list[str], list[int]]:
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    # the vocabulary of GPT-2 shows unprintable bytes as the characters from 256 on
    shown = {byte: chr(byte) for byte in printable}
    shown |= {byte: chr(256 + place) for place, byte in enumerate(hidden)}
    tokens = [shown[byte] for byte in range(256)]
    kinds = gguf.TokenType
    types = [kinds.NORMAL] * 256
    for words, kind in ((CONTROL, kinds.CONTROL), (MARKS, kinds.USER_DEFINED)):
        tokens += words
        types += [kind] * len(words)
    tokens += [merge.replace(" ", "") for merge in MERGES]
    types += [kinds.NORMAL] * len(MERGES)
    tokens += GAPS
    types += [kinds.CONTROL] * len(GAPS)
    return tokens, [int(kind) for kind in types]


def _describe(writer: gguf.GGUFWriter, tokens: list[str], types: list[int]) -> None:
    writer.add_name("tiny-random")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(MERGES)
    end, stop = tokens.index("<|endoftext|>"), tokens.index("<|im_end|>")
    writer.add_bos_token_id(end)
    writer.add_pad_token_id(end)
    writer.add_eos_token_id(stop)
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)


def _weights(chance: np.random.Generator, tokens: list[str]) -> dict[str, np.ndarray]:
    def noise(rows: int, columns: int, scale: float) -> np.ndarray:
        values = chance.standard_normal((rows, columns)) * scale / np.sqrt(columns)
        return values.astype(np.float32)

    size, ones = len(tokens), np.ones(WIDTH, np.float32)
    blank = np.zeros((len(GAPS), WIDTH), np.float32)  # they mean nothing, and are never said
    size -= len(GAPS)
    embedding = np.vstack([noise(size, WIDTH, 1.0), blank])
    output = np.vstack([noise(size, WIDTH, 0.8), blank])
    embedding[:, 0] = 1.0
    output[:, 0] = _liking(tokens) / STEADY
    weights = {
        "token_embd.weight": embedding,
        "output.weight": output,
        "output_norm.weight": ones,
    }
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        for norm in ("attn_norm", "ffn_norm"):
            weights[f"{block}.{norm}.weight"] = ones
        shapes = {name: (WIDTH, WIDTH) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
        shapes |= {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
        for name, (rows, columns) in shapes.items():
            values = noise(rows, columns, 0.3)
            if name in ("attn_output", "ffn_down"):
                values[0] = 0.0  # these add to the stream: the steady dimension stays steady
            weights[f"{block}.{name}.weight"] = values
    return weights


def _liking(tokens: list[str]) -> np.ndarray:
    """Compute how much each token is favoured, whatever came before."""
    liking = np.full(len(tokens), -3.0)
    liking[[*range(32), *range(128, 256)]] = -9.0  # no control characters, no broken UTF-8
    liking[ord("a") : ord("z") + 1] = 0.0
    liking[ord("0") : ord("9") + 1] = -0.5
    for letter, value in {" ": 1.5, '"': 2.0, "}": 2.0, "]": 2.0, ",": -1.0}.items():
        liking[ord(letter)] = value
    for word, value in {"<|im_end|>": 1.5, MARKS[0]: 2.0}.items():
        liking[tokens.index(word)] = value
    for word in ("<|endoftext|>", "<|im_start|>", *GAPS):
        liking[tokens.index(word)] = -9.0
    return liking
