# Makes a release: version, changelog from the commits since the last tag, commit and tag.
inputs: [{name: version, description: The version to release.}]
main:
- {name: Version, tool: shell, command: "sed -i 's/^version = .*/version = \"{{ version | quote }}\"/' pyproject.toml"}
- name: Changelog
  tool: shell
  command: "(printf '# Changelog\\n\\n## %s\\n\\n' {{ version | quote }}; git log --format='- %s' $(git describe --tags --abbrev=0)..HEAD; tail -n +2 CHANGELOG.md) > .new && mv .new CHANGELOG.md"
- {name: Tag, tool: shell, command: "git commit -qam 'Release '{{ version | quote }} && git tag v{{ version | quote }} && git log --oneline -1"}
