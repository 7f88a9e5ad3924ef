"""Tables of the languages that can be edited: which syntax nodes have names, lists and bodies.

The names of nodes are those of the pinned grammars; a test compares the tables with them.
"""

from __future__ import annotations

import os
from typing import Final

import msgspec

_COMMA: Final = ","


class Language(msgspec.Struct, frozen=True, kw_only=True):
    """A language: its files, its grammar, and the roles of its syntax nodes."""

    name: str
    suffixes: tuple[str, ...]
    grammar: tuple[str, str]
    """Module of the grammar, and the function in it."""
    pattern: str | None
    """The name of the language for `pattern=`."""
    declared: dict[str, str]
    """Node type -> kind, for nodes that have a name."""
    wrappers: frozenset[str] = frozenset()
    """Nodes around a single declaration that belong to it: decorators, `export`."""
    prefixes: frozenset[str] = frozenset()
    """Siblings in front of a declaration that belong to it: attributes."""
    lists: dict[str, str] = {}
    """Node type -> what separates its elements."""
    containers: frozenset[str] = frozenset()
    """Nodes with a sequence of statements or members."""
    comments: frozenset[str] = frozenset({"comment"})
    strings: frozenset[str] = frozenset()


def _commas(*types: str) -> dict[str, str]:
    return dict.fromkeys(types, _COMMA)


_JS_DECLARED: Final = {
    "function_declaration": "function",
    "generator_function_declaration": "function",
    "method_definition": "function",
    "class_declaration": "class",
    "class": "class",
    "field_definition": "field",
    "variable_declarator": "variable",
    "pair": "key",
    "import_statement": "import",
    "assignment_expression": "function",
}
_TS_DECLARED: Final = {
    **{kind: name for kind, name in _JS_DECLARED.items() if kind != "field_definition"},
    "abstract_class_declaration": "class",
    "abstract_method_signature": "function",
    "enum_assignment": "member",
    "enum_declaration": "enum",
    "function_signature": "function",
    "interface_declaration": "interface",
    "internal_module": "namespace",
    "method_signature": "function",
    "module": "namespace",
    "property_signature": "field",
    "public_field_definition": "field",
    "type_alias_declaration": "type",
}
_JS_WRAPPERS: Final = frozenset(
    {
        "export_statement",
        "expression_statement",
        "lexical_declaration",
        "variable_declaration",
    }
)
_JS_LISTS: Final = _commas(
    "arguments",
    "array",
    "array_pattern",
    "enum_body",
    "export_clause",
    "formal_parameters",
    "named_imports",
    "object",
    "object_pattern",
    "type_arguments",
    "type_parameters",
)
_JS_CONTAINERS: Final = frozenset(
    {"program", "statement_block", "class_body", "switch_body", "interface_body", "object_type"}
)
_JS_STRINGS: Final = frozenset({"string", "template_string"})
_C_DECLARED: Final = {
    "declaration": "variable",
    "enum_specifier": "enum",
    "enumerator": "member",
    "field_declaration": "field",
    "function_definition": "function",
    "preproc_def": "macro",
    "preproc_function_def": "macro",
    "preproc_include": "import",
    "struct_specifier": "struct",
    "type_definition": "type",
    "union_specifier": "union",
}
_C_LISTS: Final = _commas("argument_list", "enumerator_list", "initializer_list", "parameter_list")
_C_CONTAINERS: Final = frozenset(
    {"translation_unit", "compound_statement", "field_declaration_list", "declaration_list"}
    | {"preproc_if", "preproc_ifdef", "preproc_else", "preproc_elif", "case_statement"}
)

