"""Print the JSON Schema of the verdict document, docs/verdict.schema.json."""

from netlab.verdict.model import verdict_schema_json

if __name__ == "__main__":
    print(verdict_schema_json(), end="")
