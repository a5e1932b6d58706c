"""Print docs/tables.md."""

from netlab.schema import tables_markdown

if __name__ == "__main__":
    print(tables_markdown(), end="")