LANGUAGES: Final[tuple[Language, ...]] = (
    Language(
        name="python",
        suffixes=(".py", ".pyi", ".pyw"),
        grammar=("tree_sitter_python", "language"),
        pattern="python",
        declared={
            "assignment": "variable",
            "class_definition": "class",
            "function_definition": "function",
            "import_from_statement": "import",
            "import_statement": "import",
            "type_alias_statement": "type",
        },
        wrappers=frozenset({"decorated_definition", "expression_statement"}),
        lists=_commas(
            "argument_list",
            "dictionary",
            "lambda_parameters",
            "list",
            "parameters",
            "set",
            "tuple",
        ),
        containers=frozenset({"module", "block"}),
        strings=frozenset({"string"}),
    ),
    Language(
        name="javascript",
        suffixes=(".js", ".mjs", ".cjs", ".jsx"),
        grammar=("tree_sitter_javascript", "language"),
        pattern="javascript",
        declared=_JS_DECLARED,
        wrappers=_JS_WRAPPERS,
        prefixes=frozenset({"decorator"}),
        lists={
            kind: sep for kind, sep in _JS_LISTS.items() if not kind.startswith(("type", "enum"))
        },
        containers=_JS_CONTAINERS - {"interface_body", "object_type"},
        strings=_JS_STRINGS,
    ),
    Language(
        name="typescript",
        suffixes=(".ts", ".mts", ".cts"),
        grammar=("tree_sitter_typescript", "language_typescript"),
        pattern="typescript",
        declared=_TS_DECLARED,
        wrappers=_JS_WRAPPERS | {"ambient_declaration"},
        prefixes=frozenset({"decorator"}),
        lists=_JS_LISTS,
        containers=_JS_CONTAINERS,
        strings=_JS_STRINGS,
    ),
    Language(
        name="tsx",
        suffixes=(".tsx",),
        grammar=("tree_sitter_typescript", "language_tsx"),
        pattern="tsx",
        declared=_TS_DECLARED,
        wrappers=_JS_WRAPPERS | {"ambient_declaration"},
        prefixes=frozenset({"decorator"}),
        lists=_JS_LISTS,
        containers=_JS_CONTAINERS,
        strings=_JS_STRINGS,
    ),
    Language(
        name="go",
        suffixes=(".go",),
        grammar=("tree_sitter_go", "language"),
        pattern="go",
        declared={
            "const_spec": "variable",
            "field_declaration": "field",
            "function_declaration": "function",
            "import_spec": "import",
            "method_declaration": "function",
            "method_elem": "function",
            "type_alias": "type",
            "type_spec": "type",
            "var_spec": "variable",
        },
        wrappers=frozenset(
            {"const_declaration", "import_declaration", "type_declaration", "var_declaration"}
        ),
        lists=_commas("argument_list", "literal_value", "parameter_list"),
        containers=frozenset(
            {"source_file", "block", "statement_list", "field_declaration_list", "interface_type"}
            | {"import_spec_list", "var_spec_list", "expression_case", "default_case", "type_case"}
            | {"communication_case"}
        ),
        strings=frozenset({"interpreted_string_literal", "raw_string_literal"}),
    ),
    Language(
        name="rust",
        suffixes=(".rs",),
        grammar=("tree_sitter_rust", "language"),
        pattern="rust",
        declared={
            "const_item": "variable",
            "enum_item": "enum",
            "enum_variant": "member",
            "field_declaration": "field",
            "function_item": "function",
            "function_signature_item": "function",
            "impl_item": "impl",
            "macro_definition": "macro",
            "mod_item": "module",
            "static_item": "variable",
            "struct_item": "struct",
            "trait_item": "trait",
            "type_item": "type",
            "union_item": "union",
            "use_declaration": "import",
        },
        prefixes=frozenset({"attribute_item"}),
        lists=_commas(
            "arguments",
            "array_expression",
            "enum_variant_list",
            "field_declaration_list",
            "field_initializer_list",
            "ordered_field_declaration_list",
            "parameters",
            "tuple_expression",
            "type_arguments",
            "type_parameters",
            "use_list",
        ),
        containers=frozenset({"source_file", "block", "declaration_list", "match_block"}),
        comments=frozenset({"line_comment", "block_comment"}),
        strings=frozenset({"string_literal", "raw_string_literal"}),
    ),
    Language(
        name="java",
        suffixes=(".java",),
        grammar=("tree_sitter_java", "language"),
        pattern="java",
        declared={
            "annotation_type_declaration": "annotation",
            "annotation_type_element_declaration": "function",
            "class_declaration": "class",
            "compact_constructor_declaration": "function",
            "constant_declaration": "field",
            "constructor_declaration": "function",
            "enum_constant": "member",
            "enum_declaration": "enum",
            "field_declaration": "field",
            "import_declaration": "import",
            "interface_declaration": "interface",
            "method_declaration": "function",
            "record_declaration": "record",
        },
        lists=_commas("argument_list", "array_initializer", "enum_body", "formal_parameters"),
        containers=frozenset(
            {"program", "class_body", "interface_body", "block", "constructor_body", "switch_block"}
            | {"enum_body_declarations", "annotation_type_body", "switch_block_statement_group"}
        ),
        comments=frozenset({"line_comment", "block_comment"}),
        strings=frozenset({"string_literal"}),
    ),
    Language(
        name="c",
        suffixes=(".c", ".h"),
        grammar=("tree_sitter_c", "language"),
        pattern="c",
        declared=_C_DECLARED,
        lists=_C_LISTS,
        containers=_C_CONTAINERS,
        strings=frozenset({"string_literal"}),
    ),
    Language(
        name="cpp",
        suffixes=(".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".ipp"),
        grammar=("tree_sitter_cpp", "language"),
        pattern="cpp",
        declared={
            **_C_DECLARED,
            "alias_declaration": "type",
            "class_specifier": "class",
            "concept_definition": "concept",
            "namespace_definition": "namespace",
        },
        wrappers=frozenset({"template_declaration"}),
        lists={**_C_LISTS, **_commas("template_argument_list", "template_parameter_list")},
        containers=_C_CONTAINERS,
        strings=frozenset({"string_literal", "raw_string_literal"}),
    ),
    Language(
        name="json",
        suffixes=(".json", ".jsonc", ".webmanifest"),
        grammar=("tree_sitter_json", "language"),
        pattern="json",
        declared={"pair": "key"},
        lists=_commas("array", "object"),
        strings=frozenset({"string"}),
    ),
    Language(
        name="yaml",
        suffixes=(".yaml", ".yml"),
        grammar=("tree_sitter_yaml", "language"),
        pattern="yaml",
        declared={"block_mapping_pair": "key", "flow_pair": "key", "block_sequence_item": "item"},
        lists=_commas("flow_mapping", "flow_sequence"),
        containers=frozenset({"stream", "document", "block_mapping", "block_sequence"}),
        strings=frozenset({"double_quote_scalar", "single_quote_scalar", "block_scalar"}),
    ),
    Language(
        name="toml",
        suffixes=(".toml",),
        grammar=("tree_sitter_toml", "language"),
        pattern=None,
        declared={"pair": "key", "table": "table", "table_array_element": "table"},
        lists=_commas("array", "inline_table"),
        containers=frozenset({"document", "table", "table_array_element"}),
        strings=frozenset({"string"}),
    ),
)

BY_NAME: Final = {one.name: one for one in LANGUAGES}
BY_SUFFIX: Final = {suffix: one for one in LANGUAGES for suffix in one.suffixes}
KINDS: Final = frozenset(kind for one in LANGUAGES for kind in one.declared.values())


def find_language(path: str) -> Language | None:
    """Return the language of a file by the end of its name: `find_language("a.tsx").name` -> `tsx`."""
    name = os.path.basename(path).lower()
    return BY_SUFFIX.get(os.path.splitext(name)[1])
