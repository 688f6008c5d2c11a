"""Read the files of cases with libyaml, because ruamel.yaml takes ten times as long and every test process reads them.

PyYAML comes with mkdocs. It follows YAML 1.1 by default, so this reader takes the rules of YAML 1.2 from ruamel.yaml.
"""

from pathlib import Path
from typing import Any, ClassVar

import yaml
from ruamel.yaml.resolver import implicit_resolvers


class _Reader(yaml.CSafeLoader):
    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {}

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(set(keys)) == len(keys), f"a key occurs twice\n{node.start_mark}"
        return super().construct_mapping(node, deep)


for _versions, _tag, _pattern, _first in implicit_resolvers:
    if (1, 2) in _versions:
        _Reader.add_implicit_resolver(_tag, _pattern, _first)


def read_cases(path: Path) -> Any:
    return yaml.load(path.read_text("utf-8"), _Reader)
